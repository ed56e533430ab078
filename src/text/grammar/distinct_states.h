// States of automata that are built from their ends on. Internal to src/text/grammar.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/dfa_builder.h"

namespace quire {

// A hash of `hash` and one value more.
inline std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

// States, equal ones once: begin() one, add its edges, then take() or keep() it.
class DistinctStates {
 public:
  // Forgets all; about so many come now.
  void clear(std::size_t expected) {
    states_.clear();
    states_.reserve(std::min(expected, kReserved), std::min(expected, kReserved));
    table_.assign(std::bit_ceil(std::min(expected, kReserved) * 2 + 2), kFree);
  }

  void begin(bool accepting) {
    if (states_.num_states() * 2 + 2 > table_.size()) grow();
    states_.add_state(accepting);
  }
  void add(std::uint32_t first, std::uint32_t last, std::int32_t target) {
    states_.add_edge(first, last, target);
  }
  void give_up() { states_.remove_last_state(); }
  // Its number, or that of an equal one; Dfa::kDead where it neither accepts nor leads on.
  std::int32_t take() {
    const std::size_t state = states_.num_states() - 1;
    if (!states_.accepts(state) && states_.edges_of(state).empty()) {
      give_up();
      return Dfa::kDead;
    }
    std::uint32_t& place = place_of(state);
    if (place == kFree) {
      place = static_cast<std::uint32_t>(state);
    } else {
      give_up();
    }
    return static_cast<std::int32_t>(place);
  }
  // Where no other is equal.
  void keep() {
    place_of(states_.num_states() - 1) = static_cast<std::uint32_t>(states_.num_states() - 1);
  }

  const DfaBuilder& states() const { return states_; }
  std::int32_t size() const { return static_cast<std::int32_t>(states_.num_states()); }

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;
  static constexpr std::size_t kReserved = 1 << 14;  // of what is larger, much is often equal

  std::size_t hash_of(std::size_t state) const {
    std::uint64_t hash = states_.accepts(state) ? 1 : 2;
    for (const DfaEdge& edge : states_.edges_of(state)) {
      hash = mixed(hash, edge.first ^ (std::uint64_t{edge.last} << 20) ^
                             (std::uint64_t{static_cast<std::uint32_t>(edge.target)} << 32));
    }
    return static_cast<std::size_t>(hash);
  }
  void grow() {
    table_.assign(table_.size() * 2, kFree);
    for (std::size_t state = 0; state < states_.num_states(); ++state) {
      std::size_t at = hash_of(state) & (table_.size() - 1);
      while (table_[at] != kFree) at = (at + 1) & (table_.size() - 1);
      table_[at] = static_cast<std::uint32_t>(state);
    }
  }

  // Of the table: that of an equal one, or a free one.
  std::uint32_t& place_of(std::size_t state) {
    const bool accepting = states_.accepts(state);
    const std::span<const DfaEdge> edges = states_.edges_of(state);
    std::size_t at = hash_of(state) & (table_.size() - 1);
    for (; table_[at] != kFree; at = (at + 1) & (table_.size() - 1)) {
      const std::size_t known = table_[at];
      const bool equal =
          states_.accepts(known) == accepting && std::ranges::equal(states_.edges_of(known), edges);
      if (equal) break;
    }
    return table_[at];
  }

  DfaBuilder states_;
  std::vector<std::uint32_t> table_;  // of states, open addressing
};

}  // namespace quire
