#include <algorithm>

#include "kernels/op_span.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"

namespace quire {
namespace {

// Elements below which handing work to another thread costs more than it saves.
constexpr std::int64_t kGrainElements = 8192;

constexpr Stage kRmsNormStage = {StageKind::kKernel, "rms_norm"};
constexpr Stage kRmsNormAndAddStage = {StageKind::kKernel, "rms_norm_and_add"};
constexpr Stage kScaleStage = {StageKind::kKernel, "scale_in_place"};
constexpr Stage kLogSumExpStage = {StageKind::kSampling, "log_sum_exp"};

std::int64_t rows_per_chunk(std::int64_t cols) {
  return std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(cols, 1));
}

}  // namespace

void rms_norm(OpContext& ctx, const float* x, const float* weight, float epsilon, std::int64_t rows,
              std::int64_t cols, float* out) {
  const OpSpan span(ctx, kRmsNormStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      ctx.table.rows.rms_norm(x + row * cols, weight, epsilon, cols, out + row * cols);
    }
  });
}

void rms_norm_and_add(OpContext& ctx, const float* x, const float* weight, float epsilon,
                      std::int64_t rows, std::int64_t cols, float* out) {
  const OpSpan span(ctx, kRmsNormAndAddStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      ctx.table.rows.rms_norm_and_add(x + row * cols, weight, epsilon, cols, out + row * cols);
    }
  });
}

void scale_in_place(OpContext& ctx, float factor, std::int64_t count, float* x) {
  const OpSpan span(ctx, kScaleStage);
  ctx.pool.parallel_for(count, kGrainElements, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
  });
}

void log_sum_exp(OpContext& ctx, const float* logits, const RowBest* best, std::int64_t rows,
                 std::int64_t cols, float* out) {
  const OpSpan span(ctx, kLogSumExpStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      out[row] = ctx.table.rows.log_sum_exp(logits + row * cols, cols, best[row].value);
    }
  });
}

}  // namespace quire
