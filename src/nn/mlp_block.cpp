#include "nn/mlp_block.h"

#include <array>
#include <utility>

namespace quire {

MlpBlock::MlpBlock(std::vector<float> norm, float epsilon, std::vector<PackedWeight> gate_up,
                   PackedWeight down)
    : norm_(std::move(norm)),
      epsilon_(epsilon),
      gate_up_(std::move(gate_up)),
      down_(std::move(down)) {}

std::uint64_t MlpBlock::arena_bytes(std::int64_t hidden_size, std::int64_t intermediate_size,
                                    std::int64_t rows) {
  return Arena::float_bytes(rows * hidden_size) + Arena::float_bytes(rows * 2 * intermediate_size) +
         Arena::float_bytes(rows * intermediate_size);
}

void MlpBlock::forward(ForwardContext& ctx, float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const auto hidden_size = static_cast<std::int64_t>(norm_.size());
  const std::int64_t width = down_.inputs();
  const Arena::Scope scope(ctx.arena);
  float* normed = ctx.arena.floats(rows * hidden_size);
  float* gate_up = ctx.arena.floats(rows * 2 * width);
  float* gated = ctx.arena.floats(rows * width);

  rms_norm(ctx.ops, hidden, norm_.data(), epsilon_, rows, hidden_size, normed);

  std::array<MatmulPart, 2> parts;
  float* column = gate_up;
  for (std::size_t i = 0; i < gate_up_.size(); ++i) {
    parts[i] = {.weight = &gate_up_[i], .out = column, .out_stride = 2 * width};
    column += gate_up_[i].outputs();
  }
  matmul(ctx.ops, normed, hidden_size, rows, ctx.activation_mode,
         std::span(parts.data(), gate_up_.size()));
  silu_and_mul(ctx.ops, gate_up, rows, width, gated);

  const MatmulPart down = {
      .weight = &down_, .out = hidden, .out_stride = hidden_size, .accumulate = true};
  matmul(ctx.ops, gated, width, rows, ctx.last_product_mode(), std::span(&down, 1));
}

}  // namespace quire
