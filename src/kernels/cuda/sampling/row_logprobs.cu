// Log probabilities and ranks of chosen tokens, and the most probable ones (kernels/sampling/
// logprobs.cpp). A cluster of blocks has a row.
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/cluster_row.cuh"
#include "kernels/cuda/rows/row_limit.cuh"
#include "kernels/cuda/sampling/number_order.cuh"
#include "kernels/cuda/sampling/sampling_steps.h"

namespace quire::cuda {
namespace {

// Shared memory of a block; the first one's counts.
struct TopShared {
  std::uint32_t count;
  Place places[kMostDeviceTop];
};

// What is asked for of a row.
struct AskedLogprobs {
  const float* logits = nullptr;
  std::int64_t vocab_size = 0;
  float largest = 0.0F;
  std::span<TokenLogprob> top = {};
};

template <bool kAligned>
__device__ void find_top(ClusterRow<kAligned>& row, const AskedLogprobs& asked, float log_sum_exp,
                         TopShared& shared) {
  const auto count = static_cast<std::int64_t>(asked.top.size());
  RowLimit limit;
  if (count < asked.vocab_size) {
    limit = limit_of_rank(row, count, [](float, std::int32_t) { return true; });
  }
  TopShared* const first = row_cluster().map_shared_rank(&shared, 0);
  row.for_each([&](float logit, std::int32_t token) {
    if (!limit.keeps(logit, token)) return;
    first->places[atomicAdd(&first->count, 1U)] = {order_of_number(logit), token};
  });
  row_cluster().sync();
  if (row_cluster().block_rank() != 0) return;
  for (std::int64_t i = threadIdx.x; i < count; i += kRowThreads) {
    const Place own = shared.places[i];
    std::int32_t better = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      const Place other = shared.places[j];
      const bool is_better =
          other.order > own.order || (other.order == own.order && other.index < own.index);
      better += is_better ? 1 : 0;
    }
    asked.top.data()[better] = {.token_id = own.index,
                                .logprob = asked.logits[own.index] - log_sum_exp,
                                .rank = better + 1};
  }
}

// Fills in `token` but for its id, and asked.top.
template <bool kAligned>
__device__ void find_logprobs(const AskedLogprobs& asked, TokenLogprob& token, RowShared& shared,
                              TopShared& top) {
  if (threadIdx.x == 0) top.count = 0;
  ClusterRow<kAligned> row(asked.logits, asked.vocab_size, shared);
  const TokenId id = token.token_id;
  const float chosen = asked.logits[id];
  const TwoSums sums = row.sums([&](float logit, std::int32_t at) {
    const bool is_better = logit > chosen || (logit == chosen && at < id);
    return TwoSums{.first = expf(logit - asked.largest), .second = is_better ? 1.0 : 0.0};
  });
  const auto log_sum_exp = static_cast<float>(asked.largest + log(sums.first));
  if (!asked.top.empty()) find_top(row, asked, log_sum_exp, top);
  if (row_cluster().block_rank() != 0 || threadIdx.x != 0) return;
  token.logprob = chosen - log_sum_exp;
  token.rank = static_cast<std::int32_t>(sums.second) + 1;
}

template <bool kAligned>
__global__ void __launch_bounds__(kRowThreads, 2)
    add_logprobs_of_samples(const __grid_constant__ SampledRows rows) {
  __shared__ RowShared shared;
  __shared__ TopShared top;
  let_next_start();
  wait_for_previous();
  const std::int64_t index = blockIdx.x / kRowCluster;
  const SampleArgs& args = rows.args[index];
  DeviceSample& sample = rows.samples[index];
  if (!args.wants_logprob || !sample.decided || !sample.sample.finite) return;
  if (args.top.size() > kMostDeviceTop) {
    sample.decided = false;
    return;
  }
  const AskedLogprobs asked = {.logits = rows.logits + index * rows.vocab_size,
                               .vocab_size = rows.vocab_size,
                               .largest = rows.best[index].value,
                               .top = args.top};
  find_logprobs<kAligned>(asked, sample.sample.token, shared, top);
}

// Given tokens to be scored.
struct ScoredRows {
  std::int64_t vocab_size = 0;
  const float* logits = nullptr;
  const RowBest* best = nullptr;
  const ScoreArgs* args = nullptr;
  DeviceSample* scores = nullptr;
};

template <bool kAligned>
__global__ void __launch_bounds__(kRowThreads, 2)
    score_tokens(const __grid_constant__ ScoredRows rows) {
  __shared__ RowShared shared;
  __shared__ TopShared top;
  let_next_start();
  wait_for_previous();
  const std::int64_t index = blockIdx.x / kRowCluster;
  const ScoreArgs& args = rows.args[index];
  const float largest = rows.best[index].value;
  DeviceSample& score = rows.scores[index];
  const bool decided = args.top.size() <= kMostDeviceTop;
  if (blockIdx.x % kRowCluster == 0 && threadIdx.x == 0) {
    score = {};
    score.sample.token.token_id = args.token_id;
    score.sample.finite = isfinite(largest);
    score.decided = decided || !isfinite(largest);
  }
  if (!decided || !isfinite(largest)) return;
  const AskedLogprobs asked = {.logits = rows.logits + index * rows.vocab_size,
                               .vocab_size = rows.vocab_size,
                               .largest = largest,
                               .top = args.top};
  TokenLogprob token = {.token_id = args.token_id, .logprob = 0.0F, .rank = 0};
  find_logprobs<kAligned>(asked, token, shared, top);
  if (blockIdx.x % kRowCluster == 0 && threadIdx.x == 0) score.sample.token = token;
}

}  // namespace

void add_logprobs(const Launch& launch, const SampledRows& rows) {
  if (rows.num_rows == 0) return;
  launch_dependent_clusters(
      rows.aligned() ? add_logprobs_of_samples<true> : add_logprobs_of_samples<false>,
      static_cast<unsigned>(rows.num_rows) * kRowCluster, kRowThreads, kRowCluster, 0,
      launch.stream, rows);
}

void score_rows(const Launch& launch, const float* logits, const RowBest* best,
                std::int64_t vocab_size, const ScoreArgs* rows, std::int64_t num_rows,
                DeviceSample* scores) {
  if (num_rows == 0) return;
  const bool aligned = quads_are_aligned(logits, vocab_size);
  launch_dependent_clusters(aligned ? score_tokens<true> : score_tokens<false>,
                            static_cast<unsigned>(num_rows) * kRowCluster, kRowThreads, kRowCluster,
                            0, launch.stream,
                            ScoredRows{.vocab_size = vocab_size,
                                       .logits = logits,
                                       .best = best,
                                       .args = rows,
                                       .scores = scores});
}

}  // namespace quire::cuda
