#include "text/grammar/dfa_builder.h"

#include <algorithm>

namespace quire {

namespace {

// A partition of 0..n-1 that is refined: elements are marked, then each set with marked elements is
// split in two, of which the smaller gets a new number (Valmari 2012).
class Partition {
 public:
  explicit Partition(std::size_t size)
      : elements_(size), location_(size), set_of_(size, 0), first_{0}, past_{size}, marked_{0} {
    for (std::size_t i = 0; i < size; ++i) elements_[i] = location_[i] = i;
    if (size == 0) first_.clear(), past_.clear(), marked_.clear();
  }

  // Instead of the one set: one for each key, in the order of keys.
  void divide(const std::vector<std::uint32_t>& keys) {
    std::stable_sort(elements_.begin(), elements_.end(),
                     [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
    first_.clear(), past_.clear(), marked_.clear();
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      if (i == 0 || keys[elements_[i]] != keys[elements_[i - 1]]) {
        if (i > 0) past_.push_back(i);
        first_.push_back(i);
        marked_.push_back(0);
      }
      set_of_[elements_[i]] = first_.size() - 1;
      location_[elements_[i]] = i;
    }
    if (!elements_.empty()) past_.push_back(elements_.size());
  }

  void mark(std::size_t element) {
    const std::size_t set = set_of_[element];
    const std::size_t from = location_[element];
    const std::size_t to = first_[set] + marked_[set];
    elements_[from] = elements_[to];
    location_[elements_[from]] = from;
    elements_[to] = element;
    location_[element] = to;
    if (marked_[set]++ == 0) touched_.push_back(set);
  }

  void split() {
    while (!touched_.empty()) {
      const std::size_t set = touched_.back();
      touched_.pop_back();
      const std::size_t middle = first_[set] + marked_[set];
      marked_[set] = 0;
      if (middle == past_[set]) continue;
      const std::size_t fresh = first_.size();
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
      for (std::size_t i = first_[fresh]; i < past_[fresh]; ++i) set_of_[elements_[i]] = fresh;
    }
  }

  std::size_t num_sets() const { return first_.size(); }
  std::size_t set_of(std::size_t element) const { return set_of_[element]; }
  std::span<const std::size_t> set(std::size_t index) const {
    return {elements_.data() + first_[index], elements_.data() + past_[index]};
  }

 private:
  std::vector<std::size_t> elements_, location_, set_of_;
  std::vector<std::size_t> first_, past_, marked_;
  std::vector<std::size_t> touched_;
};

// Edges by what they lead to.
class IncomingEdges {
 public:
  IncomingEdges(std::size_t num_states, const std::vector<std::int32_t>& heads)
      : begins_(num_states + 1, 0), edges_(heads.size()) {
    for (const std::int32_t head : heads) ++begins_[static_cast<std::size_t>(head) + 1];
    for (std::size_t i = 0; i < num_states; ++i) begins_[i + 1] += begins_[i];
    std::vector<std::size_t> at(begins_.begin(), begins_.end() - 1);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      edges_[at[static_cast<std::size_t>(heads[i])]++] = i;
    }
  }
  std::span<const std::size_t> of(std::size_t state) const {
    return {edges_.data() + begins_[state], edges_.data() + begins_[state + 1]};
  }

 private:
  std::vector<std::size_t> begins_, edges_;
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
  std::vector<std::int32_t> heads, tails;
  for (std::size_t state = 0; state < n; ++state) {
    if (!reached[state]) continue;
    for (const DfaEdge& edge : edges_of(state)) {
      heads.push_back(edge.target);
      tails.push_back(static_cast<std::int32_t>(state));
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
    for (const std::size_t edge : incoming.of(state)) {
      const auto tail = static_cast<std::size_t>(tails[edge]);
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

  // Ranges of columns become single labels: columns that no edge tells apart are one.
  std::vector<std::uint32_t> bounds;
  for (const DfaEdge& edge : edges_) {
    bounds.push_back(edge.first);
    bounds.push_back(edge.last + 1);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::vector<std::uint32_t> labels;
  std::vector<std::int32_t> tails, heads;
  for (std::size_t state = 0; state < num_states(); ++state) {
    if (!useful[state]) continue;
    for (const DfaEdge& edge : edges_of(state)) {
      if (!useful[static_cast<std::size_t>(edge.target)]) continue;
      auto at = std::lower_bound(bounds.begin(), bounds.end(), edge.first);
      for (; at != bounds.end() && *at <= edge.last; ++at) {
        labels.push_back(static_cast<std::uint32_t>(at - bounds.begin()));
        tails.push_back(static_cast<std::int32_t>(state));
        heads.push_back(edge.target);
      }
      QUIRE_RETURN_IF_ERROR(budget.tick());
    }
    QUIRE_RETURN_IF_ERROR(budget.check_size(0, labels.size() / 4));
  }

  Partition blocks(num_states());
  for (std::size_t state = 0; state < num_states(); ++state) {
    if (useful[state] && accepting_[state]) blocks.mark(state);
  }
  blocks.split();
  Partition cords(labels.size());
  cords.divide(labels);
  const IncomingEdges incoming(num_states(), heads);
  std::size_t next_block = 1;
  for (std::size_t cord = 0; cord < cords.num_sets(); ++cord) {
    for (const std::size_t edge : cords.set(cord)) {
      blocks.mark(static_cast<std::size_t>(tails[edge]));
    }
    QUIRE_RETURN_IF_ERROR(budget.tick(cords.set(cord).size()));
    blocks.split();
    for (; next_block < blocks.num_sets(); ++next_block) {
      for (const std::size_t state : blocks.set(next_block)) {
        for (const std::size_t edge : incoming.of(state)) cords.mark(edge);
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
