// Languages of texts as automata over characters, and how long their texts are. Internal to JSON
// Schema.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "text/grammar/char_set.h"
#include "text/grammar/dfa.h"
#include "text/grammar/limits.h"

namespace quire {

struct CharacterEdge {
  CharSet characters;
  std::size_t target = 0;
};

// State 0 is the start. Edges of one state have no character in common. Every state leads to an
// accepting one.
struct CharacterAutomaton {
  std::vector<std::vector<CharacterEdge>> edges;  // by state
  std::vector<bool> accepting;
  std::vector<std::int32_t> states;  // by state: that of the automaton of bytes

  std::size_t num_states() const { return accepting.size(); }
};

// `meant`: not empty, of valid UTF-8.
Result<CharacterAutomaton> character_automaton(const Dfa& meant, GrammarBudget& budget);

// The least number of characters that lead from each state to an accepting one.
std::vector<std::uint32_t> shortest_rests(const CharacterAutomaton& automaton);
// The characters of the longest text; nullopt where there is none.
std::optional<std::uint32_t> longest_text(const CharacterAutomaton& automaton);

// Whether a text has from `min` to `max` characters.
Result<bool> has_text_of_length(const CharacterAutomaton& automaton, std::uint32_t min,
                                std::optional<std::uint32_t> max, GrammarBudget& budget);

// The largest number up to `max` of characters that can be counted with at most `most` pairs of a
// state and a count.
Result<std::uint32_t> countable_length(const CharacterAutomaton& automaton, std::uint32_t max,
                                       std::size_t most, GrammarBudget& budget);

}  // namespace quire
