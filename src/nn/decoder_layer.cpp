#include "nn/decoder_layer.h"

#include <numbers>
#include <utility>

namespace quire {
namespace {

constexpr auto kHalfPower = static_cast<float>(1.0 / std::numbers::sqrt2);

// What a block reads: `hidden`, or what its norm makes of it in `normed`.
const float* input_of(ForwardContext& ctx, const Norm& norm, const float* hidden, float* normed) {
  if (norm.empty()) return hidden;
  norm.apply(ctx.ops, hidden, ctx.tokens.num_tokens, normed);
  return normed;
}

}  // namespace

DecoderLayer::DecoderLayer(LayerShape shape, LayerNorms norms, Mixer mixer,
                           FeedForward feed_forward, LayerExtras extras)
    : shape_(shape),
      norms_(std::move(norms)),
      mixer_(std::move(mixer)),
      feed_forward_(std::move(feed_forward)),
      extras_(std::move(extras)) {}

std::uint64_t DecoderLayer::arena_bytes(std::uint64_t block_bytes, std::int64_t hidden_size,
                                        std::int64_t rows, bool two_inputs) {
  return (two_inputs ? 2 : 1) * Arena::float_bytes(rows * hidden_size) + block_bytes;
}

void DecoderLayer::forward(ForwardContext& ctx, const RotaryTable* rotary, int index,
                           float* hidden) const {
  const Arena::Scope scope(ctx.arena);
  // Once a block has read its input, the place serves as scratch.
  float* normed = ctx.arena.floats(ctx.tokens.num_tokens * shape_.hidden_size);
  const auto residual = [&](const Norm& norm) {
    return Residual{
        .hidden = hidden, .norm = &norm, .scale = shape_.residual_scale, .scratch = normed};
  };

  if (extras_.altup) extras_.altup->predict(ctx, hidden, normed);
  const float* side_by_side = nullptr;  // what the feed-forward reads, where it has its own norm
  if (shape_.parallel && !norms_.feed_forward_input.empty()) {
    float* const second = ctx.arena.floats(ctx.tokens.num_tokens * shape_.hidden_size);
    side_by_side = input_of(ctx, norms_.feed_forward_input, hidden, second);
  }
  const float* input =
      shape_.joined_input ? ctx.joined : input_of(ctx, norms_.mixer_input, hidden, normed);
  if (extras_.laurel) extras_.laurel->forward(ctx, input, hidden);
  const Residual mixed = residual(norms_.mixer_output);
  std::visit([&](const auto& block) { block.forward(ctx, rotary, index, input, mixed); }, mixer_);
  if (extras_.laurel) {  // two residuals were added
    ctx.ops.scale_in_place(kHalfPower, ctx.tokens.num_tokens * shape_.hidden_size, hidden);
  }

  if (side_by_side != nullptr) input = side_by_side;
  if (!shape_.parallel) input = input_of(ctx, norms_.feed_forward_input, hidden, normed);
  const Residual fed = residual(norms_.feed_forward_output);
  std::visit([&](const auto& block) { block.forward(ctx, input, fed); }, feed_forward_);
  if (extras_.altup) extras_.altup->correct(ctx, hidden, normed);
  if (extras_.per_layer) add_per_layer(ctx, index, hidden, normed);
  if (shape_.output_scale != 1.0F) {
    ctx.ops.scale_in_place(shape_.output_scale, ctx.tokens.num_tokens * shape_.hidden_size, hidden);
  }
}

// Of streams, all but the first get it.
void DecoderLayer::add_per_layer(ForwardContext& ctx, int index, float* hidden,
                                 float* scratch) const {
  const bool streams = extras_.altup.has_value();
  float* const to = streams ? ctx.streams + ctx.tokens.num_tokens * shape_.hidden_size : hidden;
  const std::int64_t copies = streams ? extras_.altup->num_streams() - 1 : 1;
  extras_.per_layer->forward(ctx, index, hidden, to, copies, scratch);
}

}  // namespace quire
