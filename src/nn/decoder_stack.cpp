#include "nn/decoder_stack.h"

#include <utility>

namespace quire {

DecoderStack::DecoderStack(RotaryTable rotary, std::vector<DecoderLayer> layers)
    : rotary_(std::move(rotary)), layers_(std::move(layers)) {}

void DecoderStack::forward(ForwardContext& ctx, float* hidden) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].attention.forward(ctx, rotary_, static_cast<int>(i), hidden);
    layers_[i].mlp.forward(ctx, hidden);
  }
}

}  // namespace quire
