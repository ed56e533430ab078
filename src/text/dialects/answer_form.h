// What a request demands of its answer's form beyond its content: calls of tools that always parse
// and whose arguments always validate, and that all of it is true behind reasoning.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/dialects/dialect.h"
#include "text/dialects/output_parser.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_vocabulary.h"

namespace quire {

struct CallableFunction {
  std::string name;
  json::value parameters;  // a JSON Schema
  bool strict = false;     // else any object is good where calls are not required
};

struct AnswerCalls {
  const ToolDialect* dialect = nullptr;
  std::vector<CallableFunction> functions;  // that may be called
  bool required = false;                    // else an answer without calls is good as well
  bool parallel = true;                     // more than one call
};

struct AnswerForm {
  using Function = CallableFunction;
  using Calls = AnswerCalls;

  // Null: the answer begins without, and none is recognised.
  const ReasoningDialect* reasoning = nullptr;
  ReasoningStart start = ReasoningStart::kUnsaid;
  std::optional<Calls> calls;
  // The most tokens of reasoning, at least 0: its end is forced after so many.
  std::optional<std::int64_t> thinking_budget;
  // What content must be, in the form that the code that compiles it reads; null: any text.
  json::value content;

  // To a structural tag of the type "answer", for code that passes it on without knowing dialects,
  // and back. nullopt for another structural tag; kInvalidArgument for an incomplete one.
  std::string to_text() const;
  static Result<std::optional<AnswerForm>> from_text(std::string_view text);
};

// All answers of this form: reasoning, if there is any, then `content` (null: any text that has no
// mark of a call) or calls. Where calls are not required a call may follow text, and ends the
// answer together with those that follow it; of a dialect whose calls have no mark, text cannot
// begin as they do. Reasoning has no mark of a call. Borrows all.
//
// Errors as of argument_grammar(), each beginning with the name of the function that it is about.
Result<Grammar> answer_grammar(const AnswerForm& form, const Grammar* content,
                               const GrammarVocabulary& vocabulary, GrammarBudget& budget);

}  // namespace quire
