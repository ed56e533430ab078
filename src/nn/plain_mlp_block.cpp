#include "nn/plain_mlp_block.h"

#include <span>
#include <utility>

namespace quire {
namespace {

constexpr Stage kPlainUpStage = {StageKind::kKernel, "up projection"};
constexpr Stage kPlainDownStage = {StageKind::kKernel, "down projection"};

}  // namespace

PlainMlpBlock::PlainMlpBlock(Activation activation, PlainMlpWeights weights)
    : activation_(activation), weights_(std::move(weights)) {}

std::uint64_t PlainMlpBlock::arena_bytes(std::int64_t intermediate_size, std::int64_t rows) {
  return Arena::float_bytes(rows * intermediate_size);
}

void PlainMlpBlock::forward(ForwardContext& ctx, const float* x, const Residual& residual) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t width = weights_.up.outputs();
  const Arena::Scope scope(ctx.arena);
  float* inner = ctx.arena.floats(rows * width);
  const MatmulPart up = {.weight = &weights_.up,
                         .out = inner,
                         .out_stride = width,
                         .bias = weights_.up_bias.data_or_null()};
  ctx.ops.matmul(x, weights_.up.inputs(), rows, ctx.activation_mode, std::span(&up, 1),
                 kPlainUpStage);
  if (weights_.xielu) {
    ctx.ops.xielu_in_place(*weights_.xielu, rows * width, inner);
  } else {
    ctx.ops.activate_in_place(activation_, rows * width, inner);
  }
  add_to_residual(ctx, inner,
                  {.weight = &weights_.down,
                   .bias = &weights_.down_bias,
                   .mode = ctx.last_product_mode(),
                   .stage = &kPlainDownStage},
                  residual);
}

}  // namespace quire
