#include "text/grammar/open_states.h"

#include <utility>

namespace quire {

bool OpenAutomaton::matches(std::string_view text) const {
  std::string state = start();
  for (const char c : text) {
    std::optional<std::string> behind = next(state, static_cast<std::uint8_t>(c));
    if (!behind) return false;
    state = *std::move(behind);
  }
  return accepts(state);
}

OpenStates::OpenStates(const RuleAutomata& automata)
    : first_(static_cast<std::uint32_t>(automata.num_states())),
      known_(automata.open.size()),
      automata_(&automata) {
  // In the order that RuleAutomata says.
  for (const OpenRule& open : automata.open) intern(&open, open.automaton->start());
}

std::uint32_t OpenStates::intern(const OpenRule* open, std::string value) {
  auto& known = known_[static_cast<std::size_t>(open - automata_->open.data())];
  const auto found = known.find(value);
  if (found != known.end()) return found->second;
  const auto state = first_ + static_cast<std::uint32_t>(states_.size());
  bytes_ += sizeof(State) + 2 * value.capacity() + 4 * sizeof(void*);
  states_.push_back({.open = open, .value = std::move(value), .accepts = {}});
  known.emplace(states_.back().value, state);
  return state;
}

bool OpenStates::accepts(std::uint32_t state) {
  State& at = states_[state - first_];
  if (!at.accepts) at.accepts = at.open->automaton->accepts(at.value);
  return *at.accepts;
}

std::uint32_t OpenStates::next(std::uint32_t state, std::uint8_t byte) {
  const State& at = of(state);
  std::optional<std::string> behind = at.open->automaton->next(at.value, byte);
  return behind ? intern(at.open, *std::move(behind)) : kNever;
}

std::string OpenStates::next_bytes(std::uint32_t state, std::size_t most) const {
  const State& at = of(state);
  std::string found;
  for (const char byte : at.open->automaton->alphabet()) {
    if (found.size() == most) break;
    if (at.open->automaton->next(at.value, static_cast<std::uint8_t>(byte))) found += byte;
  }
  return found;
}

}  // namespace quire
