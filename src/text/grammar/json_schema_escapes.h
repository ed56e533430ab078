// How JSON spells strings: from languages of texts as they are meant to languages of what stands
// between quotes (RFC 8259, section 7).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/char_set.h"
#include "text/grammar/dfa.h"
#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"

namespace quire {

// The spellings of the texts of `meant` (UTF-8): printable ASCII as it is (\" and \\ apart), any
// other character as it is, where JSON allows that, as \uXXXX, or by a short escape.
Result<Dfa> json_spellings(const Dfa& meant, GrammarBudget& budget);

// The same of all texts but these, which are sorted. Nullopt where one of them is long or has
// characters that have several spellings: json_spellings() has to see to those.
Result<std::optional<Dfa>> json_spellings_of_others(const std::vector<std::string>& texts,
                                                    GrammarBudget& budget);

// The same of one character of the set.
Result<Dfa> json_spellings_of_one(const CharSet& characters, GrammarBudget& budget);

// The spellings of any one character: all escapes, of ASCII too.
const Dfa& json_character_spellings();

// The spellings of `text`, quotes included.
ExprId json_literal(std::string_view text, GrammarBuilder& builder);

}  // namespace quire
