// Strings of a pattern whose characters are counted as well. Internal to JSON Schema.
//
// An automaton of bytes would have every character's bytes and escapes once for each count. Here a
// rule's automaton has a step for each character, and what stands for that is a rule of its own,
// the same for all counts.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/grammar/char_set.h"
#include "text/grammar/grammar.h"
#include "text/grammar/json_schema_characters.h"

namespace quire {

// Rules for one character of a set, in JSON's spellings; one for equal sets.
class CharacterRules {
 public:
  Result<RuleId> rule_of(const CharSet& characters, GrammarBuilder& builder);

 private:
  std::vector<std::pair<CharSet, RuleId>> rules_;
};

// The texts of `automaton` of `min` to `max` characters (any number), of which there are some. At
// least one of both bounds says something.
Result<ExprId> counted_text(const CharacterAutomaton& automaton, std::uint32_t min,
                            std::optional<std::uint32_t> max, CharacterRules& rules,
                            GrammarBuilder& builder);

}  // namespace quire
