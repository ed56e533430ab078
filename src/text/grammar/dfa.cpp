#include "text/grammar/dfa.h"

#include <algorithm>
#include <utility>

#include "text/grammar/dfa_builder.h"
#include "text/grammar/fixed_dfa.h"
#include "text/grammar/nfa.h"

namespace quire {

namespace {

// The value of what cannot hit a limit: the automaton of a class, of all text.
Dfa small_dfa(const Nfa& nfa, std::int32_t start, std::int32_t accept) {
  return fixed_dfa([&](GrammarBudget& budget) { return nfa.determinize(start, accept, budget); });
}

}  // namespace

Dfa Dfa::empty_text() { return literal({}); }

Dfa Dfa::literal(std::string_view bytes) {
  Dfa dfa;
  dfa.edges_.reserve(bytes.size());
  dfa.begins_.resize(bytes.size() + 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    dfa.begins_[i + 1] = static_cast<std::uint32_t>(i + 1);
    dfa.edges_.push_back({byte, byte, static_cast<std::int32_t>(i + 1)});
  }
  dfa.begins_.back() = static_cast<std::uint32_t>(bytes.size());
  dfa.accepting_.resize(bytes.size() + 1, 0);
  dfa.accepting_.back() = 1;
  return dfa;
}

Dfa Dfa::char_class(const CharSet& set) {
  Nfa nfa;
  const std::int32_t start = nfa.add_state();
  const std::int32_t accept = nfa.add_state();
  nfa.add_chars(set, start, accept);
  return small_dfa(nfa, start, accept);
}

Dfa Dfa::any_byte() {
  DfaBuilder builder;
  builder.add_state(false);
  builder.add_edge(0, 255, 1);
  builder.add_state(true);
  return builder.finish_minimal();
}

const Dfa& Dfa::any_text() {
  static const Dfa dfa = [] {
    Nfa nfa;
    const std::int32_t state = nfa.add_state();
    nfa.add_chars(CharSet::all(), state, state);
    return small_dfa(nfa, state, state);
  }();
  return dfa;
}

std::int32_t Dfa::next(std::int32_t state, std::uint32_t column) const {
  if (state < 0) return kDead;
  const std::span<const DfaEdge> all = edges(state);
  const auto at = std::partition_point(
      all.begin(), all.end(), [column](const DfaEdge& edge) { return edge.last < column; });
  return at != all.end() && at->first <= column ? at->target : kDead;
}

bool Dfa::matches(std::string_view text) const {
  std::int32_t state = start();
  for (const char c : text) state = next(state, static_cast<unsigned char>(c));
  return accepts(state);
}

std::optional<std::vector<std::string>> Dfa::texts(std::size_t most) const {
  std::vector<std::string> result;
  if (is_empty()) return result;
  // Depth first, with the next byte to try on each level. A text longer than there are states goes
  // round in a circle, and then there are texts without end.
  std::vector<std::pair<std::int32_t, std::uint32_t>> path = {{0, 0}};
  std::string text;
  if (accepts(0)) result.emplace_back();
  while (!path.empty()) {
    if (result.size() > most || text.size() > num_states()) return std::nullopt;
    auto& [state, column] = path.back();
    while (column < 256 && next(state, column) == kDead) ++column;
    if (column == 256) {
      path.pop_back();
      if (!text.empty()) text.pop_back();
      continue;
    }
    const std::int32_t target = next(state, column);
    text += static_cast<char>(column);
    ++column;
    if (accepts(target)) result.push_back(text);
    path.emplace_back(target, 0);
  }
  if (result.size() > most) return std::nullopt;
  return result;
}

std::optional<std::string> Dfa::shortest() const {
  if (is_empty()) return std::nullopt;
  std::vector<std::pair<std::int32_t, char>> from(num_states(), {kDead, '\0'});
  std::vector<std::int32_t> order = {0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (accepts(order[i])) {
      std::string text;
      for (std::int32_t at = order[i]; at != 0; at = from[static_cast<std::size_t>(at)].first) {
        text += from[static_cast<std::size_t>(at)].second;
      }
      std::reverse(text.begin(), text.end());
      return text;
    }
    for (const DfaEdge& edge : edges(order[i])) {
      auto& way = from[static_cast<std::size_t>(edge.target)];
      if (edge.target == 0 || way.first != kDead) continue;
      way = {order[i], static_cast<char>(edge.first)};
      order.push_back(edge.target);
    }
  }
  return std::nullopt;  // not reached: every state leads to an accepting one
}

}  // namespace quire
