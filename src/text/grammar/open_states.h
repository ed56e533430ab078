// The states of open automata that texts have come to, with numbers behind those of RuleAutomata.
// Internal to src/text/grammar.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/rule_automata.h"

namespace quire {

class OpenStates {
 public:
  static constexpr std::uint32_t kNever = RuleAutomata::kNever;

  // `automata` outlives it.
  explicit OpenStates(const RuleAutomata& automata);

  // Whether the state is one of these.
  bool has(std::uint32_t state) const { return state >= first_; }

  std::uint32_t rule_of(std::uint32_t state) const { return of(state).open->rule; }
  const OpenAutomaton& automaton(std::uint32_t state) const { return *of(state).open->automaton; }
  std::string_view value(std::uint32_t state) const { return of(state).value; }
  bool accepts(std::uint32_t state);
  // kNever where the byte leads nowhere.
  std::uint32_t next(std::uint32_t state, std::uint8_t byte);
  // The state that `value`, of the same automaton as `state`, is.
  std::uint32_t state_of(std::uint32_t state, std::string value) {
    return intern(of(state).open, std::move(value));
  }
  // The bytes that lead on, in the order of the alphabet, at most `most` of them.
  std::string next_bytes(std::uint32_t state, std::size_t most) const;
  bool leads_on(std::uint32_t state) const { return !next_bytes(state, 1).empty(); }

  // A state of another one's.
  std::uint32_t adopt(const OpenStates& other, std::uint32_t state) {
    return has(state) ? intern(other.of(state).open, other.of(state).value) : state;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  using OpenRule = RuleAutomata::OpenRule;
  struct State {
    const OpenRule* open = nullptr;
    std::string value;
    std::optional<bool> accepts;
  };

  const State& of(std::uint32_t state) const { return states_[state - first_]; }
  std::uint32_t intern(const OpenRule* open, std::string value);

  std::uint32_t first_;
  std::deque<State> states_;  // whose values do not move
  std::vector<std::unordered_map<std::string_view, std::uint32_t>> known_;  // by open rule
  const RuleAutomata* automata_;
  std::size_t bytes_ = 0;
};

}  // namespace quire
