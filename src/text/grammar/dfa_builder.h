// Makes a Dfa from states and edges as they are found. Internal to src/text/grammar.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/limits.h"

namespace quire {

class DfaBuilder {
 public:
  // States in the order of their numbers, the start first, each followed by its edges sorted by
  // column; edges may lead to states that come later, or to Dfa::kDead.
  void add_state(bool accepting) {
    begins_.push_back(static_cast<std::uint32_t>(edges_.size()));
    accepting_.push_back(accepting ? 1 : 0);
  }
  void add_edge(std::uint32_t first, std::uint32_t last, std::int32_t target) {
    if (target == Dfa::kDead) return;
    const bool has_one = edges_.size() > begins_.back();
    if (has_one && edges_.back().target == target && edges_.back().last + 1 == first) {
      edges_.back().last = last;
    } else {
      edges_.push_back({first, last, target});
    }
  }
  // Forgets all of them.
  void clear() {
    begins_.clear();
    edges_.clear();
    accepting_.clear();
  }
  // For so many altogether.
  void reserve(std::size_t states, std::size_t edges) {
    begins_.reserve(states);
    accepting_.reserve(states);
    edges_.reserve(edges);
  }

  bool accepts(std::size_t state) const { return accepting_[state] != 0; }
  // Of a state, as they were added.
  std::span<const DfaEdge> edges_of(std::size_t state) const {
    const std::size_t end = state + 1 < begins_.size() ? begins_[state + 1] : edges_.size();
    return {edges_.data() + begins_[state], edges_.data() + end};
  }
  std::size_t num_states() const { return accepting_.size(); }
  std::size_t num_edges() const { return edges_.size(); }

  // Minimizes; each state can be reached from the start. The builder is of no use afterwards.
  Result<Dfa> finish(GrammarBudget& budget);
  // What can be reached from `start`, where no two states can be merged and each leads to an
  // accepting one.
  Dfa finish_minimal(std::int32_t start = 0) const;
  // With buffers to use.
  Dfa finish_minimal(std::int32_t start, std::vector<std::int32_t>& number,
                     std::vector<std::int32_t>& order) const;

 private:
  friend class DistinctStates;

  void remove_last_state();

  std::vector<std::uint32_t> begins_;
  std::vector<DfaEdge> edges_;
  std::vector<std::uint8_t> accepting_;
};

}  // namespace quire
