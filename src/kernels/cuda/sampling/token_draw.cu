// Draws a token for each row of logits, as kernels/sampling/token_selection.cpp defines it. A
// cluster of blocks has a row, goes through it a few times and sorts nothing.
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/cluster_row.cuh"
#include "kernels/cuda/rows/row_limit.cuh"
#include "kernels/cuda/sampling/logit_edits.cuh"
#include "kernels/cuda/sampling/sampling_steps.h"
#include "kernels/cuda/sampling/token_weights.cuh"

namespace quire::cuda {
namespace {

constexpr std::int32_t kUndecidedToken = -1;

// What may lie between a sum of weights here and the same on the CPU.
struct SumError {
  double margin = 0.0;  // 0: both are exact

  // least: the smallest of the weights.
  __device__ static SumError of(double total, float least, std::int64_t vocab) {
    constexpr double kTwoTo53 = 9007199254740992.0;
    constexpr double kMostSteps = 8192;  // beyond one for each weight
    if (total < unit_of(least) * kTwoTo53) return {};
    return {total * (static_cast<double>(vocab) + kMostSteps) * (2.0 / kTwoTo53)};
  }
  __device__ bool is_below(double sum, double target) const {
    return margin == 0.0 || sum == 0.0 || sum + margin < target;
  }
  __device__ bool is_above(double sum, double target) const {
    return margin == 0.0 || target + margin < sum;
  }
};

template <bool kAligned>
class TokenDrawing {
 public:
  __device__ TokenDrawing(ClusterRow<kAligned>& row, std::int64_t vocab, float max_logit,
                          const TokenDraw& draw)
      : row_(row), vocab_(vocab), max_logit_(max_logit), draw_(draw) {
    inverse_temperature_ = fmaxf(static_cast<float>(1.0 / draw.temperature), FLT_MIN);
  }

  // The token, or a negative number where rounding errors could decide.
  __device__ std::int32_t token() {
    if (!isfinite(inverse_temperature_)) return kUndecidedToken;
    keep_weights_from(static_cast<float>(draw_.min_p));
    if (draw_.top_k > 0 && draw_.top_k < vocab_) keep_top_k();
    if (draw_.top_p < 1 && !keep_top_p()) return kUndecidedToken;
    const FoundToken found =
        row_.find_token({.share = draw_.uniform},
                        [&](float logit, std::int32_t token) { return weight(logit, token); });
    if (found.token == INT_MAX) return kUndecidedToken;
    const SumError error = SumError::of(found.total, found.least, vocab_);
    const bool decided =
        error.is_below(found.before, found.target) && error.is_above(found.after, found.target);
    return decided ? found.token : kUndecidedToken;
  }

 private:
  __device__ float weight(float logit) const {
    return token_weight(logit, max_logit_, inverse_temperature_);
  }
  // 0 for tokens that are not kept.
  __device__ float weight(float logit, std::int32_t token) const {
    if (logit < least_logit_) return 0.0F;
    const float value = weight(logit);
    const bool kept =
        value >= min_weight_ && of_k_.keeps(logit, token) && of_p_.keeps(logit, token);
    return kept ? value : 0.0F;
  }

  // Logits further than this from that of a weight have weights on the same side of it: exp() and
  // what it is of are exact to 1e-5, in float32.
  static constexpr double kSlack = 1e-3;
  __device__ float logit_of(float weight, double slack) const {
    const double shift = (log(double{weight}) + slack) / double{inverse_temperature_};
    const double rounding = 1e-6 * (fabs(double{max_logit_}) + fabs(shift));
    return static_cast<float>(max_logit_ + shift + (slack < 0.0 ? -rounding : rounding));
  }

  __device__ void keep_weights_from(float least) {
    if (!(least > min_weight_)) return;
    min_weight_ = least;
    least_logit_ = fmaxf(least_logit_, logit_of(least, -kSlack));
  }
  __device__ void keep_logits_from(const RowLimit& limit) {
    if (limit.order != 0) least_logit_ = fmaxf(least_logit_, number_of_order(limit.order));
  }

  __device__ void keep_top_k() {
    // Whoever may be among the k best.
    row_.for_each([&](float logit, std::int32_t) {
      const float value = weight(logit);
      if (value > 0.0F) row_.count(static_cast<int>(range_of_weight(value)));
    });
    const FoundBin range = row_.find_bin(0.0, {.number = static_cast<double>(draw_.top_k)},
                                         [](int, double added) { return added; });
    if (range.bin != INT_MAX) {
      keep_weights_from(least_weight_of_range(static_cast<std::uint32_t>(range.bin)));
    }
    of_k_ = limit_of_rank(row_, draw_.top_k, [&](float logit, std::int32_t) {
      if (logit < least_logit_) return false;
      const float value = weight(logit);
      return value >= min_weight_ && value > 0.0F;
    });
    keep_logits_from(of_k_);
  }

  // The smallest set of best tokens whose share of all weights reaches top_p. Whether that is sure.
  __device__ bool keep_top_p() {
    row_.for_each([&](float logit, std::int32_t token) {
      const float value = weight(logit, token);
      if (value > 0.0F) row_.add(static_cast<int>(range_of_weight(value)), mantissa_of(value));
    });
    FoundBin found = row_.find_bin(0.0, {.share = draw_.top_p}, [](int bin, double added) {
      return added * unit_of(least_weight_of_range(static_cast<std::uint32_t>(bin)));
    });
    if (found.bin == INT_MAX) return false;
    const auto range = static_cast<std::uint32_t>(found.bin);
    const double unit = unit_of(least_weight_of_range(range));
    const double target = found.target;
    const SumError error = SumError::of(
        found.total, least_weight_of_range(static_cast<std::uint32_t>(found.last)), vocab_);

    // In the range through which the border goes, in the order of logits.
    const float lowest = fmaxf(least_logit_, logit_of(least_weight_of_range(range), -kSlack));
    const float highest =
        range == 0 ? INFINITY : logit_of(least_weight_of_range(range - 1), kSlack);
    OrderDigits digits;
    while (digits.level < OrderDigits::kLevels) {
      row_.for_each([&](float logit, std::int32_t token) {
        if (logit < lowest || logit > highest) return;
        const std::uint32_t order = order_of_number(logit);
        if (!digits.begins(order)) return;
        const float value = weight(logit, token);
        if (value > 0.0F && range_of_weight(value) == range) {
          row_.add(digits.bin_of(order), mantissa_of(value));
        }
      });
      found = row_.find_bin(found.before, {.number = target},
                            [unit](int, double added) { return added * unit; });
      if (found.bin == INT_MAX) return false;
      digits.append(found.bin);
    }

    // Of equal logits, which weigh the same, the first few.
    const double each = weight(number_of_order(digits.prefix));
    const double count = rint(found.value / each);
    double needed = fmin(fmax(ceil((target - found.before) / each), 1.0), count);
    while (needed > 1.0 && found.before + (needed - 1.0) * each >= target) needed -= 1.0;
    while (needed < count && found.before + needed * each < target) needed += 1.0;
    RowLimit limit = {.order = digits.prefix, .token = INT_MAX};
    if (needed < count) {
      limit.token = row_.find_token({.number = needed - 1.0},
                                    [&](float logit, std::int32_t token) {
                                      return digits.begins(order_of_number(logit)) &&
                                                     weight(logit, token) > 0.0F
                                                 ? 1.0F
                                                 : 0.0F;
                                    })
                        .token;
    }
    of_p_ = limit;
    keep_logits_from(limit);
    return error.is_below(found.before + (needed - 1.0) * each, target) &&
           error.is_above(found.before + needed * each, target);
  }

  ClusterRow<kAligned>& row_;
  std::int64_t vocab_;
  float max_logit_;
  const TokenDraw& draw_;
  float inverse_temperature_ = 0.0F;
  float min_weight_ = 0.0F;
  float least_logit_ = -INFINITY;  // no token with a smaller one is kept
  RowLimit of_k_;
  RowLimit of_p_;
};

template <bool kAligned>
__global__ void __launch_bounds__(kRowThreads, 2)
    draw_rows(const __grid_constant__ SampledRows rows) {
  __shared__ RowShared shared;
  let_next_start();
  wait_for_previous();
  const std::int64_t index = blockIdx.x / kRowCluster;
  const SampleArgs& args = rows.args[index];
  const bool edited = has_edits(args.edits);
  const RowBest best = edited ? rows.edited_best[index] : rows.best[index];
  const bool finite = isfinite(rows.best[index].value);
  std::int32_t token = best.index;
  if (finite && !args.draw.greedy) {
    token = kUndecidedToken;
    if (isfinite(best.value)) {
      const float* const logits = (edited ? rows.edited : rows.logits) + index * rows.vocab_size;
      ClusterRow<kAligned> row(logits, rows.vocab_size, shared);
      token = TokenDrawing<kAligned>(row, rows.vocab_size, best.value, args.draw).token();
    }
  }
  if (edited && args.edits.biases.size() > kMostDeviceBiases) token = kUndecidedToken;
  if (blockIdx.x % kRowCluster != 0 || threadIdx.x != 0) return;
  DeviceSample& sample = rows.samples[index];
  sample = {};
  sample.sample.finite = finite;
  sample.decided = !finite || token != kUndecidedToken;
  if (finite) sample.sample.token.token_id = token;
}

}  // namespace

void draw_tokens(const Launch& launch, const SampledRows& rows) {
  if (rows.num_rows == 0) return;
  launch_dependent_clusters(rows.aligned() ? draw_rows<true> : draw_rows<false>,
                            static_cast<unsigned>(rows.num_rows) * kRowCluster, kRowThreads,
                            kRowCluster, 0, launch.stream, rows);
}

}  // namespace quire::cuda
