// The calls of a dialect as a grammar, from its data. Internal to src/text/dialects.
#pragma once

#include <string_view>
#include <vector>

#include "text/dialects/answer_form.h"
#include "text/dialects/dialect_marks.h"
#include "text/dialects/tool_set.h"

namespace quire {

class CallGrammar {
 public:
  // Borrows all.
  CallGrammar(const AnswerForm::Calls& calls, const GrammarVocabulary& vocabulary,
              GrammarBuilder& builder);

  // Makes the arguments of all functions. To be called first; errors of argument_grammar().
  Status prepare();

  // One or more calls, as an answer may begin with them.
  ExprId calls();
  // The calls that begin with a mark, which may follow text; nothing if there are none.
  ExprId marked_calls();
  // White space between an answer's parts, not much.
  ExprId gap() const { return gap_; }
  // In harmony: a message that is a call, behind <|start|>assistant.
  ExprId channel_call();

 private:
  ExprId section(std::string_view begin);
  ExprId body();
  ExprId list();
  ExprId row(ExprId one, ExprId separator);
  ExprId call(CallForm form);
  ExprId object_call(std::size_t function);
  ExprId named_call(std::size_t function);
  // With white space before it; an empty one is nothing.
  ExprId mark_behind_gap(std::string_view text);
  ExprId mark(std::string_view text) { return marks_.mark(text); }
  bool has_rows() const;

  const AnswerForm::Calls& calls_;
  const ToolDialect& dialect_;
  const GrammarVocabulary& vocabulary_;
  GrammarBuilder& builder_;
  DialectMarks marks_;
  ToolSet types_;
  ExprId gap_ = 0;
  ExprId body_ = 0;
  std::vector<ExprId> json_;   // arguments by function, of CallForm::kObject
  std::vector<ExprId> named_;  // of kNamed
};

}  // namespace quire
