#include "nn/attention_block.h"

#include <array>
#include <cmath>
#include <utility>

namespace quire {

AttentionBlock::AttentionBlock(AttentionShape shape, std::vector<float> norm, float epsilon,
                               std::vector<PackedWeight> qkv, PackedWeight output)
    : shape_(shape),
      norm_(std::move(norm)),
      epsilon_(epsilon),
      qkv_(std::move(qkv)),
      output_(std::move(output)) {}

std::uint64_t AttentionBlock::arena_bytes(const AttentionShape& shape, std::int64_t hidden_size,
                                          std::int64_t rows) {
  return Arena::float_bytes(rows * hidden_size) + Arena::float_bytes(rows * shape.qkv_width()) +
         Arena::float_bytes(rows * shape.out_width());
}

void AttentionBlock::forward(ForwardContext& ctx, const RotaryTable& rotary, int layer,
                             float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const auto hidden_size = static_cast<std::int64_t>(norm_.size());
  const std::int64_t qkv_width = shape_.qkv_width();
  const Arena::Scope scope(ctx.arena);
  float* normed = ctx.arena.floats(rows * hidden_size);
  float* qkv = ctx.arena.floats(rows * qkv_width);
  float* attended = ctx.arena.floats(rows * shape_.out_width());

  rms_norm(ctx.ops, hidden, norm_.data(), epsilon_, rows, hidden_size, normed);

  std::array<MatmulPart, 3> parts;
  float* column = qkv;
  for (std::size_t i = 0; i < qkv_.size(); ++i) {
    parts[i] = {.weight = &qkv_[i], .out = column, .out_stride = qkv_width};
    column += qkv_[i].outputs();
  }
  matmul(ctx.ops, normed, hidden_size, rows, ctx.activation_mode,
         std::span(parts.data(), qkv_.size()));

  std::byte* kv = ctx.kv_layers[layer];
  rope_and_cache(ctx.ops, {.qkv = qkv,
                           .num_tokens = rows,
                           .num_heads = shape_.num_heads,
                           .positions = ctx.tokens.positions,
                           .slot_mapping = ctx.tokens.slot_mapping,
                           .rope_table = rotary.data(),
                           .rotary_dim = rotary.rotary_dim(),
                           .style = rotary.style(),
                           .layout = ctx.kv_layout,
                           .kv = kv});
  attention(ctx.ops, ctx.attention_plan,
            {.q = qkv,
             .q_stride = qkv_width,
             .num_heads = shape_.num_heads,
             .scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim)),
             .layout = ctx.kv_layout,
             .kv = kv,
             .out = attended});

  const MatmulPart out = {
      .weight = &output_, .out = hidden, .out_stride = hidden_size, .accumulate = true};
  matmul(ctx.ops, attended, shape_.out_width(), rows, ctx.activation_mode, std::span(&out, 1));
}

}  // namespace quire
