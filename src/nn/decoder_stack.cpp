#include "nn/decoder_stack.h"

#include <utility>

namespace quire {

DecoderStack::DecoderStack(std::vector<RotaryTable> rotaries, std::vector<DecoderLayer> layers)
    : rotaries_(std::move(rotaries)), layers_(std::move(layers)) {}

void DecoderStack::forward(ForwardContext& ctx, float* hidden) const {
  const InnerStates& inner = ctx.inner_states;
  std::size_t num_kept = 0;
  const auto keep = [&](std::size_t layer) {
    if (num_kept == inner.layers.size() || std::cmp_not_equal(inner.layers[num_kept], layer))
      return;
    ctx.ops.copy(reinterpret_cast<const std::byte*>(hidden), inner.bytes,
                 reinterpret_cast<std::byte*>(inner.data) + num_kept * inner.bytes);
    ++num_kept;
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    keep(i);
    const DecoderLayer& layer = layers_[i];
    const RotaryTable* rotary = layer.rotary() ? &rotaries_[*layer.rotary()] : nullptr;
    layer.forward(ctx, rotary, static_cast<int>(i), hidden);
  }
  keep(layers_.size());
}

}  // namespace quire
