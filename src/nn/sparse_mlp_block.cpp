#include "nn/sparse_mlp_block.h"

#include <utility>

namespace quire {
namespace {

constexpr Stage kSparseGateUpStage = {StageKind::kKernel, "gate and up"};
constexpr Stage kSparseDownStage = {StageKind::kKernel, "down projection"};

}  // namespace

SparseMlpBlock::SparseMlpBlock(Activation activation, float deviations, MlpWeights weights)
    : activation_(activation), deviations_(deviations), weights_(std::move(weights)) {}

std::uint64_t SparseMlpBlock::arena_bytes(std::int64_t intermediate_size, std::int64_t rows) {
  return 2 * Arena::float_bytes(rows * intermediate_size);
}

void SparseMlpBlock::forward(ForwardContext& ctx, const float* x, const Residual& residual) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t width = weights_.down.inputs();
  const Arena::Scope scope(ctx.arena);
  float* const gates = ctx.arena.floats(rows * width);
  float* const gated = ctx.arena.floats(rows * width);
  const MatmulPart parts[] = {{.weight = &weights_.gate,
                               .out = gates,
                               .out_stride = width,
                               .bias = weights_.gate_bias.data_or_null()},
                              {.weight = &weights_.up,
                               .out = gated,
                               .out_stride = width,
                               .bias = weights_.up_bias.data_or_null()}};
  ctx.ops.matmul(x, weights_.gate.inputs(), rows, ctx.activation_mode, parts, kSparseGateUpStage);
  ctx.ops.keep_largest(deviations_, rows, width, gates);
  ctx.ops.activate_in_place(activation_, rows * width, gates);
  ctx.ops.multiply_rows(gates, width, rows, width, gated);
  add_to_residual(ctx, gated,
                  {.weight = &weights_.down,
                   .bias = &weights_.down_bias,
                   .mode = ctx.last_product_mode(),
                   .stage = &kSparseDownStage},
                  residual);
}

}  // namespace quire
