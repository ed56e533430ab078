#include "text/grammar/nfa.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "text/grammar/dfa_builder.h"

namespace quire {

namespace {

// Sets of states, numbered as they come; equal ones have one number.
class Subsets {
 public:
  explicit Subsets(std::size_t num_states) : alone_(num_states, kFree) {
    members_.reserve(num_states);
    begins_.reserve(num_states + 1);
  }
  std::size_t size() const { return begins_.size() - 1; }
  std::size_t num_members() const { return members_.size(); }
  // Valid until the next one is added.
  std::span<const std::int32_t> operator[](std::size_t number) const {
    return {members_.data() + begins_[number], members_.data() + begins_[number + 1]};
  }
  // `subset` is sorted.
  std::int32_t number_of(std::span<const std::int32_t> subset) {
    std::int32_t& number =
        subset.size() == 1 ? alone_[static_cast<std::size_t>(subset.front())] : place_of(subset);
    if (number != kFree) return number;
    number = static_cast<std::int32_t>(size());
    members_.insert(members_.end(), subset.begin(), subset.end());
    begins_.push_back(members_.size());
    return number;
  }

 private:
  static constexpr std::int32_t kFree = -1;

  // Of the table: that of this subset, or a free one.
  std::int32_t& place_of(std::span<const std::int32_t> subset) {
    if ((in_table_ + 1) * 2 > table_.size()) grow();
    std::size_t at = hash_of(subset) & (table_.size() - 1);
    for (; table_[at] != kFree; at = (at + 1) & (table_.size() - 1)) {
      if (std::ranges::equal((*this)[static_cast<std::size_t>(table_[at])], subset)) {
        return table_[at];
      }
    }
    ++in_table_;
    return table_[at];
  }
  static std::size_t hash_of(std::span<const std::int32_t> subset) {
    std::uint64_t hash = subset.size();
    for (const std::int32_t state : subset) {
      hash = (hash ^ static_cast<std::uint32_t>(state)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash);
  }
  void grow() {
    const std::vector<std::int32_t> known = std::exchange(table_, {});
    table_.assign(std::max<std::size_t>(64, known.size() * 2), kFree);
    for (const std::int32_t number : known) {
      if (number == kFree) continue;
      std::size_t at = hash_of((*this)[static_cast<std::size_t>(number)]) & (table_.size() - 1);
      while (table_[at] != kFree) at = (at + 1) & (table_.size() - 1);
      table_[at] = number;
    }
  }

  std::vector<std::int32_t> members_;
  std::vector<std::size_t> begins_ = {0};
  std::vector<std::int32_t> alone_;  // numbers of the sets that are one state
  std::vector<std::int32_t> table_;  // of the others, open addressing
  std::size_t in_table_ = 0;
};

// The subset construction (Rabin and Scott 1959). Of a subset only states count that have edges of
// columns, or accept.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, std::int32_t accept, GrammarBudget& budget)
      : nfa_(&nfa),
        accept_(accept),
        budget_(&budget),
        subsets_(nfa.num_states()),
        seen_(nfa.num_states(), 0),
        single_(nfa.num_states(), kUnknownSubset) {
    constexpr std::size_t kMost = 1 << 14;  // what is larger may turn out to be small
    builder_.reserve(std::min(nfa.num_states(), kMost), std::min(nfa.num_edges(), kMost));
  }

  Result<Dfa> run(std::int32_t start) {
    targets_ = {start};
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

 private:
  // The number of the subset that `targets_` and what empty edges reach from there form.
  Result<std::int32_t> take_subset() {
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
    if (subset_.size() > 1) std::ranges::sort(subset_);
    return subsets_.number_of(subset_);
  }

  // The same for one state; most subsets come from one.
  Result<std::int32_t> take_subset_of(std::int32_t state) {
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

  // Whether nothing else is reached from there without a column, and it counts.
  bool stands_alone(std::int32_t state) const {
    bool counts = state == accept_;
    for (std::int32_t at = nfa_->first_edge(state); at >= 0; at = nfa_->edge(at).next) {
      if (nfa_->edge(at).first == Nfa::kEmpty) return false;
      counts = true;
    }
    return counts;
  }

  // What most states of literals need: one edge at most, to a state that stands alone. False where
  // there is more to it. No work to count: there are no more such edges than the automaton has.
  bool add_only_edge(std::span<const std::int32_t> subset) {
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

  Status add_edges(std::span<const std::int32_t> subset) {
    edges_.clear();
    for (const std::int32_t state : subset) {
      for (std::int32_t at = nfa_->first_edge(state); at >= 0; at = nfa_->edge(at).next) {
        if (nfa_->edge(at).first != Nfa::kEmpty) edges_.push_back(nfa_->edge(at));
      }
    }
    QUIRE_RETURN_IF_ERROR(budget_->tick(edges_.size()));
    const auto before = [](const Nfa::Edge& a, const Nfa::Edge& b) { return a.first < b.first; };
    if (!std::ranges::is_sorted(edges_, before)) std::ranges::sort(edges_, before);
    const auto overlap = std::adjacent_find(
        edges_.begin(), edges_.end(),
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

  Status add_overlapping_edges() {
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

  const Nfa* nfa_;
  std::int32_t accept_;
  GrammarBudget* budget_;
  DfaBuilder builder_;
  Subsets subsets_;
  std::vector<std::uint32_t> seen_;  // by state: the last walk that came by
  std::uint32_t stamp_ = 0;
  std::size_t looked_at_ = 0;  // edges
  static constexpr std::int32_t kUnknownSubset = -1;
  std::vector<std::int32_t> single_;  // by state: the subset that it forms, or kUnknownSubset
  std::vector<std::int32_t> targets_, subset_;
  std::vector<Nfa::Edge> edges_, active_;
  std::vector<std::uint32_t> bounds_;
};

// The bytes of a sequence of UTF-8, each from a range.
struct ByteRanges {
  std::array<std::uint8_t, 4> first{};
  std::array<std::uint8_t, 4> last{};
  std::size_t size = 0;
};

ByteRanges spell(char32_t first, char32_t last, std::size_t size) {
  constexpr std::array<unsigned, 5> kLead = {0, 0x00, 0xC0, 0xE0, 0xF0};
  ByteRanges ranges;
  ranges.size = size;
  for (std::size_t i = size; i-- > 1;) {
    ranges.first[i] = static_cast<std::uint8_t>(0x80 | (first & 0x3F));
    ranges.last[i] = static_cast<std::uint8_t>(0x80 | (last & 0x3F));
    first >>= 6;
    last >>= 6;
  }
  ranges.first[0] = static_cast<std::uint8_t>(kLead[size] | first);
  ranges.last[0] = static_cast<std::uint8_t>(kLead[size] | last);
  return ranges;
}

// Cuts a range of characters of one length into parts of which each byte is free within a range
// whatever the others are.
void split_range(char32_t first, char32_t last, std::size_t size, std::vector<ByteRanges>& out) {
  for (std::size_t i = 1; i < size; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // bits of the last i bytes
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      split_range(first, first | low, size, out);
      return split_range((first | low) + 1, last, size, out);
    }
    if ((last & low) != low) {
      split_range(first, (last & ~low) - 1, size, out);
      return split_range(last & ~low, last, size, out);
    }
  }
  out.push_back(spell(first, last, size));
}

}  // namespace

void Nfa::add_dfa(const Dfa& dfa, std::int32_t from, std::int32_t to) {
  if (dfa.is_empty()) return;
  if (dfa.accepts(0)) add_empty(from, to);
  const auto states = static_cast<std::int32_t>(dfa.num_states());
  // The start is `from`, unless something leads back to it; and what accepts and leads nowhere,
  // which is one state at most, is `to`.
  bool apart = false;
  std::int32_t last = states;
  for (std::int32_t state = 0; state < states; ++state) {
    const std::span<const DfaEdge> edges = dfa.edges(state);
    if (edges.empty()) last = state;
    apart = apart || std::ranges::any_of(edges, [](const DfaEdge& e) { return e.target == 0; });
  }
  const auto base = static_cast<std::int32_t>(num_states()) - (apart ? 0 : 1);
  const auto place = [&](std::int32_t state) {
    if (state == last) return to;
    if (state == 0 && !apart) return from;
    return base + state - (state > last ? 1 : 0);
  };
  for (std::int32_t i = (apart ? 0 : 1) + (last < states ? 1 : 0); i < states; ++i) add_state();
  if (apart) add_empty(from, base);
  for (std::int32_t state = 0; state < states; ++state) {
    const std::span<const DfaEdge> edges = dfa.edges(state);
    // The last one first, as a state's latest edge comes first in its list.
    for (std::size_t i = edges.size(); i-- > 0;) {
      add_edge(place(state), edges[i].first, edges[i].last, place(edges[i].target));
    }
    if (dfa.accepts(state) && state != last && (apart || state != 0)) add_empty(place(state), to);
  }
}

void Nfa::add_chars(const CharSet& set, std::int32_t from, std::int32_t to) {
  constexpr std::array<char32_t, 4> kLast = {0x7F, 0x7FF, 0xFFFF, CharSet::kLastCode};
  std::vector<ByteRanges> parts;
  for (const CharRange& range : set.ranges()) {
    char32_t first = range.first;
    for (std::size_t size = 1; size <= 4; ++size) {
      const char32_t last = std::min(range.last, kLast[size - 1]);
      if (first > last) continue;
      split_range(first, last, size, parts);
      first = last + 1;
    }
  }
  for (const ByteRanges& part : parts) {
    std::int32_t at = from;
    for (std::size_t i = 0; i < part.size; ++i) {
      const std::int32_t next = i + 1 == part.size ? to : add_state();
      add_edge(at, part.first[i], part.last[i], next);
      at = next;
    }
  }
}

Result<Dfa> Nfa::determinize(std::int32_t start, std::int32_t accept, GrammarBudget& budget) const {
  return Determinizer(*this, accept, budget).run(start);
}

}  // namespace quire
