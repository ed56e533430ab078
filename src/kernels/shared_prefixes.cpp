#include "kernels/shared_prefixes.h"

#include <algorithm>
#include <tuple>

#include "kernels/attention_plan.h"
#include "kernels/attention_scratch.h"

namespace quire {
namespace {

// Whole ranges before the sequence's query, which sees all of them.
std::int32_t ranges_before_query(const AttentionBatch& batch, std::int32_t sequence) {
  return (batch.seq_lens[sequence] - 1) / kRangeKeys;
}

std::int32_t common_ranges(const AttentionBatch& batch, std::int32_t a, std::int32_t b) {
  const std::int32_t most = std::min(ranges_before_query(batch, a), ranges_before_query(batch, b));
  const std::int32_t blocks = (most * kRangeKeys + batch.block_size - 1) / batch.block_size;
  const BlockId* const first = batch.block_tables[a];
  const auto equal = std::mismatch(first, first + blocks, batch.block_tables[b]).first - first;
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(most, std::int64_t{equal} * batch.block_size / kRangeKeys));
}

}  // namespace

void SharedPrefixes::reserve(std::int32_t max_seqs) {
  candidates_.reserve(static_cast<std::size_t>(max_seqs));
  groups_.reserve(static_cast<std::size_t>(max_seqs));
  members_.reserve(static_cast<std::size_t>(max_seqs));
}

// Makes a group of the first of [begin, end) and others, or leaves it alone. Gives where the rest
// begins.
std::size_t SharedPrefixes::take_group(const AttentionBatch& batch, std::size_t begin,
                                       std::size_t end) {
  const Candidate leader = candidates_[begin];
  const auto first = candidates_.begin() + static_cast<std::ptrdiff_t>(begin) + 1;
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(end);
  for (auto other = first; other != last; ++other) {
    other->ranges = common_ranges(batch, leader.sequence, other->sequence);
  }
  std::sort(first, last, [](const Candidate& a, const Candidate& b) {
    return std::tie(b.ranges, a.sequence) < std::tie(a.ranges, b.sequence);
  });
  std::int64_t most_saved = 0;
  auto chosen = first;  // end of the others in the group
  for (auto other = first; other != last; ++other) {
    const std::int64_t saved = (other - first + 1) * std::int64_t{other->ranges};
    if (saved > most_saved) {
      most_saved = saved;
      chosen = other + 1;
    }
  }
  if (chosen == first) return begin + 1;
  const auto group_begin = static_cast<std::int32_t>(members_.size());
  members_.push_back(leader.sequence);
  for (auto other = first; other != chosen; ++other) members_.push_back(other->sequence);
  groups_.push_back({.begin = group_begin,
                     .end = static_cast<std::int32_t>(members_.size()),
                     .keys = (chosen - 1)->ranges * kRangeKeys});
  return static_cast<std::size_t>(chosen - candidates_.begin());
}

void SharedPrefixes::find(const AttentionBatch& batch) {
  candidates_.clear();
  groups_.clear();
  members_.clear();
  if (batch.block_size <= 0) return;
  for (std::int32_t s = 0; s < batch.num_seqs; ++s) {
    if (batch.query_start_loc[s + 1] - batch.query_start_loc[s] != 1) continue;
    if (ranges_before_query(batch, s) < 1) continue;
    candidates_.push_back({.first_block = batch.block_tables[s][0], .sequence = s});
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.first_block, a.sequence) < std::tie(b.first_block, b.sequence);
  });
  for (std::size_t begin = 0; begin < candidates_.size();) {
    std::size_t end = begin + 1;
    while (end < candidates_.size() &&
           candidates_[end].first_block == candidates_[begin].first_block) {
      ++end;
    }
    while (begin < end) begin = take_group(batch, begin, end);
  }
}

}  // namespace quire
