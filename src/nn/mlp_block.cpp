#include "nn/mlp_block.h"

#include <array>
#include <utility>

#include "nn/residual.h"

namespace quire {
namespace {

constexpr Stage kGateUpStage = {StageKind::kKernel, "gate and up projection"};
constexpr Stage kDownStage = {StageKind::kKernel, "down projection"};

}  // namespace

MlpBlock::MlpBlock(Activation activation, float epsilon, MlpWeights weights)
    : activation_(activation), epsilon_(epsilon), weights_(std::move(weights)) {}

std::uint64_t MlpBlock::arena_bytes(std::int64_t hidden_size, std::int64_t intermediate_size,
                                    std::int64_t rows) {
  return Arena::float_bytes(rows * hidden_size) + Arena::float_bytes(rows * 2 * intermediate_size) +
         Arena::float_bytes(rows * intermediate_size);
}

// gated = activation(gate) * up. gate_up: scratch.
void MlpBlock::gate(ForwardContext& ctx, const float* normed, float* gate_up, float* gated) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const auto hidden_size = static_cast<std::int64_t>(weights_.norm.size());
  const std::int64_t width = weights_.down.inputs();
  const bool merged = weights_.gate_up.size() == 1;
  const MatmulPart whole = {.weight = &weights_.gate_up.front(),
                            .out = gate_up,
                            .out_stride = 2 * width,
                            .bias = vector_or_null(weights_.gate_up_bias)};
  if (merged && width % kPanelOutputs != 0) {  // a panel has outputs of both
    matmul(ctx.ops, normed, hidden_size, rows, ctx.activation_mode, std::span(&whole, 1),
           kGateUpStage);
    const auto activate = activation_ == Activation::kSilu ? silu_and_mul : gelu_tanh_and_mul;
    return activate(ctx.ops, gate_up, rows, width, gated);
  }
  std::array<MatmulPart, 2> parts = {whole, whole};
  parts[0].num_outputs = width;
  parts[1] = {.weight = &weights_.gate_up.back(),
              .out = gate_up + width,
              .out_stride = 2 * width,
              .bias = vector_or_null(weights_.gate_up_bias, width),
              .first_output = merged ? width : 0,
              .num_outputs = width};
  gated_matmul(ctx.ops, normed, hidden_size, rows, ctx.activation_mode, parts, activation_, gated,
               kGateUpStage);
}

void MlpBlock::forward(ForwardContext& ctx, float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const auto hidden_size = static_cast<std::int64_t>(weights_.norm.size());
  const std::int64_t width = weights_.down.inputs();
  const Arena::Scope scope(ctx.arena);
  float* normed = ctx.arena.floats(rows * hidden_size);
  float* gate_up = ctx.arena.floats(rows * 2 * width);
  float* gated = ctx.arena.floats(rows * width);

  rms_norm(ctx.ops, hidden, weights_.norm.data(), epsilon_, rows, hidden_size, normed);
  gate(ctx, normed, gate_up, gated);
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
