// One grammar within another.
#pragma once

#include "text/grammar/grammar.h"

namespace quire {

// The texts of `other` as an expression of `builder`: its rules become the builder's, under new
// numbers. Exceeding a limit is the builder's error.
ExprId include_grammar(const Grammar& other, GrammarBuilder& builder);

}  // namespace quire
