#include "nn/per_layer_block.h"

#include <algorithm>
#include <numbers>
#include <span>
#include <utility>

#include "nn/residual.h"

namespace quire {
namespace {

constexpr Stage kPerLayerGateStage = {StageKind::kKernel, "per-layer gate"};
constexpr Stage kPerLayerOutputStage = {StageKind::kKernel, "per-layer output projection"};
constexpr Stage kPerLayerInputStage = {StageKind::kKernel, "per-layer input projection"};

constexpr std::int64_t kRowsAtOnce = 64;  // of the embeddings, which go through scratch

}  // namespace

PerLayerBlock::PerLayerBlock(Activation activation, PerLayerWeights weights)
    : activation_(activation), weights_(std::move(weights)) {}

std::uint64_t PerLayerBlock::arena_bytes(std::int64_t width, std::int64_t rows) {
  return Arena::float_bytes(rows * width);
}

void PerLayerBlock::forward(ForwardContext& ctx, int layer, const float* x, float* hidden,
                            std::int64_t copies, float* scratch) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t width = weights_.gate.outputs();
  const std::int64_t hidden_size = weights_.output.outputs();
  const Arena::Scope scope(ctx.arena);
  float* const gated = ctx.arena.floats(rows * width);
  const MatmulPart gate = {.weight = &weights_.gate, .out = gated, .out_stride = width};
  ctx.ops.matmul(x, hidden_size, rows, ctx.activation_mode, std::span(&gate, 1),
                 kPerLayerGateStage);
  ctx.ops.activate_in_place(activation_, rows * width, gated);
  ctx.ops.multiply_rows(ctx.per_layer_inputs.data + layer * width, ctx.per_layer_inputs.stride,
                        rows, width, gated);
  const MatmulPart output = {.weight = &weights_.output, .out = scratch, .out_stride = hidden_size};
  ctx.ops.matmul(gated, width, rows, ctx.activation_mode, std::span(&output, 1),
                 kPerLayerOutputStage);
  for (std::int64_t i = 0; i < copies; ++i) {
    add_to_residual(ctx, scratch, hidden_size,
                    {.hidden = hidden + i * rows * hidden_size, .norm = &weights_.norm});
  }
}

PerLayerInputs::PerLayerInputs(std::int64_t num_layers, float embedding_scale,
                               float projection_scale, PerLayerInputWeights weights)
    : num_layers_(num_layers),
      embedding_scale_(embedding_scale),
      projection_scale_(projection_scale),
      weights_(std::move(weights)) {}

std::uint64_t PerLayerInputs::arena_bytes(std::int64_t num_layers, std::int64_t width,
                                          std::int64_t rows) {
  return Arena::float_bytes(rows * num_layers * width) +
         Arena::float_bytes(std::min(rows, kRowsAtOnce) * num_layers * width);
}

PerLayerVectors PerLayerInputs::compute(ForwardContext& ctx, const float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t all = weights_.projection.outputs();
  float* const inputs = ctx.arena.floats(rows * all);
  const MatmulPart projection = {.weight = &weights_.projection, .out = inputs, .out_stride = all};
  ctx.ops.matmul(hidden, weights_.projection.inputs(), rows, ctx.activation_mode,
                 std::span(&projection, 1), kPerLayerInputStage);
  ctx.ops.scale_in_place(projection_scale_, rows * all, inputs);
  weights_.norm.apply(ctx.ops, inputs, rows * num_layers_, inputs);
  const Arena::Scope scope(ctx.arena);
  float* const embedded = ctx.arena.floats(std::min(rows, kRowsAtOnce) * all);
  for (std::int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const std::int64_t count = std::min(rows - begin, kRowsAtOnce);
    ctx.ops.embedding(weights_.embedding, ctx.tokens.token_ids + begin, count, embedded);
    ctx.ops.scale_and_add(embedded, embedding_scale_, count * all, inputs + begin * all);
  }
  ctx.ops.scale_in_place(static_cast<float>(1.0 / std::numbers::sqrt2), rows * all, inputs);
  return {.data = inputs, .stride = all};
}

}  // namespace quire
