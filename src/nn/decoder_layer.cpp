#include "nn/decoder_layer.h"

#include <utility>

namespace quire {

DecoderLayer::DecoderLayer(std::int64_t hidden_size, LayerNorms norms, Mixer mixer,
                           FeedForward feed_forward, std::size_t rotary)
    : hidden_size_(hidden_size),
      norms_(std::move(norms)),
      mixer_(std::move(mixer)),
      feed_forward_(std::move(feed_forward)),
      rotary_(rotary) {}

std::uint64_t DecoderLayer::arena_bytes(std::uint64_t block_bytes, std::int64_t hidden_size,
                                        std::int64_t rows) {
  return Arena::float_bytes(rows * hidden_size) + block_bytes;
}

void DecoderLayer::forward(ForwardContext& ctx, const RotaryTable& rotary, int index,
                           float* hidden) const {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const Arena::Scope scope(ctx.arena);
  float* normed = ctx.arena.floats(rows * hidden_size_);

  norms_.mixer_input.apply(ctx.ops, hidden, rows, normed);
  const Residual mixed = {.hidden = hidden, .norm = &norms_.mixer_output, .scratch = normed};
  std::visit([&](const auto& block) { block.forward(ctx, rotary, index, normed, mixed); }, mixer_);

  norms_.feed_forward_input.apply(ctx.ops, hidden, rows, normed);
  const Residual fed = {.hidden = hidden, .norm = &norms_.feed_forward_output, .scratch = normed};
  std::visit([&](const auto& block) { block.forward(ctx, normed, fed); }, feed_forward_);
}

}  // namespace quire
