#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/op_span.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"

namespace quire {
namespace {

// Elements below which handing work to another thread costs more than it saves.
constexpr std::int64_t kGrainElements = 8192;

constexpr Stage kRmsNormStage = {StageKind::kKernel, "rms_norm"};
constexpr Stage kRmsNormAndAddStage = {StageKind::kKernel, "rms_norm_and_add"};
constexpr Stage kLayerNormStage = {StageKind::kKernel, "layer_norm"};
constexpr Stage kActivationStage = {StageKind::kKernel, "activation"};
constexpr Stage kGatherStage = {StageKind::kKernel, "gather rows"};
constexpr Stage kScaleStage = {StageKind::kKernel, "scale_in_place"};
constexpr Stage kSoftCapStage = {StageKind::kKernel, "soft_cap"};
constexpr Stage kScaleAndAddStage = {StageKind::kKernel, "scale_and_add"};
constexpr Stage kClampStage = {StageKind::kKernel, "clamp_in_place"};
constexpr Stage kPositionsStage = {StageKind::kKernel, "positions"};
constexpr Stage kAddGatedStage = {StageKind::kKernel, "add_gated"};
constexpr Stage kMultiplyStage = {StageKind::kKernel, "multiply_rows"};
constexpr Stage kRopeAndCacheStage = {StageKind::kKernel, "rope, cache write"};
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

void rms_norm_in_place(OpContext& ctx, const float* weight, float epsilon, std::int64_t rows,
                       std::int64_t cols, std::int64_t stride, float* x) {
  const OpSpan span(ctx, kRmsNormStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* const values = x + row * stride;
      ctx.table.rows.rms_norm(values, weight, epsilon, cols, values);
    }
  });
}

void layer_norm(OpContext& ctx, const float* x, const float* weight, const float* bias,
                float epsilon, std::int64_t rows, std::int64_t cols, float* out) {
  const OpSpan span(ctx, kLayerNormStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      ctx.table.rows.layer_norm(x + row * cols, weight, bias, epsilon, cols, out + row * cols);
    }
  });
}

void activate_in_place(OpContext& ctx, Activation activation, std::int64_t count, float* x) {
  const OpSpan span(ctx, kActivationStage);
  const RowKernels& rows = ctx.table.rows;
  assert(activation != Activation::kSilu);
  const auto activate = activation == Activation::kRelu2  ? rows.relu2
                        : activation == Activation::kRelu ? rows.relu
                        : activation == Activation::kGelu ? rows.gelu
                                                          : rows.gelu_tanh;
  ctx.pool.parallel_for(count, kGrainElements, [&](std::int64_t begin, std::int64_t end, int) {
    activate(end - begin, x + begin);
  });
}

void xielu_in_place(OpContext& ctx, const Xielu& curve, std::int64_t count, float* x) {
  const OpSpan span(ctx, kActivationStage);
  ctx.pool.parallel_for(count, kGrainElements, [&](std::int64_t begin, std::int64_t end, int) {
    ctx.table.rows.xielu(curve, end - begin, x + begin);
  });
}

void scale_by_position(OpContext& ctx, const PositionScale& scale, const std::int32_t* positions,
                       std::int64_t rows, std::int64_t cols, std::int64_t stride, float* x) {
  const OpSpan span(ctx, kScaleStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto position = static_cast<float>(positions[row] + scale.offset);
      const float factor =
          1.0F + scale.growth * std::log(1.0F + std::floor(position / scale.interval));
      for (std::int64_t i = row * stride; i < row * stride + cols; ++i) x[i] *= factor;
    }
  });
}

void gather_rows(OpContext& ctx, const float* x, const std::int64_t* rows, std::int64_t num_rows,
                 std::int64_t cols, float* out) {
  const OpSpan span(ctx, kGatherStage);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    std::copy_n(x + rows[i] * cols, cols, out + i * cols);
  }
}

void scale_in_place(OpContext& ctx, float factor, std::int64_t count, float* x) {
  const OpSpan span(ctx, kScaleStage);
  ctx.pool.parallel_for(count, kGrainElements, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
  });
}

void clamp_in_place(OpContext& ctx, float limit, std::int64_t count, float* x) {
  const OpSpan span(ctx, kClampStage);
  ctx.pool.parallel_for(count, kGrainElements, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
    }
  });
}

void add_position_rows(OpContext& ctx, const float* table, const std::int32_t* positions,
                       std::int64_t rows, std::int64_t cols, float* x) {
  const OpSpan span(ctx, kPositionsStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const from = table + positions[row] * cols;
      for (std::int64_t i = 0; i < cols; ++i) x[row * cols + i] += from[i];
    }
  });
}

void soft_cap_and_best(OpContext& ctx, float cap, std::int64_t rows, std::int64_t cols, float* x,
                       RowBest* best) {
  const OpSpan span(ctx, kSoftCapStage);
  const RowKernels& kernels = ctx.table.rows;
  ctx.pool.parallel_for(rows * cols, kGrainElements,
                        [&](std::int64_t begin, std::int64_t end, int) {
                          kernels.soft_cap(cap, end - begin, x + begin);
                        });
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      best[row] = kernels.best_of_row(x + row * cols, cols);
    }
  });
}

void scale_and_add(OpContext& ctx, const float* x, float factor, std::int64_t count, float* out) {
  const OpSpan span(ctx, kScaleAndAddStage);
  ctx.pool.parallel_for(count, kGrainElements, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) out[i] += factor * x[i];
  });
}

void add_gated(OpContext& ctx, const float* x, const float* gates, std::int64_t rows,
               std::int64_t cols, float* out) {
  const OpSpan span(ctx, kAddGatedStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float factor = 1.0F / (1.0F + std::exp(-gates[row]));
      for (std::int64_t i = row * cols; i < (row + 1) * cols; ++i) out[i] += factor * x[i];
    }
  });
}

void multiply_rows(OpContext& ctx, const float* by, std::int64_t by_stride, std::int64_t rows,
                   std::int64_t cols, float* x) {
  const OpSpan span(ctx, kMultiplyStage);
  ctx.pool.parallel_for(rows, rows_per_chunk(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t i = 0; i < cols; ++i) x[row * cols + i] *= by[row * by_stride + i];
    }
  });
}

void rope_and_cache(OpContext& ctx, const RopeAndCacheArgs& heads) {
  const OpSpan span(ctx, kRopeAndCacheStage);
  const std::int64_t width = std::int64_t{heads.all_heads()} * heads.layout.head_dim;
  ctx.pool.parallel_for(heads.num_tokens, rows_per_chunk(width),
                        [&](std::int64_t begin, std::int64_t end, int) {
                          ctx.table.rows.rope_and_cache(heads, {.token_begin = begin,
                                                                .token_end = end,
                                                                .head_begin = 0,
                                                                .head_end = heads.all_heads()});
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
