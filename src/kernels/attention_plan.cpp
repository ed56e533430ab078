#include "kernels/attention_plan.h"

#include <algorithm>
#include <tuple>

namespace quire {
namespace {

// Position after the last query of `work` in its sequence.
std::int64_t end_position(const AttentionBatch& batch, const AttentionWork& work) {
  return batch.seq_lens[work.sequence] - batch.query_start_loc[work.sequence + 1] +
         std::int64_t{work.query_end};
}

// Pairs of query and key, near enough.
std::int64_t cost(const AttentionBatch& batch, const AttentionWork& work) {
  return end_position(batch, work) * (work.query_end - work.query_begin);
}

}  // namespace

void AttentionPlan::reserve(std::int32_t max_tokens, std::int32_t num_kv_heads) {
  work_.reserve(static_cast<std::size_t>(max_tokens) * static_cast<std::size_t>(num_kv_heads));
}

void AttentionPlan::build(const AttentionBatch& batch, std::int32_t num_kv_heads) {
  batch_ = batch;
  work_.clear();
  for (std::int32_t sequence = 0; sequence < batch.num_seqs; ++sequence) {
    const std::int32_t end = batch.query_start_loc[sequence + 1];
    for (std::int32_t begin = batch.query_start_loc[sequence]; begin < end;
         begin += kMaxQueriesPerWork) {
      for (std::int32_t kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
        work_.push_back({sequence, kv_head, begin, std::min(begin + kMaxQueriesPerWork, end)});
      }
    }
  }
  std::sort(work_.begin(), work_.end(), [&](const AttentionWork& a, const AttentionWork& b) {
    const std::int64_t cost_a = cost(batch, a);
    const std::int64_t cost_b = cost(batch, b);
    return std::tie(cost_b, a.query_begin, a.kv_head) < std::tie(cost_a, b.query_begin, b.kv_head);
  });
}

}  // namespace quire
