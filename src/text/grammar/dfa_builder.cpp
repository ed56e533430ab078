#include "text/grammar/dfa_builder.h"

namespace quire {

void DfaBuilder::add_edge(std::uint32_t first, std::uint32_t last, std::int32_t target) {
  if (target == Dfa::kDead) return;
  const bool has_one = !edges_.empty() && edges_.size() > begins_.back();
  if (has_one && edges_.back().target == target && edges_.back().last + 1 == first) {
    edges_.back().last = last;
  } else {
    edges_.push_back({first, last, target});
  }
}

std::span<const DfaEdge> DfaBuilder::edges_of(std::size_t state) const {
  const std::size_t end = state + 1 < begins_.size() ? begins_[state + 1] : edges_.size();
  return {edges_.data() + begins_[state], edges_.data() + end};
}

Dfa DfaBuilder::numbered(const std::vector<bool>& useful, const std::vector<std::int32_t>& block,
                         std::size_t num_blocks) const {
  Dfa dfa;
  if (num_states() == 0 || !useful[0]) return dfa;
  std::vector<std::int32_t> number(num_blocks, -1);
  std::vector<std::size_t> order = {0};  // a state of each block
  number[static_cast<std::size_t>(block[0])] = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    dfa.begins_.push_back(static_cast<std::uint32_t>(dfa.edges_.size()));
    dfa.accepting_.push_back(accepting_[order[i]]);
    const std::size_t begin = dfa.edges_.size();
    for (const DfaEdge& edge : edges_of(order[i])) {
      const auto target = static_cast<std::size_t>(edge.target);
      if (!useful[target]) continue;
      std::int32_t& id = number[static_cast<std::size_t>(block[target])];
      if (id < 0) {
        id = static_cast<std::int32_t>(order.size());
        order.push_back(target);
      }
      if (dfa.edges_.size() > begin && dfa.edges_.back().target == id &&
          dfa.edges_.back().last + 1 == edge.first) {
        dfa.edges_.back().last = edge.last;
      } else {
        dfa.edges_.push_back({edge.first, edge.last, id});
      }
    }
  }
  dfa.begins_.push_back(static_cast<std::uint32_t>(dfa.edges_.size()));
  return dfa;
}

Dfa DfaBuilder::finish_minimal() {
  std::vector<std::int32_t> block(num_states());
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::int32_t>(i);
  return numbered(std::vector<bool>(num_states(), true), block, num_states());
}

}  // namespace quire
