#include "text/grammar/determinizer.h"

#include <algorithm>
#include <utility>

namespace quire {

Result<Dfa> Determinizer::run(const Nfa& nfa, std::int32_t start, std::int32_t accept,
                              GrammarBudget& budget) {
  nfa_ = &nfa;
  accept_ = accept;
  budget_ = &budget;
  builder_.clear();
  subsets_.clear(nfa.num_states());
  seen_.assign(nfa.num_states(), 0);
  stamp_ = 0;
  single_.assign(nfa.num_states(), kUnknownSubset);
  targets_.assign(1, start);
  QUIRE_RETURN_IF_ERROR(take_subset().status());
  for (std::size_t i = 0; i < subsets_.size(); ++i) {
    const auto subset = subsets_[i];
    builder_.add_state(std::binary_search(subset.begin(), subset.end(), accept_));
    if (!add_only_edge(subset)) QUIRE_RETURN_IF_ERROR(add_edges(subset));
    QUIRE_RETURN_IF_ERROR(budget_->check_size(
        subsets_.size(), std::max(builder_.num_edges(), subsets_.num_members() / 4)));
  }
  return builder_.finish(*budget_);
}

Result<std::int32_t> Determinizer::take_subset() {
  ++stamp_;
  subset_.clear();
  while (!targets_.empty()) {
    const std::int32_t state = targets_.back();
    targets_.pop_back();
    if (seen_[static_cast<std::size_t>(state)] == stamp_) continue;
    seen_[static_cast<std::size_t>(state)] = stamp_;
    bool counts = state == accept_;
    for (std::int32_t at = nfa_->first_edge(state); at >= 0; at = nfa_->edge(at).next) {
      ++looked_at_;
      const Nfa::Edge& edge = nfa_->edge(at);
      if (edge.first == Nfa::kEmpty) {
        targets_.push_back(edge.target);
      } else {
        counts = true;
      }
    }
    if (counts) subset_.push_back(state);
  }
  QUIRE_RETURN_IF_ERROR(budget_->tick(std::exchange(looked_at_, 0)));
  if (subset_.size() > 1) {
    if (nfa_->has_covering()) leave_out_covered();
    std::ranges::sort(subset_);
  }
  return subsets_.number_of(subset_);
}

void Determinizer::leave_out_covered() {
  const auto covers = [this](std::int32_t state) { return nfa_->is_covering(state); };
  if (std::ranges::none_of(subset_, covers)) return;
  std::erase_if(subset_, [&](std::int32_t state) { return state != accept_ && !covers(state); });
}

Result<std::int32_t> Determinizer::take_subset_of(std::int32_t state) {
  std::int32_t& known = single_[static_cast<std::size_t>(state)];
  if (known != kUnknownSubset) return known;
  if (stands_alone(state)) {
    known = subsets_.number_of(std::span(&state, 1));
    return known;
  }
  targets_ = {state};
  QUIRE_ASSIGN_OR_RETURN(known, take_subset());
  return known;
}

bool Determinizer::stands_alone(std::int32_t state) const {
  bool counts = state == accept_;
  for (std::int32_t at = nfa_->first_edge(state); at >= 0; at = nfa_->edge(at).next) {
    if (nfa_->edge(at).first == Nfa::kEmpty) return false;
    counts = true;
  }
  return counts;
}

bool Determinizer::add_only_edge(std::span<const std::int32_t> subset) {
  if (subset.size() != 1) return false;
  const std::int32_t at = nfa_->first_edge(subset.front());
  if (at < 0) return true;
  const Nfa::Edge& edge = nfa_->edge(at);
  if (edge.next >= 0 || edge.first == Nfa::kEmpty) return false;
  std::int32_t& known = single_[static_cast<std::size_t>(edge.target)];
  if (known == kUnknownSubset) {
    if (!stands_alone(edge.target)) return false;
    known = subsets_.number_of(std::span(&edge.target, 1));
  }
  builder_.add_edge(edge.first, edge.last, known);
  return true;
}

Status Determinizer::add_edges(std::span<const std::int32_t> subset) {
  edges_.clear();
  for (const std::int32_t state : subset) {
    for (std::int32_t at = nfa_->first_edge(state); at >= 0; at = nfa_->edge(at).next) {
      if (nfa_->edge(at).first != Nfa::kEmpty) edges_.push_back(nfa_->edge(at));
    }
  }
  QUIRE_RETURN_IF_ERROR(budget_->tick(edges_.size()));
  const auto before = [](const Nfa::Edge& a, const Nfa::Edge& b) { return a.first < b.first; };
  if (!std::ranges::is_sorted(edges_, before)) std::ranges::sort(edges_, before);
  const auto overlap =
      std::adjacent_find(edges_.begin(), edges_.end(),
                         [](const Nfa::Edge& a, const Nfa::Edge& b) { return a.last >= b.first; });
  if (overlap != edges_.end()) return add_overlapping_edges();
  for (const Nfa::Edge& edge : edges_) {
    std::int32_t target = single_[static_cast<std::size_t>(edge.target)];
    if (target == kUnknownSubset) {
      QUIRE_ASSIGN_OR_RETURN(target, take_subset_of(edge.target));
    }
    builder_.add_edge(edge.first, edge.last, target);
  }
  return {};
}

Status Determinizer::add_overlapping_edges() {
  bounds_.clear();
  for (const Nfa::Edge& edge : edges_) {
    bounds_.push_back(edge.first);
    bounds_.push_back(edge.last + 1);
  }
  std::sort(bounds_.begin(), bounds_.end());
  bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  active_.clear();
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < bounds_.size(); ++i) {
    const std::uint32_t first = bounds_[i];
    std::erase_if(active_, [&](const Nfa::Edge& edge) { return edge.last < first; });
    for (; next < edges_.size() && edges_[next].first == first; ++next) {
      active_.push_back(edges_[next]);
    }
    if (active_.empty()) continue;
    QUIRE_RETURN_IF_ERROR(budget_->tick(active_.size()));
    targets_.clear();
    for (const Nfa::Edge& edge : active_) targets_.push_back(edge.target);
    const bool one = std::equal(targets_.begin() + 1, targets_.end(), targets_.begin());
    QUIRE_ASSIGN_OR_RETURN(const std::int32_t target,
                           one ? take_subset_of(targets_[0]) : take_subset());
    builder_.add_edge(first, bounds_[i + 1] - 1, target);
  }
  return {};
}

}  // namespace quire
