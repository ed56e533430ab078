#include "kernels/attention_plan.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "kernels/attention_scratch.h"

namespace quire {
namespace {

// Pairs of query and key, near enough.
std::int64_t cost(const AttentionWork& work) {
  return std::int64_t{work.key_end - work.key_begin} * (work.query_end - work.query_begin);
}

}  // namespace

void AttentionPlan::reserve(std::int32_t max_tokens, const AttentionHeads& heads, int num_threads) {
  const auto most =
      static_cast<std::size_t>(max_tokens) * static_cast<std::size_t>(heads.num_kv_heads);
  const auto splits =
      static_cast<std::size_t>(kWorkPerThread) * static_cast<std::size_t>(num_threads);
  whole_.reserve(most);
  work_.reserve(most + 2 * splits);
  splits_.reserve(splits);
}

void AttentionPlan::split(const AttentionWork& whole, std::int32_t keys_per_piece) {
  splits_.push_back(whole);
  splits_.back().partials = num_partials_;
  for (std::int32_t begin = 0; begin < whole.key_end; begin += keys_per_piece) {
    AttentionWork piece = splits_.back();
    piece.key_begin = begin;
    piece.key_end = std::min(begin + keys_per_piece, whole.key_end);
    work_.push_back(piece);
  }
  num_partials_ += ceil_div(whole.key_end, kRangeKeys);
}

void AttentionPlan::build(const AttentionBatch& batch, const AttentionHeads& heads,
                          int num_threads) {
  batch_ = batch;
  whole_.clear();
  work_.clear();
  splits_.clear();
  num_partials_ = 0;
  const std::int32_t queries = queries_per_work(heads.heads_per_kv_head);
  std::int64_t total = 0;
  for (std::int32_t sequence = 0; sequence < batch.num_seqs; ++sequence) {
    const std::int32_t last = batch.query_start_loc[sequence + 1];
    for (std::int32_t begin = batch.query_start_loc[sequence]; begin < last; begin += queries) {
      const std::int32_t end = std::min(begin + queries, last);
      for (std::int32_t kv_head = 0; kv_head < heads.num_kv_heads; ++kv_head) {
        whole_.push_back({.sequence = sequence,
                          .kv_head = kv_head,
                          .query_begin = begin,
                          .query_end = end,
                          .key_begin = 0,
                          .key_end = batch.seq_lens[sequence] - last + end});
        total += cost(whole_.back());
      }
    }
  }
  // A share of the step, in whole ranges. Work that is longer is split, so fewer items than there
  // are shares are.
  const std::int64_t shares = std::int64_t{kWorkPerThread} * num_threads;
  const std::int64_t share = ceil_div(ceil_div(total, shares), kRangeKeys) * kRangeKeys;
  for (const AttentionWork& work : whole_) {
    if (num_threads > 1 && work.query_end - work.query_begin == 1 && work.key_end > share) {
      split(work, static_cast<std::int32_t>(share));
    } else {
      work_.push_back(work);
    }
  }
  std::sort(work_.begin(), work_.end(), [](const AttentionWork& a, const AttentionWork& b) {
    const std::int64_t cost_a = cost(a);
    const std::int64_t cost_b = cost(b);
    return std::tie(cost_b, a.query_begin, a.kv_head, a.key_begin) <
           std::tie(cost_a, b.query_begin, b.kv_head, b.key_begin);
  });
}

}  // namespace quire
