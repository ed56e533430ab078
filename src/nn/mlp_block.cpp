#include "nn/mlp_block.h"

#include <utility>

namespace quire {
namespace {

constexpr Stage kGateUpStage = {StageKind::kKernel, "gate, up and activation"};
constexpr Stage kDownStage = {StageKind::kKernel, "down projection"};

}  // namespace

MlpBlock::MlpBlock(Activation activation, MlpWeights weights)
    : activation_(activation), weights_(std::move(weights)) {}

std::uint64_t MlpBlock::arena_bytes(std::int64_t intermediate_size, std::int64_t rows) {
  return Arena::float_bytes(rows * intermediate_size);
}

void MlpBlock::forward(ForwardContext& ctx, const float* x, const Residual& residual) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t width = weights_.down.inputs();
  const Arena::Scope scope(ctx.arena);
  float* gated = ctx.arena.floats(rows * width);

  ctx.ops.gated_matmul(x, rows, ctx.activation_mode,
                       {.gate = &weights_.gate,
                        .up = &weights_.up,
                        .gate_bias = weights_.gate_bias.data_or_null(),
                        .up_bias = weights_.up_bias.data_or_null(),
                        .activation = activation_},
                       gated, kGateUpStage);
  add_to_residual(ctx, gated,
                  {.weight = &weights_.down,
                   .bias = &weights_.down_bias,
                   .mode = ctx.last_product_mode(),
                   .stage = &kDownStage},
                  residual);
}

}  // namespace quire
