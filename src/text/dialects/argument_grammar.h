// What a dialect writes for arguments that are valid under a function's JSON Schema, as a grammar.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "text/dialects/dialect.h"
#include "text/dialects/dialect_marks.h"
#include "text/dialects/tool_set.h"
#include "text/grammar/grammar.h"

namespace quire {

struct ToolSchema {
  std::string_view name;
  const json::value* parameters = nullptr;  // a JSON Schema
};

// The text from behind the name (and the mark behind it) of a call in `form` to the end of its
// arguments, their bracket or last value included: what the dialect's reader makes of it is valid
// under the schema. `types`: of the tool, as the reader will have them. Objects whose schema has
// `properties` have no others, unless it says so. Borrows all.
//
// kInvalidArgument for what is no schema, or one that allows no object, or allows none that the
// dialect can write (a string that has its marks in it, a name that is no word); kUnimplemented for
// a keyword that cannot be kept; kResourceExhausted naming a limit; kCancelled.
Result<Grammar> argument_grammar(const ToolDialect& dialect, CallForm form, const ToolSchema& tool,
                                 const ToolSet& types, const GrammarVocabulary& vocabulary,
                                 GrammarBudget& budget);

}  // namespace quire
