#include "text/grammar/dfa_builder.h"

#include <algorithm>
#include <array>

namespace quire {

namespace {

using Index = std::uint32_t;

// A partition of 0..n-1 that is refined: elements are marked, then each set with marked elements is
// split in two, of which the smaller gets a new number (Valmari 2012).
class Partition {
 public:
  explicit Partition(std::size_t size)
      : elements_(size), location_(size), set_of_(size, 0), first_(1, 0), past_(1), marked_(1, 0) {
    for (std::size_t i = 0; i < size; ++i) elements_[i] = location_[i] = static_cast<Index>(i);
    past_[0] = static_cast<Index>(size);
  }

  // Instead of the one set: one for each key that there is, in the order of keys, which are below
  // `num_keys`.
  void divide(const std::vector<Index>& keys, std::size_t num_keys) {
    std::vector<Index> at(num_keys + 1, 0);
    for (const Index key : keys) ++at[key + 1];
    first_.clear();
    past_.clear();
    std::vector<Index> set_of_key(num_keys, 0);
    for (std::size_t key = 0; key < num_keys; ++key) {
      const Index count = at[key + 1];
      at[key + 1] += at[key];
      if (count == 0) continue;
      set_of_key[key] = static_cast<Index>(first_.size());
      first_.push_back(at[key]);
      past_.push_back(at[key] + count);
    }
    marked_.assign(first_.size(), 0);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Index place = at[keys[i]]++;
      elements_[place] = static_cast<Index>(i);
      location_[i] = place;
      set_of_[i] = set_of_key[keys[i]];
    }
  }

  void mark(Index element) {
    const Index set = set_of_[element];
    const Index from = location_[element];
    const Index to = first_[set] + marked_[set];
    elements_[from] = elements_[to];
    location_[elements_[from]] = from;
    elements_[to] = element;
    location_[element] = to;
    if (marked_[set]++ == 0) touched_.push_back(set);
  }

  void split() {
    while (!touched_.empty()) {
      const Index set = touched_.back();
      touched_.pop_back();
      const Index middle = first_[set] + marked_[set];
      marked_[set] = 0;
      if (middle == past_[set]) continue;
      const auto fresh = static_cast<Index>(first_.size());
      if (middle - first_[set] <= past_[set] - middle) {
        first_.push_back(first_[set]);
        past_.push_back(middle);
        first_[set] = middle;
      } else {
        first_.push_back(middle);
        past_.push_back(past_[set]);
        past_[set] = middle;
      }
      marked_.push_back(0);
      for (Index i = first_[fresh]; i < past_[fresh]; ++i) set_of_[elements_[i]] = fresh;
    }
  }

  std::size_t num_sets() const { return first_.size(); }
  Index set_of(std::size_t element) const { return set_of_[element]; }
  std::span<const Index> set(std::size_t index) const {
    return {elements_.data() + first_[index], elements_.data() + past_[index]};
  }

 private:
  std::vector<Index> elements_, location_, set_of_;
  std::vector<Index> first_, past_, marked_;
  std::vector<Index> touched_;
};

// Edges by what they lead to.
class IncomingEdges {
 public:
  IncomingEdges(std::size_t num_states, const std::vector<Index>& heads)
      : begins_(num_states + 2, 0), edges_(heads.size()) {
    for (const Index head : heads) ++begins_[head + std::size_t{2}];
    for (std::size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    for (std::size_t i = 0; i < heads.size(); ++i) {
      edges_[begins_[heads[i] + std::size_t{1}]++] = static_cast<Index>(i);
    }
  }
  std::span<const Index> of(std::size_t state) const {
    return {edges_.data() + begins_[state], edges_.data() + begins_[state + 1]};
  }

 private:
  std::vector<Index> begins_, edges_;
};

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

}  // namespace

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

std::vector<bool> DfaBuilder::useful_states() const {
  const std::size_t n = num_states();
  std::vector<bool> reached(n, false);
  std::vector<std::size_t> todo = {0};
  reached[0] = true;
  while (!todo.empty()) {
    const std::size_t state = todo.back();
    todo.pop_back();
    for (const DfaEdge& edge : edges_of(state)) {
      const auto target = static_cast<std::size_t>(edge.target);
      if (!reached[target]) {
        reached[target] = true;
        todo.push_back(target);
      }
    }
  }
  std::vector<Index> heads, tails;
  heads.reserve(edges_.size());
  tails.reserve(edges_.size());
  for (std::size_t state = 0; state < n; ++state) {
    if (!reached[state]) continue;
    for (const DfaEdge& edge : edges_of(state)) {
      heads.push_back(static_cast<Index>(edge.target));
      tails.push_back(static_cast<Index>(state));
    }
  }
  const IncomingEdges incoming(n, heads);
  std::vector<bool> useful(n, false);
  for (std::size_t state = 0; state < n; ++state) {
    if (reached[state] && accepting_[state]) {
      useful[state] = true;
      todo.push_back(state);
    }
  }
  while (!todo.empty()) {
    const std::size_t state = todo.back();
    todo.pop_back();
    for (const Index edge : incoming.of(state)) {
      const Index tail = tails[edge];
      if (!useful[tail]) {
        useful[tail] = true;
        todo.push_back(tail);
      }
    }
  }
  return useful;
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

Result<Dfa> DfaBuilder::finish(GrammarBudget& budget) {
  if (num_states() == 0) return Dfa();
  const std::vector<bool> useful = useful_states();
  if (!useful[0]) return Dfa();

  const ColumnLabels columns(edges_);
  std::vector<Index> labels, tails, heads;
  for (std::size_t state = 0; state < num_states(); ++state) {
    if (!useful[state]) continue;
    for (const DfaEdge& edge : edges_of(state)) {
      if (!useful[static_cast<std::size_t>(edge.target)]) continue;
      const Index last = columns.of(edge.last);
      for (Index label = columns.of(edge.first); label <= last; ++label) {
        labels.push_back(label);
        tails.push_back(static_cast<Index>(state));
        heads.push_back(static_cast<Index>(edge.target));
      }
      QUIRE_RETURN_IF_ERROR(budget.tick());
    }
    QUIRE_RETURN_IF_ERROR(budget.check_size(0, labels.size() / 4));
  }

  Partition blocks(num_states());
  for (std::size_t state = 0; state < num_states(); ++state) {
    if (useful[state] && accepting_[state]) blocks.mark(static_cast<Index>(state));
  }
  blocks.split();
  Partition cords(labels.size());
  cords.divide(labels, columns.num_labels());
  const IncomingEdges incoming(num_states(), heads);
  std::size_t next_block = 1;
  for (std::size_t cord = 0; cord < cords.num_sets(); ++cord) {
    for (const Index edge : cords.set(cord)) blocks.mark(tails[edge]);
    QUIRE_RETURN_IF_ERROR(budget.tick(cords.set(cord).size()));
    blocks.split();
    for (; next_block < blocks.num_sets(); ++next_block) {
      for (const Index state : blocks.set(next_block)) {
        for (const Index edge : incoming.of(state)) cords.mark(edge);
      }
      cords.split();
    }
  }
  std::vector<std::int32_t> block(num_states());
  for (std::size_t state = 0; state < num_states(); ++state) {
    block[state] = static_cast<std::int32_t>(blocks.set_of(state));
  }
  return numbered(useful, block, blocks.num_sets());
}

}  // namespace quire
