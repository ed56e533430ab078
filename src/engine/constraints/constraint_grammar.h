// Which reader of text/grammar a request's constraint is for.
#pragma once

#include "base/status.h"
#include "core/structured_outputs.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/grammar/limits.h"

namespace quire {

// The grammar of a constraint that validate() has passed. kInvalidArgument with the place of what
// is wrong, kUnimplemented naming what is not supported, kResourceExhausted naming a limit,
// kCancelled; without the field's name. `vocabulary`: of the model, which has marks of answers as
// tokens; may be null where `constraint` has no structural tag.
Result<Grammar> constraint_grammar(const StructuredOutputsParams& constraint, GrammarBudget& budget,
                                   const GrammarVocabulary* vocabulary = nullptr);

}  // namespace quire
