#include "text/grammar/nfa.h"

#include <algorithm>
#include <array>
#include <vector>

#include "text/grammar/automaton_workspace.h"

namespace quire {

namespace {

// The bytes of a sequence of UTF-8, each from a range.
struct ByteRanges {
  std::array<std::uint8_t, 4> first{};
  std::array<std::uint8_t, 4> last{};
  std::size_t size = 0;
};

ByteRanges spell(char32_t first, char32_t last, std::size_t size) {
  constexpr std::array<unsigned, 5> kLead = {0, 0x00, 0xC0, 0xE0, 0xF0};
  ByteRanges ranges;
  ranges.size = size;
  for (std::size_t i = size; i-- > 1;) {
    ranges.first[i] = static_cast<std::uint8_t>(0x80 | (first & 0x3F));
    ranges.last[i] = static_cast<std::uint8_t>(0x80 | (last & 0x3F));
    first >>= 6;
    last >>= 6;
  }
  ranges.first[0] = static_cast<std::uint8_t>(kLead[size] | first);
  ranges.last[0] = static_cast<std::uint8_t>(kLead[size] | last);
  return ranges;
}

// Cuts a range of characters of one length into parts of which each byte is free within a range
// whatever the others are.
void split_range(char32_t first, char32_t last, std::size_t size, std::vector<ByteRanges>& out) {
  for (std::size_t i = 1; i < size; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // bits of the last i bytes
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      split_range(first, first | low, size, out);
      return split_range((first | low) + 1, last, size, out);
    }
    if ((last & low) != low) {
      split_range(first, (last & ~low) - 1, size, out);
      return split_range(last & ~low, last, size, out);
    }
  }
  out.push_back(spell(first, last, size));
}

}  // namespace

void Nfa::add_dfa(const Dfa& dfa, std::int32_t from, std::int32_t to) {
  if (dfa.is_empty()) return;
  if (dfa.accepts(0)) add_empty(from, to);
  const auto states = static_cast<std::int32_t>(dfa.num_states());
  // The start is `from`, unless something leads back to it; and what accepts and leads nowhere,
  // which is one state at most, is `to`.
  bool apart = false;
  std::int32_t last = states;
  for (std::int32_t state = 0; state < states; ++state) {
    const std::span<const DfaEdge> edges = dfa.edges(state);
    if (edges.empty()) last = state;
    apart = apart || std::ranges::any_of(edges, [](const DfaEdge& e) { return e.target == 0; });
  }
  const auto base = static_cast<std::int32_t>(num_states()) - (apart ? 0 : 1);
  const auto place = [&](std::int32_t state) {
    if (state == last) return to;
    if (state == 0 && !apart) return from;
    return base + state - (state > last ? 1 : 0);
  };
  for (std::int32_t i = (apart ? 0 : 1) + (last < states ? 1 : 0); i < states; ++i) add_state();
  if (apart) add_empty(from, base);
  for (std::int32_t state = 0; state < states; ++state) {
    const std::span<const DfaEdge> edges = dfa.edges(state);
    // The last one first, as a state's latest edge comes first in its list.
    for (std::size_t i = edges.size(); i-- > 0;) {
      add_edge(place(state), edges[i].first, edges[i].last, place(edges[i].target));
    }
    if (dfa.accepts(state) && state != last && (apart || state != 0)) add_empty(place(state), to);
  }
}

void Nfa::add_chars(const CharSet& set, std::int32_t from, std::int32_t to) {
  constexpr std::array<char32_t, 4> kLast = {0x7F, 0x7FF, 0xFFFF, CharSet::kLastCode};
  std::vector<ByteRanges> parts;
  for (const CharRange& range : set.ranges()) {
    char32_t first = range.first;
    for (std::size_t size = 1; size <= 4; ++size) {
      const char32_t last = std::min(range.last, kLast[size - 1]);
      if (first > last) continue;
      split_range(first, last, size, parts);
      first = last + 1;
    }
  }
  for (const ByteRanges& part : parts) {
    std::int32_t at = from;
    for (std::size_t i = 0; i < part.size; ++i) {
      const std::int32_t next = i + 1 == part.size ? to : add_state();
      add_edge(at, part.first[i], part.last[i], next);
      at = next;
    }
  }
}

Result<Dfa> Nfa::determinize(std::int32_t start, std::int32_t accept, GrammarBudget& budget) const {
  return budget.workspace().determinizer.run(*this, start, accept, budget);
}

}  // namespace quire
