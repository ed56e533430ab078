#include "nn/laurel_block.h"

#include <span>

#include "nn/residual.h"

namespace quire {
namespace {

constexpr Stage kLaurelLeftStage = {StageKind::kKernel, "low-rank residual, down"};
constexpr Stage kLaurelRightStage = {StageKind::kKernel, "low-rank residual, up"};

}  // namespace

std::uint64_t LaurelBlock::arena_bytes(std::int64_t rank, std::int64_t hidden_size,
                                       std::int64_t rows) {
  return Arena::float_bytes(rows * rank) + Arena::float_bytes(rows * hidden_size);
}

void LaurelBlock::forward(ForwardContext& ctx, const float* x, float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t rank = weights_.left.outputs();
  const std::int64_t hidden_size = weights_.right.outputs();
  const Arena::Scope scope(ctx.arena);
  float* const low = ctx.arena.floats(rows * rank);
  float* const scratch = ctx.arena.floats(rows * hidden_size);
  const MatmulPart left = {.weight = &weights_.left, .out = low, .out_stride = rank};
  ctx.ops.matmul(x, hidden_size, rows, ctx.activation_mode, std::span(&left, 1), kLaurelLeftStage);
  const DeviceFloats no_bias;
  add_to_residual(ctx, low,
                  {.weight = &weights_.right,
                   .bias = &no_bias,
                   .mode = ctx.activation_mode,
                   .stage = &kLaurelRightStage},
                  {.hidden = hidden, .norm = &weights_.norm, .scratch = scratch});
  ctx.ops.scale_and_add(x, 1.0F, rows * hidden_size, hidden);
}

}  // namespace quire
