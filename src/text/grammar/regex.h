// Regular expressions to automata.
//
// Understood: alternatives, groups (capturing, named, (?:..)), classes with ranges and escapes,
// \d \D \w \W \s \S, \p{..} and \P{..} of general categories, . ^ $, quantifiers * + ? {m} {m,}
// {m,n} (lazy and possessive ones as greedy: as sets of texts they are equal), escapes \n \r \t \v
// \f \0 \xHH \uHHHH \u{H..} \cX, flags (?i) (?s) at the beginning, and (?=..) (?!..) outside of
// groups that are repeated. Refused by name: back-references, look-behind, \b \B, look-ahead within
// repeated groups, conditions, recursion, other properties of \p.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/grammar/dfa.h"

namespace quire {

struct RegexOptions {
  // What ECMA-262 with flag u and what Python, PCRE and Rust mean by . and \s: . leaves out \n,
  // \r, U+2028 and U+2029 there, \n alone here; \s has Unicode's spaces there, ASCII's here.
  enum class Dialect : std::uint8_t { kEcma, kPcre };
  Dialect dialect = Dialect::kPcre;
  // The whole text has to match; else it is enough that a part does (JSON Schema's `pattern`), and
  // what is around it is any valid UTF-8.
  bool whole_text = true;
  bool ignore_case = false;
  bool dot_all = false;  // . is any character
};

// kInvalidArgument with the column (characters, from 1) of what is wrong and what was expected;
// kUnimplemented naming what is not supported; kResourceExhausted naming a limit.
Result<Dfa> regex_to_dfa(std::string_view pattern, const RegexOptions& options,
                         GrammarBudget& budget);

}  // namespace quire
