#include "nn/decoder_stack.h"

#include <utility>

namespace quire {

DecoderStack::DecoderStack(std::vector<RotaryTable> rotaries, std::vector<DecoderLayer> layers)
    : rotaries_(std::move(rotaries)), layers_(std::move(layers)) {}

void DecoderStack::forward(ForwardContext& ctx, float* hidden, std::int64_t begin,
                           std::int64_t end) const {
  const InnerStates& inner = ctx.inner_states;
  std::size_t num_kept = 0;
  const auto keep = [&](std::size_t layer) {
    if (num_kept == inner.layers.size() || std::cmp_not_equal(inner.layers[num_kept], layer))
      return;
    ctx.ops.copy(reinterpret_cast<const std::byte*>(hidden), inner.bytes,
                 reinterpret_cast<std::byte*>(inner.data) + num_kept * inner.bytes);
    ++num_kept;
  };
  for (auto i = static_cast<std::size_t>(begin); std::cmp_less(i, end); ++i) {
    keep(i);
    const DecoderLayer& layer = layers_[i];
    const RotaryTable* rotary = layer.rotary() ? &rotaries_[*layer.rotary()] : nullptr;
    layer.forward(ctx, rotary, static_cast<int>(i), hidden);
  }
  keep(static_cast<std::size_t>(end));
}

}  // namespace quire
