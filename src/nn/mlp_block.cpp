#include "nn/mlp_block.h"

#include <utility>

#include "nn/residual.h"

namespace quire {
namespace {

constexpr Stage kGateUpStage = {StageKind::kKernel, "gate, up and activation"};
constexpr Stage kDownStage = {StageKind::kKernel, "down projection"};

}  // namespace

MlpBlock::MlpBlock(Activation activation, float epsilon, MlpWeights weights)
    : activation_(activation), epsilon_(epsilon), weights_(std::move(weights)) {}

std::uint64_t MlpBlock::arena_bytes(std::int64_t hidden_size, std::int64_t intermediate_size,
                                    std::int64_t rows) {
  return Arena::float_bytes(rows * hidden_size) + Arena::float_bytes(rows * intermediate_size);
}

void MlpBlock::forward(ForwardContext& ctx, float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const auto hidden_size = static_cast<std::int64_t>(weights_.norm.size());
  const std::int64_t width = weights_.down.inputs();
  const Arena::Scope scope(ctx.arena);
  float* normed = ctx.arena.floats(rows * hidden_size);
  float* gated = ctx.arena.floats(rows * width);

  rms_norm(ctx.ops, hidden, weights_.norm.data(), epsilon_, rows, hidden_size, normed);

  gated_matmul(ctx.ops, normed, rows, ctx.activation_mode,
               {.gate = &weights_.gate,
                .up = &weights_.up,
                .gate_bias = vector_or_null(weights_.gate_bias),
                .up_bias = vector_or_null(weights_.up_bias),
                .activation = activation_},
               gated, kGateUpStage);
  add_to_residual(ctx, gated,
                  {.weight = &weights_.down,
                   .bias = &weights_.down_bias,
                   .norm = &weights_.output_norm,
                   .epsilon = epsilon_,
                   .mode = ctx.last_product_mode(),
                   .stage = &kDownStage},
                  normed, hidden);
}

}  // namespace quire
