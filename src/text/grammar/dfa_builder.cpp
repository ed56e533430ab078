#include "text/grammar/dfa_builder.h"

namespace quire {

void DfaBuilder::remove_last_state() {
  edges_.resize(begins_.back());
  begins_.pop_back();
  accepting_.pop_back();
}

Dfa DfaBuilder::finish_minimal(std::int32_t start) const {
  std::vector<std::int32_t> number, order;
  return finish_minimal(start, number, order);
}

Dfa DfaBuilder::finish_minimal(std::int32_t start, std::vector<std::int32_t>& number,
                               std::vector<std::int32_t>& order) const {
  Dfa dfa;
  if (num_states() == 0 || start == Dfa::kDead) return dfa;
  number.assign(num_states(), -1);
  order.assign(1, start);
  number[static_cast<std::size_t>(start)] = 0;
  dfa.begins_.reserve(num_states() + 1);
  dfa.edges_.reserve(num_edges());
  dfa.accepting_.reserve(num_states());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto state = static_cast<std::size_t>(order[i]);
    dfa.begins_.push_back(static_cast<std::uint32_t>(dfa.edges_.size()));
    dfa.accepting_.push_back(accepting_[state]);
    for (const DfaEdge& edge : edges_of(state)) {
      std::int32_t& target = number[static_cast<std::size_t>(edge.target)];
      if (target < 0) {
        target = static_cast<std::int32_t>(order.size());
        order.push_back(edge.target);
      }
      dfa.edges_.push_back({edge.first, edge.last, target});
    }
  }
  dfa.begins_.push_back(static_cast<std::uint32_t>(dfa.edges_.size()));
  return dfa;
}

}  // namespace quire
