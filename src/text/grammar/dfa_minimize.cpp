// The smallest automaton of a language (dfa.h says by which algorithm).
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/dfa_builder.h"
#include "text/grammar/index_by_key.h"

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

// Numbers of lists of edges, equal lists having one.
class EdgeLists {
 public:
  explicit EdgeLists(std::size_t most) : table_(std::bit_ceil(most * 2 + 2), kFree) {}

  std::size_t size() const { return lists_.size(); }
  // Neighbours with one target are joined.
  void add(DfaEdge edge) {
    const bool joins =
        !next_.empty() && next_.back().target == edge.target && next_.back().last + 1 == edge.first;
    if (joins) {
      next_.back().last = edge.last;
    } else {
      next_.push_back(edge);
    }
  }
  // Of the edges added since the last call, in a state that accepts or not. A new list is that of
  // `number`.
  Index take(bool accepting, Index number) {
    std::uint64_t hash = accepting ? 1 : 2;
    for (const DfaEdge& edge : next_) {
      hash = (hash ^ edge.first ^ (std::uint64_t{edge.last} << 32)) * 0x9E3779B97F4A7C15U;
      hash = (hash ^ static_cast<std::uint32_t>(edge.target)) * 0xC2B2AE3D27D4EB4FU;
      hash ^= hash >> 29;
    }
    std::size_t at = static_cast<std::size_t>(hash) & (table_.size() - 1);
    for (; table_[at] != kFree; at = (at + 1) & (table_.size() - 1)) {
      const List& known = lists_[table_[at]];
      const auto begin = pool_.begin() + known.begin;
      if (known.accepting == accepting &&
          std::equal(begin, begin + known.size, next_.begin(), next_.end())) {
        next_.clear();
        return known.number;
      }
    }
    table_[at] = static_cast<Index>(lists_.size());
    lists_.push_back(
        {static_cast<std::ptrdiff_t>(pool_.size()), std::ssize(next_), number, accepting});
    pool_.insert(pool_.end(), next_.begin(), next_.end());
    next_.clear();
    return number;
  }

 private:
  static constexpr Index kFree = UINT32_MAX;
  struct List {
    std::ptrdiff_t begin = 0, size = 0;  // in pool_
    Index number = 0;
    bool accepting = false;
  };
  std::vector<Index> table_;  // of lists_, open addressing
  std::vector<List> lists_;
  std::vector<DfaEdge> pool_, next_;
};

}  // namespace

struct DfaBuilder::Incoming {
  explicit Incoming(const DfaBuilder& builder)
      : tails(builder.edges_.size()),
        by_target(builder.num_states(), builder.edges_.size(), [&builder](std::size_t edge) {
          return static_cast<Index>(builder.edges_[edge].target);
        }) {
    for (std::size_t state = 0; state < builder.num_states(); ++state) {
      const std::span<const DfaEdge> edges = builder.edges_of(state);
      const auto begin = tails.begin() + (edges.data() - builder.edges_.data());
      std::fill_n(begin, edges.size(), static_cast<Index>(state));
    }
  }
  std::span<const Index> of(std::size_t state) const { return by_target.of(state); }

  std::vector<Index> tails;
  IndexByKey by_target;
};

std::vector<bool> DfaBuilder::useful_states(const Incoming& incoming) const {
  std::vector<bool> useful = accepting_;
  std::vector<Index> todo;
  for (std::size_t state = 0; state < num_states(); ++state) {
    if (useful[state]) todo.push_back(static_cast<Index>(state));
  }
  while (!todo.empty()) {
    const Index state = todo.back();
    todo.pop_back();
    for (const Index edge : incoming.of(state)) {
      const Index tail = incoming.tails[edge];
      if (useful[tail]) continue;
      useful[tail] = true;
      todo.push_back(tail);
    }
  }
  return useful;
}

// Which states are equal. Those that lead into no circle are, and those that no circle leads to,
// exactly if their edges are, so that they take a look each, last ones first; only what lies on
// circles and between them is refined.
class DfaBuilder::Minimizer {
 public:
  Minimizer(const DfaBuilder& builder, const Incoming& incoming, const std::vector<bool>& useful)
      : builder_(builder),
        incoming_(incoming),
        useful_(useful),
        num_states_(builder.num_states()),
        kind_(num_states_, Kind::kCircle),
        blocks_(num_states_, 0),
        lists_(num_states_) {}

  Status run(GrammarBudget& budget) {
    sort();
    QUIRE_RETURN_IF_ERROR(budget.tick(builder_.num_edges()));
    for (const Index state : ends_) take(state);
    if (!circles_.empty()) QUIRE_RETURN_IF_ERROR(refine(budget));
    for (auto state = begins_.rbegin(); state != begins_.rend(); ++state) take(*state);
    return budget.tick(builder_.num_edges());
  }

  const std::vector<std::int32_t>& blocks() const { return blocks_; }
  std::size_t num_blocks() const { return num_blocks_; }

 private:
  enum class Kind : std::uint8_t { kEnd, kCircle, kBegin };

  template <typename Visit>
  void each_edge(std::size_t state, Visit visit) const {
    for (const DfaEdge& edge : builder_.edges_of(state)) {
      if (useful_[static_cast<std::size_t>(edge.target)]) visit(edge);
    }
  }
  Kind kind_of(const DfaEdge& edge) const { return kind_[static_cast<std::size_t>(edge.target)]; }

  void sort() {
    std::vector<Index> left(num_states_, 0);
    ends_.reserve(num_states_);
    for (std::size_t state = 0; state < num_states_; ++state) {
      if (!useful_[state]) continue;
      each_edge(state, [&](const DfaEdge&) { ++left[state]; });
      if (left[state] == 0) ends_.push_back(static_cast<Index>(state));
    }
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      kind_[ends_[i]] = Kind::kEnd;
      for (const Index edge : incoming_.of(ends_[i])) {
        const Index tail = incoming_.tails[edge];
        if (--left[tail] == 0) ends_.push_back(tail);
      }
    }
    std::ranges::fill(left, 0);
    for (std::size_t state = 0; state < num_states_; ++state) {
      if (!useful_[state] || kind_[state] == Kind::kEnd) continue;
      left[state] = static_cast<Index>(incoming_.of(state).size());
    }
    if (kind_[0] != Kind::kEnd && left[0] == 0) begins_.push_back(0);
    for (std::size_t i = 0; i < begins_.size(); ++i) {
      kind_[begins_[i]] = Kind::kBegin;
      each_edge(begins_[i], [&](const DfaEdge& edge) {
        const auto target = static_cast<std::size_t>(edge.target);
        if (kind_[target] != Kind::kEnd && --left[target] == 0) {
          begins_.push_back(static_cast<Index>(target));
        }
      });
    }
    for (std::size_t state = 0; state < num_states_; ++state) {
      if (useful_[state] && kind_[state] == Kind::kCircle) {
        circles_.push_back(static_cast<Index>(state));
      }
    }
  }

  // The block of a state, of whose targets the blocks are known.
  void take(Index state) {
    each_edge(state, [&](const DfaEdge& edge) {
      lists_.add({edge.first, edge.last, blocks_[static_cast<std::size_t>(edge.target)]});
    });
    const auto fresh = static_cast<Index>(num_blocks_);
    const Index block = lists_.take(builder_.accepting_[state], fresh);
    if (block == fresh) ++num_blocks_;
    blocks_[state] = static_cast<std::int32_t>(block);
  }

  // At first states are told apart by what leads to ends.
  void divide(Partition& blocks) const {
    EdgeLists lists(circles_.size());
    std::vector<Index> keys;
    for (const Index state : circles_) {
      each_edge(state, [&](const DfaEdge& edge) {
        if (kind_of(edge) != Kind::kEnd) return;
        lists.add({edge.first, edge.last, blocks_[static_cast<std::size_t>(edge.target)]});
      });
      keys.push_back(lists.take(builder_.accepting_[state], static_cast<Index>(lists.size())));
    }
    blocks.divide(keys, lists.size());
  }

  Status refine(GrammarBudget& budget) {
    std::vector<Index> place(num_states_, 0);
    for (std::size_t i = 0; i < circles_.size(); ++i) place[circles_[i]] = static_cast<Index>(i);
    std::vector<DfaEdge> inner;
    std::vector<Index> inner_tails;
    for (const Index state : circles_) {
      each_edge(state, [&](const DfaEdge& edge) {
        if (kind_of(edge) == Kind::kEnd) return;
        inner.push_back(edge);
        inner_tails.push_back(place[state]);
      });
    }
    const ColumnLabels columns(inner);
    std::vector<Index> labels, tails, heads;
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const Index last = columns.of(inner[i].last);
      for (Index label = columns.of(inner[i].first); label <= last; ++label) {
        labels.push_back(label);
        tails.push_back(inner_tails[i]);
        heads.push_back(place[static_cast<std::size_t>(inner[i].target)]);
      }
      QUIRE_RETURN_IF_ERROR(budget.tick());
      QUIRE_RETURN_IF_ERROR(budget.check_size(0, labels.size() / 4));
    }
    Partition blocks(circles_.size());
    divide(blocks);
    Partition cords(labels.size());
    cords.divide(labels, columns.num_labels());
    const IndexByKey incoming(circles_.size(), heads);
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
    keep(blocks);
    return {};
  }

  void keep(const Partition& blocks) {
    for (std::size_t i = 0; i < circles_.size(); ++i) {
      blocks_[circles_[i]] = static_cast<std::int32_t>(num_blocks_ + blocks.set_of(i));
    }
    num_blocks_ += blocks.num_sets();
    // So that states before the circles are found to be equal to some on them.
    for (std::size_t set = 0; set < blocks.num_sets(); ++set) {
      const Index state = circles_[blocks.set(set).front()];
      each_edge(state, [&](const DfaEdge& edge) {
        lists_.add({edge.first, edge.last, blocks_[static_cast<std::size_t>(edge.target)]});
      });
      lists_.take(builder_.accepting_[state], static_cast<Index>(blocks_[state]));
    }
  }

  const DfaBuilder& builder_;
  const Incoming& incoming_;
  const std::vector<bool>& useful_;
  std::size_t num_states_;
  std::vector<Kind> kind_;
  std::vector<Index> ends_;     // states that lead into no circle, each behind those it leads to
  std::vector<Index> begins_;   // others that no circle leads to, each before those it leads to
  std::vector<Index> circles_;  // all others
  std::vector<std::int32_t> blocks_;
  std::size_t num_blocks_ = 0;
  EdgeLists lists_;
};

Result<Dfa> DfaBuilder::finish(GrammarBudget& budget) {
  if (num_states() == 0) return Dfa();
  const Incoming incoming(*this);
  const std::vector<bool> useful = useful_states(incoming);
  if (!useful[0]) return Dfa();
  Minimizer minimizer(*this, incoming, useful);
  QUIRE_RETURN_IF_ERROR(minimizer.run(budget));
  return numbered(useful, minimizer.blocks(), minimizer.num_blocks());
}

}  // namespace quire
