#include "nn/moe_block.h"

#include <span>
#include <utility>

#include "nn/distant_experts.h"

namespace quire {
namespace {

constexpr Stage kRouterStage = {StageKind::kKernel, "router"};
constexpr Stage kSharedGateStage = {StageKind::kKernel, "gate of the shared expert"};
constexpr Stage kSharedGateUpStage = {StageKind::kKernel, "gate and up, shared expert"};
constexpr Stage kSharedDownStage = {StageKind::kKernel, "down, shared expert"};

// out = W x + bias, with inputs as they are: a rounding would send a token that hangs by it to
// another expert, and these products are small.
void exact_product(ForwardContext& ctx, const PackedWeight& weight, const float* bias,
                   const float* x, float* out, const Stage& stage) {
  const MatmulPart part = {
      .weight = &weight, .out = out, .out_stride = weight.outputs(), .bias = bias};
  ctx.ops.matmul(x, weight.inputs(), ctx.tokens.num_tokens, ActivationMode::kFloat32,
                 std::span(&part, 1), stage);
}

}  // namespace

MoeBlock::MoeBlock(const MoeShape& shape, MoeWeights weights)
    : shape_(shape), weights_(std::move(weights)) {}

std::uint64_t MoeBlock::arena_bytes(const MoeShape& shape, std::int64_t rows) {
  const std::int64_t choices = rows * shape.experts_per_token;
  std::uint64_t bytes = Arena::float_bytes(rows * shape.hidden_size) +
                        Arena::float_bytes(rows * shape.num_experts) +
                        Arena::array_bytes<std::int32_t>(choices) + Arena::float_bytes(choices);
  if (shape.shared_size != 0) bytes += Arena::float_bytes(rows * shape.shared_size);
  if (shape.shared_gate) {
    bytes += Arena::float_bytes(rows) + Arena::float_bytes(rows * shape.hidden_size);
  }
  return bytes;
}

void MoeBlock::forward(ForwardContext& ctx, const float* x, const Residual& residual) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t choices = rows * shape_.experts_per_token;
  const Arena::Scope scope(ctx.arena);
  float* const sum = ctx.arena.floats(rows * shape_.hidden_size);
  float* const logits = ctx.arena.floats(rows * shape_.num_experts);
  auto* const experts = ctx.arena.array<std::int32_t>(choices);
  float* const weights = ctx.arena.floats(choices);

  exact_product(ctx, weights_.router, weights_.router_bias.data_or_null(), x, logits, kRouterStage);
  ctx.ops.route({.logits = logits,
                 .rows = rows,
                 .num_experts = shape_.num_experts,
                 .experts_per_row = shape_.experts_per_token,
                 .routing = shape_.routing,
                 .choice_bias = weights_.choice_bias.data_or_null(),
                 .experts = experts,
                 .weights = weights});
  const ExpertProducts products = {.experts = weights_.experts,
                                   .gate_biases = weights_.gate_biases.data_or_null(),
                                   .up_biases = weights_.up_biases.data_or_null(),
                                   .down_biases = weights_.down_biases.data_or_null(),
                                   .activation = shape_.activation,
                                   .clamped = shape_.clamped,
                                   .gate_up_mode = ctx.activation_mode,
                                   .down_mode = ctx.last_product_mode(),
                                   .experts_per_row = shape_.experts_per_token,
                                   .chosen = experts,
                                   .weights = weights,
                                   .weigh_inputs = shape_.weigh_inputs};
  if (weights_.distant) {
    ctx.distant_experts->compute(ctx.ops, x, rows, products, sum);
  } else {
    ctx.ops.expert_mlp(x, rows, products, sum);
  }
  if (weights_.shared) add_shared(ctx, x, sum);
  add_to_residual(ctx, sum, shape_.hidden_size, residual);
}

void MoeBlock::add_shared(ForwardContext& ctx, const float* x, float* sum) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const ExpertWeights& shared = *weights_.shared;
  float* const gated = ctx.arena.floats(rows * shape_.shared_size);
  ctx.ops.gated_matmul(x, rows, ctx.activation_mode,
                       {.gate = &shared.gate, .up = &shared.up, .activation = shape_.activation},
                       gated, kSharedGateUpStage);
  if (!shape_.shared_gate) {
    const MatmulPart down = {
        .weight = &shared.down, .out = sum, .out_stride = shape_.hidden_size, .accumulate = true};
    ctx.ops.matmul(gated, shape_.shared_size, rows, ctx.last_product_mode(), std::span(&down, 1),
                   kSharedDownStage);
    return;
  }
  float* const gates = ctx.arena.floats(rows);
  float* const result = ctx.arena.floats(rows * shape_.hidden_size);
  exact_product(ctx, weights_.shared_gate, nullptr, x, gates, kSharedGateStage);
  const MatmulPart down = {.weight = &shared.down, .out = result, .out_stride = shape_.hidden_size};
  ctx.ops.matmul(gated, shape_.shared_size, rows, ctx.last_product_mode(), std::span(&down, 1),
                 kSharedDownStage);
  ctx.ops.add_gated(result, gates, rows, shape_.hidden_size, sum);
}

}  // namespace quire
