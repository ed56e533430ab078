#include "text/grammar/json_schema_characters.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quire {
namespace {

// One step of an automaton over characters.
struct CharacterStep {
  CharRange codes;
  std::int32_t target = 0;
};

bool is_one_edge(const Dfa& dfa, std::int32_t state, DfaEdge* edge) {
  const std::span<const DfaEdge> edges = dfa.edges(state);
  if (edges.size() != 1 || edges.front().first != 0x80 || edges.front().last != 0xBF) return false;
  *edge = edges.front();
  return true;
}

// The characters that begin with bytes of `first`..`last` (as code points so far) and go on from
// `state` for `rest` more bytes. Where all that can follow leads to one state, that is one range.
void add_steps(const Dfa& dfa, std::int32_t state, char32_t first, char32_t last, int rest,
               std::vector<CharacterStep>& steps) {
  if (rest == 0) {
    steps.push_back({{first, last}, state});
    return;
  }
  DfaEdge edge;
  if (is_one_edge(dfa, state, &edge)) {
    add_steps(dfa, edge.target, first << 6, (last << 6) | 0x3F, rest - 1, steps);
    return;
  }
  for (char32_t code = first; code <= last; ++code) {
    for (const DfaEdge& next : dfa.edges(state)) {
      add_steps(dfa, next.target, (code << 6) | (next.first & 0x3F),
                (code << 6) | (next.last & 0x3F), rest - 1, steps);
    }
  }
}

std::vector<CharacterStep> steps_from(const Dfa& dfa, std::int32_t state) {
  struct Lead {
    std::uint32_t first, last, bits;
    int rest;
  };
  constexpr std::array<Lead, 4> kLeads = {
      {{0x00, 0x7F, 0, 0}, {0xC2, 0xDF, 0xC0, 1}, {0xE0, 0xEF, 0xE0, 2}, {0xF0, 0xF4, 0xF0, 3}}};
  std::vector<CharacterStep> steps;
  for (const DfaEdge& edge : dfa.edges(state)) {
    for (const Lead& lead : kLeads) {
      const std::uint32_t first = std::max(edge.first, lead.first);
      const std::uint32_t last = std::min(edge.last, lead.last);
      if (first > last) continue;
      add_steps(dfa, edge.target, first - lead.bits, last - lead.bits, lead.rest, steps);
    }
  }
  return steps;
}

// The states that so many characters lead to, character by character.
class CharacterLevels {
 public:
  explicit CharacterLevels(const CharacterAutomaton& automaton)
      : automaton_(automaton), states_(1, 0), seen_(automaton.num_states(), 0) {}

  const std::vector<std::size_t>& states() const { return states_; }
  void go_on() {
    ++count_;
    behind_.clear();
    for (const std::size_t state : states_) {
      for (const CharacterEdge& edge : automaton_.edges[state]) {
        if (std::exchange(seen_[edge.target], count_) != count_) behind_.push_back(edge.target);
      }
    }
    states_.swap(behind_);
  }

 private:
  const CharacterAutomaton& automaton_;
  std::vector<std::size_t> states_, behind_;
  std::vector<std::uint64_t> seen_;  // by state: the latest count that has led there
  std::uint64_t count_ = 0;
};

}  // namespace

Result<CharacterAutomaton> character_automaton(const Dfa& meant, GrammarBudget& budget) {
  constexpr std::size_t kNoNumber = SIZE_MAX;
  CharacterAutomaton automaton;
  std::vector<std::int32_t>& states = automaton.states;
  states = {0};
  std::vector<std::size_t> numbers(meant.num_states(), kNoNumber);
  numbers[0] = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::vector<CharacterStep> steps = steps_from(meant, states[i]);
    QUIRE_RETURN_IF_ERROR(budget.tick(16 + steps.size()));
    std::ranges::stable_sort(steps, {}, &CharacterStep::target);
    std::vector<CharacterEdge> edges;
    for (std::size_t at = 0; at < steps.size();) {
      const std::int32_t target = steps[at].target;
      std::vector<CharRange> codes;
      for (; at < steps.size() && steps[at].target == target; ++at) {
        codes.push_back(steps[at].codes);
      }
      std::size_t& number = numbers[static_cast<std::size_t>(target)];
      if (number == kNoNumber) {
        number = states.size();
        states.push_back(target);
      }
      edges.push_back({CharSet(std::move(codes)), number});
    }
    automaton.edges.push_back(std::move(edges));
    automaton.accepting.push_back(meant.accepts(states[i]));
  }
  return automaton;
}

std::vector<std::uint32_t> shortest_rests(const CharacterAutomaton& automaton) {
  std::vector<std::vector<std::size_t>> incoming(automaton.num_states());
  std::vector<std::uint32_t> rests(automaton.num_states(), UINT32_MAX);
  std::vector<std::size_t> todo;
  for (std::size_t state = 0; state < automaton.num_states(); ++state) {
    for (const CharacterEdge& edge : automaton.edges[state]) {
      incoming[edge.target].push_back(state);
    }
    if (!automaton.accepting[state]) continue;
    rests[state] = 0;
    todo.push_back(state);
  }
  for (std::size_t i = 0; i < todo.size(); ++i) {
    for (const std::size_t from : incoming[todo[i]]) {
      if (rests[from] != UINT32_MAX) continue;
      rests[from] = rests[todo[i]] + 1;
      todo.push_back(from);
    }
  }
  return rests;
}

std::optional<std::uint32_t> longest_text(const CharacterAutomaton& automaton) {
  // In the order in which nothing leads back; where that does not have all states, some form a
  // circle.
  std::vector<std::uint32_t> incoming(automaton.num_states(), 0);
  for (const auto& edges : automaton.edges) {
    for (const CharacterEdge& edge : edges) ++incoming[edge.target];
  }
  std::vector<std::size_t> order;
  if (incoming[0] == 0) order.push_back(0);
  std::vector<std::uint32_t> longest(automaton.num_states(), 0);
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t state = order[i];
    if (automaton.accepting[state]) most = std::max(most, longest[state]);
    for (const CharacterEdge& edge : automaton.edges[state]) {
      longest[edge.target] = std::max(longest[edge.target], longest[state] + 1);
      if (--incoming[edge.target] == 0) order.push_back(edge.target);
    }
  }
  if (order.size() != automaton.num_states()) return std::nullopt;
  return most;
}

Result<bool> has_text_of_length(const CharacterAutomaton& automaton, std::uint32_t min,
                                std::optional<std::uint32_t> max, GrammarBudget& budget) {
  // Of a text that goes round in circles, one circle less is a text as well, so that if there is
  // any of at least `min` characters, there is one of that many and no more than there are states.
  std::uint64_t last = std::uint64_t{min} + automaton.num_states();
  if (max) last = std::min<std::uint64_t>(last, *max);
  CharacterLevels levels(automaton);
  for (std::uint64_t count = 0; count <= last && !levels.states().empty(); ++count) {
    const auto accepts = [&](std::size_t state) { return automaton.accepting[state]; };
    if (count >= min && std::ranges::any_of(levels.states(), accepts)) return true;
    QUIRE_RETURN_IF_ERROR(budget.tick(levels.states().size()));
    levels.go_on();
  }
  return false;
}

Result<std::uint32_t> countable_length(const CharacterAutomaton& automaton, std::uint32_t max,
                                       std::size_t most, GrammarBudget& budget) {
  CharacterLevels levels(automaton);
  std::size_t pairs = 1;
  for (std::uint32_t count = 0; count < max; ++count) {
    QUIRE_RETURN_IF_ERROR(budget.tick(levels.states().size()));
    levels.go_on();
    if (levels.states().empty()) return max;
    pairs += levels.states().size();
    if (pairs > most) return count;
  }
  return max;
}

}  // namespace quire
