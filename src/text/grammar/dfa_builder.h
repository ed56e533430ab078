// Makes a Dfa from states and edges as they are found. Internal to src/text/grammar.
#pragma once

#include <cstdint>
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
    accepting_.push_back(accepting);
  }
  void add_edge(std::uint32_t first, std::uint32_t last, std::int32_t target);

  std::size_t num_states() const { return accepting_.size(); }
  std::size_t num_edges() const { return edges_.size(); }

  // Minimizes; each state can be reached from the start. The builder is of no use afterwards.
  Result<Dfa> finish(GrammarBudget& budget);
  // Where no two states can be merged.
  Dfa finish_minimal();

 private:
  class Minimizer;

  // The edges that lead to each state, by their index in edges_, and the state that each is of.
  struct Incoming;
  // Which states lead to an accepting one.
  std::vector<bool> useful_states(const Incoming& incoming) const;
  // Leaves out what is not useful, and numbers the rest as Dfa promises; `block[s]`: the merged
  // state that s belongs to.
  Dfa numbered(const std::vector<bool>& useful, const std::vector<std::int32_t>& block,
               std::size_t num_blocks) const;
  std::span<const DfaEdge> edges_of(std::size_t state) const;

  std::vector<std::uint32_t> begins_;
  std::vector<DfaEdge> edges_;
  std::vector<bool> accepting_;
};

}  // namespace quire
