#include "nn/decoder_stack.h"

#include <utility>

namespace quire {

DecoderStack::DecoderStack(std::vector<RotaryTable> rotaries, std::vector<DecoderLayer> layers)
    : rotaries_(std::move(rotaries)), layers_(std::move(layers)) {}

void DecoderStack::forward(ForwardContext& ctx, float* hidden) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    const RotaryTable* rotary = layer.rotary() ? &rotaries_[*layer.rotary()] : nullptr;
    layer.forward(ctx, rotary, static_cast<int>(i), hidden);
  }
}

}  // namespace quire
