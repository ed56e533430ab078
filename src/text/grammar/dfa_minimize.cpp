#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "text/grammar/automaton_workspace.h"
#include "text/grammar/index_by_key.h"
#include "text/grammar/partition.h"

namespace quire {

namespace {

using Index = Partition::Index;

// Columns that no edge tells apart have one label.
class ColumnLabels {
 public:
  explicit ColumnLabels(const std::vector<DfaEdge>& edges) {
    std::array<bool, 257> begins{};
    for (const DfaEdge& edge : edges) {
      for (const std::uint32_t bound : {edge.first, edge.last + 1}) {
        if (bound <= 256) {
          begins[bound] = true;
        } else {
          bounds_.push_back(bound);
        }
      }
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    Index label = 0;
    for (std::size_t column = 0; column <= 256; ++column) {
      if (begins[column]) ++label;
      of_low_[column] = label;
    }
  }
  Index num_labels() const { return of_low_[256] + static_cast<Index>(bounds_.size()) + 1; }
  Index of(std::uint32_t column) const {
    if (column <= 256) return of_low_[column];
    const auto behind = std::upper_bound(bounds_.begin(), bounds_.end(), column);
    return of_low_[256] + static_cast<Index>(behind - bounds_.begin());
  }

 private:
  std::array<Index, 257> of_low_{};
  std::vector<std::uint32_t> bounds_;  // beyond those
};

// Of what equal states have in common, wherever their edges lead.
template <typename IsDead>
std::uint64_t shape_of(bool accepting, std::span<const DfaEdge> edges, IsDead is_dead) {
  std::uint64_t hash = accepting ? 1 : 2;
  std::uint32_t behind = UINT32_MAX;  // the last range
  for (const DfaEdge& edge : edges) {
    if (is_dead(edge)) continue;
    if (edge.first != behind) hash = mixed(mixed(hash, behind), edge.first);
    behind = edge.last + 1;
  }
  return mixed(hash, behind);
}

}  // namespace

Result<Dfa> Minimizer::run(const DfaBuilder& builder, GrammarBudget& budget) {
  builder_ = &builder;
  index_.assign(builder.num_states(), 0);
  block_.assign(builder.num_states(), kUnseen);
  blocks_.clear(builder.num_states());
  if (!on_circles_.empty()) on_circles_ = {};
  frames_.clear();
  open_.clear();
  count_ = 0;
  enter(0);
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (frame.next != frame.end) {
      const auto target = static_cast<Index>((frame.next++)->target);
      if (block_[target] == kUnseen) {
        enter(target);
      } else if (block_[target] == kOpen) {
        frame.low = std::min(frame.low, index_[target]);
      }
      continue;
    }
    const Frame done = frame;
    frames_.pop_back();
    if (done.low == index_[done.state]) {
      QUIRE_RETURN_IF_ERROR(take_component(done.state, budget));
    } else {
      frames_.back().low = std::min(frames_.back().low, done.low);
    }
  }
  QUIRE_RETURN_IF_ERROR(budget.tick(builder_->num_edges()));
  return blocks_.states().finish_minimal(block_[0], numbers_, order_);
}

void Minimizer::enter(Index state) {
  const std::span<const DfaEdge> edges = builder_->edges_of(state);
  index_[state] = count_;
  block_[state] = kOpen;
  open_.push_back(state);
  frames_.push_back({edges.data(), edges.data() + edges.size(), state, count_});
  ++count_;
}

Status Minimizer::take_component(Index root, GrammarBudget& budget) {
  if (open_.back() == root && take_alone(root)) {
    open_.pop_back();
    return {};
  }
  const auto begin = std::ranges::find(open_.rbegin(), open_.rend(), root).base() - 1;
  component_.assign(begin, open_.end());
  open_.erase(begin, open_.end());
  for (std::size_t i = 0; i < component_.size(); ++i) {
    index_[component_[i]] = static_cast<Index>(i);  // from now on its place there
  }
  QUIRE_RETURN_IF_ERROR(budget.tick(component_.size()));
  if (!leads_on()) {
    for (const Index state : component_) block_[state] = Dfa::kDead;
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const bool known, is_known(budget));
  return known ? Status() : refine(budget);
}

bool Minimizer::take_alone(Index state) {
  blocks_.begin(builder_->accepts(state));
  for (const DfaEdge& edge : builder_->edges_of(state)) {
    const std::int32_t block = block_behind(edge);
    if (block == kOpen) {
      blocks_.give_up();
      return false;
    }
    blocks_.add(edge.first, edge.last, block);
  }
  block_[state] = blocks_.take();
  return true;
}

bool Minimizer::leads_on() const {
  return std::ranges::any_of(component_, [this](Index state) {
    return builder_->accepts(state) ||
           std::ranges::any_of(builder_->edges_of(state),
                               [this](const DfaEdge& edge) { return block_behind(edge) >= 0; });
  });
}

Result<bool> Minimizer::is_known(GrammarBudget& budget) {
  const Index root = component_.front();
  const std::uint64_t shape =
      shape_of(builder_->accepts(root), builder_->edges_of(root),
               [this](const DfaEdge& edge) { return block_behind(edge) == Dfa::kDead; });
  match_.assign(component_.size(), kUnmatched);
  const auto [first, last] = on_circles_.equal_range(shape);
  for (auto at = first; at != last; ++at) {
    matched_ = {0};
    match_[0] = at->second;
    bool equal = true;
    for (std::size_t i = 0; equal && i < matched_.size(); ++i) equal = goes_along(matched_[i]);
    QUIRE_RETURN_IF_ERROR(budget.tick(matched_.size()));
    if (equal) {
      for (std::size_t i = 0; i < component_.size(); ++i) block_[component_[i]] = match_[i];
      return true;
    }
    for (const Index place : matched_) match_[place] = kUnmatched;
  }
  return false;
}

bool Minimizer::goes_along(Index place) {
  const Index state = component_[place];
  const auto match = static_cast<std::size_t>(match_[place]);
  const std::span<const DfaEdge> others = blocks_.states().edges_of(match);
  if (builder_->accepts(state) != blocks_.states().accepts(match)) return false;
  std::uint64_t left = 0;  // columns that the match has besides
  for (const DfaEdge& other : others) left += std::uint64_t{other.last} - other.first + 1;
  std::size_t at = 0;
  for (const DfaEdge& edge : builder_->edges_of(state)) {
    if (block_behind(edge) == Dfa::kDead) continue;
    for (std::uint32_t from = edge.first; from <= edge.last;) {
      while (at < others.size() && others[at].last < from) ++at;
      if (at == others.size() || others[at].first > from) return false;
      if (!takes_match(edge, others[at].target)) return false;
      const std::uint32_t to = std::min(edge.last, others[at].last);
      left -= to - from + 1;
      from = to + 1;
    }
  }
  return left == 0;
}

bool Minimizer::takes_match(const DfaEdge& edge, std::int32_t match) {
  if (block_behind(edge) != kOpen) return block_behind(edge) == match;
  const Index place = index_[static_cast<std::size_t>(edge.target)];
  if (match_[place] == kUnmatched) {
    match_[place] = match;
    matched_.push_back(place);
  }
  return match_[place] == match;
}

std::size_t Minimizer::divide() {
  distinct_.clear(component_.size());
  fresh_set_of_.clear();
  for (const Index state : component_) {
    distinct_.begin(builder_->accepts(state));
    for (const DfaEdge& edge : builder_->edges_of(state)) {
      const std::int32_t block = block_behind(edge);
      // Sets within have the numbers that blocks do not have.
      distinct_.add(edge.first, edge.last, block == kOpen ? kLastSet - set_behind(edge) : block);
    }
    fresh_set_of_.push_back(distinct_.take());
  }
  set_of_.swap(fresh_set_of_);
  return static_cast<std::size_t>(distinct_.size());
}

Status Minimizer::refine(GrammarBudget& budget) {
  constexpr int kMostLooks = 8;
  set_of_.assign(component_.size(), 0);
  std::size_t before = 1;
  for (int look = 0;; ++look) {
    const std::size_t sets = divide();
    QUIRE_RETURN_IF_ERROR(budget.tick(component_.size()));
    if (sets == before || sets == component_.size()) break;
    before = sets;
    if (look < kMostLooks) continue;
    QUIRE_RETURN_IF_ERROR(refine_slowly(sets, budget));
    break;
  }
  keep();
  return {};
}

Status Minimizer::refine_slowly(std::size_t num_sets, GrammarBudget& budget) {
  std::vector<DfaEdge> inner;
  std::vector<Index> inner_tails;
  for (const Index state : component_) {
    for (const DfaEdge& edge : builder_->edges_of(state)) {
      if (block_behind(edge) != kOpen) continue;
      inner.push_back(edge);
      inner_tails.push_back(index_[state]);
    }
  }
  const ColumnLabels columns(inner);
  std::vector<Index> labels, tails, heads;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const Index last = columns.of(inner[i].last);
    for (Index label = columns.of(inner[i].first); label <= last; ++label) {
      labels.push_back(label);
      tails.push_back(inner_tails[i]);
      heads.push_back(index_[static_cast<std::size_t>(inner[i].target)]);
    }
    QUIRE_RETURN_IF_ERROR(budget.tick());
    QUIRE_RETURN_IF_ERROR(budget.check_size(0, labels.size() / 4));
  }
  Partition blocks(component_.size());
  blocks.divide({set_of_.begin(), set_of_.end()}, num_sets);
  Partition cords(labels.size());
  cords.divide(labels, columns.num_labels());
  const IndexByKey incoming(component_.size(), heads);
  std::size_t next_block = 1;
  const auto split_cords = [&] {
    for (; next_block < blocks.num_sets(); ++next_block) {
      for (const Index state : blocks.set(next_block)) {
        for (const Index edge : incoming.of(state)) cords.mark(edge);
      }
      cords.split();
    }
  };
  split_cords();
  for (std::size_t cord = 0; cord < cords.num_sets(); ++cord) {
    for (const Index edge : cords.set(cord)) blocks.mark(tails[edge]);
    QUIRE_RETURN_IF_ERROR(budget.tick(cords.set(cord).size()));
    blocks.split();
    split_cords();
  }
  for (std::size_t i = 0; i < set_of_.size(); ++i) {
    set_of_[i] = static_cast<std::int32_t>(blocks.set_of(i));
  }
  return {};
}

void Minimizer::keep() {
  const std::int32_t base = blocks_.size();
  std::vector<Index> members(component_.size());  // one of each set
  std::size_t num_sets = 0;
  for (std::size_t i = 0; i < component_.size(); ++i) {
    members[static_cast<std::size_t>(set_of_[i])] = component_[i];
    num_sets = std::max(num_sets, static_cast<std::size_t>(set_of_[i]) + 1);
  }
  for (std::size_t set = 0; set < num_sets; ++set) {
    const bool accepting = builder_->accepts(members[set]);
    blocks_.begin(accepting);
    for (const DfaEdge& edge : builder_->edges_of(members[set])) {
      const std::int32_t block = block_behind(edge);
      blocks_.add(edge.first, edge.last, block == kOpen ? base + set_behind(edge) : block);
    }
    blocks_.keep();
    const std::int32_t number = base + static_cast<std::int32_t>(set);
    const std::uint64_t shape =
        shape_of(accepting, blocks_.states().edges_of(static_cast<std::size_t>(number)),
                 [](const DfaEdge&) { return false; });
    on_circles_.emplace(shape, number);
  }
  for (std::size_t i = 0; i < component_.size(); ++i) block_[component_[i]] = base + set_of_[i];
}

Result<Dfa> DfaBuilder::finish(GrammarBudget& budget) {
  if (num_states() == 0) return Dfa();
  return budget.workspace().minimizer.run(*this, budget);
}

}  // namespace quire
