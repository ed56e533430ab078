#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>

namespace quire {

namespace {

// Up to here a scan over all ranks beats the heap.
constexpr std::size_t kShortWord = 32;

constexpr std::uint32_t kNone = UINT32_MAX;

// Scratch memory beyond that is not kept for the next word.
constexpr std::size_t kKeptSymbols = 64 * 1024;
constexpr std::size_t kMergesBetweenLooks = 16 * 1024;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
         static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::size_t expected_pairs)
    : slots_(std::bit_ceil(std::max<std::size_t>(16, expected_pairs * 2))) {}

std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 32;
  std::size_t slot = hash & mask;
  while (slots_[slot].pair != pair && slots_[slot].pair != kEmpty) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.pair != kEmpty) slots_[slot_of(slot.pair)] = slot;
  }
}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  if ((used_ + 1) * 2 > slots_.size()) grow();
  const std::uint64_t pair = pair_key(left, right);
  Slot& slot = slots_[slot_of(pair)];
  if (slot.pair == pair) return;
  slot = {pair, merge};
  ++used_;
}

MergeTable::Merge MergeTable::find(TokenId left, TokenId right) const {
  return slots_[slot_of(pair_key(left, right))].merge;
}

bool BpeMerger::merge(std::vector<TokenId>& symbols, const std::function<bool()>& cancelled) {
  if (symbols.size() < 2) return true;
  if (symbols.size() > kShortWord) return merge_long(symbols, cancelled);
  merge_short(symbols);
  return true;
}

void BpeMerger::merge_short(std::vector<TokenId>& symbols) {
  // merges[i] is that of symbols i and i + 1.
  std::array<MergeTable::Merge, kShortWord> merges;
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = table_->find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNoRank) break;
    symbols[best] = merges[best].merged;
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --count;
    if (best + 1 < count) merges[best] = table_->find(symbols[best], symbols[best + 1]);
    if (best > 0) merges[best - 1] = table_->find(symbols[best - 1], symbols[best]);
  }
  symbols.resize(count);
}

void BpeMerger::push_candidate(std::uint32_t left) {
  const std::uint32_t right = nodes_[left].next;
  if (right == kNone) return;
  const std::uint32_t rank = table_->find(nodes_[left].id, nodes_[right].id).rank;
  if (rank != MergeTable::kNoRank) heap_.push_back({rank, left});
}

// A doubly linked list of symbols and a heap of the pairs that may merge. A candidate is not
// removed when one of its parts changes; it is recognised when it comes up, because the pair that
// stands there then has another rank (a pair of the same rank has an equal candidate of its own).
bool BpeMerger::merge_long(std::vector<TokenId>& symbols, const std::function<bool()>& cancelled) {
  constexpr TokenId kMergedAway = -1;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };

  const auto count = static_cast<std::uint32_t>(symbols.size());
  nodes_.clear();
  heap_.clear();
  nodes_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    nodes_.push_back({symbols[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1});
  }
  for (std::uint32_t i = 0; i < count; ++i) push_candidate(i);
  std::make_heap(heap_.begin(), heap_.end(), later);

  for (std::size_t looks = 1; !heap_.empty(); ++looks) {
    if (looks % kMergesBetweenLooks == 0 && cancelled && cancelled()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate candidate = heap_.back();
    heap_.pop_back();

    Node& left = nodes_[candidate.left];
    if (left.id == kMergedAway || left.next == kNone) continue;
    Node& right = nodes_[left.next];
    const MergeTable::Merge merge = table_->find(left.id, right.id);
    if (merge.rank != candidate.rank) continue;

    left.id = merge.merged;
    left.next = right.next;
    right.id = kMergedAway;
    if (left.next != kNone) nodes_[left.next].previous = candidate.left;

    for (const std::uint32_t start : {left.previous, candidate.left}) {
      if (start == kNone) continue;
      const std::size_t before = heap_.size();
      push_candidate(start);
      if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }

  symbols.clear();
  for (std::uint32_t i = 0; i != kNone; i = nodes_[i].next) symbols.push_back(nodes_[i].id);
  if (nodes_.capacity() > kKeptSymbols) nodes_ = {};
  if (heap_.capacity() > kKeptSymbols) heap_ = {};
  return true;
}

}  // namespace quire
