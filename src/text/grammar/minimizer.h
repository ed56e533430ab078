// Minimization of deterministic automata. Internal to src/text/grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/grammar/dfa_builder.h"
#include "text/grammar/distinct_states.h"
#include "text/grammar/partition.h"

namespace quire {

// Strongly connected components one by one, each behind those that it leads to (Tarjan 1972). A
// state that is on no circle is equal to a known one exactly if its edges are. Of a component with
// circles either all states are equal to known ones, and then its edges lead side by side with
// those of one such, or none is, and then it is refined for itself.
//
// Used again for the next automaton, it needs no new memory.
class Minimizer {
 public:
  // DfaBuilder::finish().
  Result<Dfa> run(const DfaBuilder& builder, GrammarBudget& budget);

 private:
  using Index = Partition::Index;

  // Of block_, beside numbers of blocks_ and Dfa::kDead.
  static constexpr std::int32_t kUnseen = -2;
  static constexpr std::int32_t kOpen = -3;  // of a component that is not done
  static constexpr std::int32_t kLastSet = INT32_MAX;
  static constexpr std::int32_t kUnmatched = -1;

  struct Frame {
    const DfaEdge* next = nullptr;
    const DfaEdge* end = nullptr;
    Index state = 0;
    Index low = 0;
  };

  void enter(Index state);
  std::int32_t block_behind(const DfaEdge& edge) const {
    return block_[static_cast<std::size_t>(edge.target)];
  }
  Status take_component(Index root, GrammarBudget& budget);
  // False where the state is on a circle.
  bool take_alone(Index state);
  // Whether a text of the component comes to an end.
  bool leads_on() const;
  // Whether its states are equal to states on circles that are done.
  Result<bool> is_known(GrammarBudget& budget);
  // Whether a state's edges lead where those of its match do; matches what they lead to.
  bool goes_along(Index place);
  bool takes_match(const DfaEdge& edge, std::int32_t match);
  // Tells states apart by what leads out of the component, and by the sets of what stays in it.
  // The number of sets, which are the old ones divided further, or those.
  std::size_t divide();
  std::int32_t set_behind(const DfaEdge& edge) const {
    return set_of_[index_[static_cast<std::size_t>(edge.target)]];
  }
  // A few looks at all states (Moore 1956) tell those of most components apart.
  Status refine(GrammarBudget& budget);
  // Where texts that tell states apart are long.
  Status refine_slowly(std::size_t num_sets, GrammarBudget& budget);
  // Takes each set for a merged state.
  void keep();

  const DfaBuilder* builder_ = nullptr;
  std::vector<Index> index_;         // by state: the order in which they are found
  std::vector<std::int32_t> block_;  // by state: the merged state that it belongs to
  DistinctStates blocks_;            // the merged states
  std::unordered_multimap<std::uint64_t, std::int32_t> on_circles_;  // of those, by shape
  std::vector<Frame> frames_;
  std::vector<Index> open_;  // states of components that are not done
  Index count_ = 0;
  std::vector<Index> component_;     // the one at hand
  std::vector<std::int32_t> match_;  // by place in it: a merged state that may be equal
  std::vector<Index> matched_;       // places that have one
  // By place in the component: a set of states that may be equal, and those of the next look.
  std::vector<std::int32_t> set_of_, fresh_set_of_;
  DistinctStates distinct_;                    // of a look
  std::vector<std::int32_t> numbers_, order_;  // of finish_minimal()
};

}  // namespace quire
