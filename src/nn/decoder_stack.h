// The layers of a decoder-only transformer, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/decoder_layer.h"
#include "nn/forward_context.h"
#include "nn/rotary.h"

namespace quire {

class DecoderStack {
 public:
  DecoderStack(std::vector<RotaryTable> rotaries, std::vector<DecoderLayer> layers);

  // hidden: [num_tokens][hidden_size], updated in place by the layers [begin, end) in turn.
  void forward(ForwardContext& ctx, float* hidden, std::int64_t begin, std::int64_t end) const;

 private:
  std::vector<RotaryTable> rotaries_;
  std::vector<DecoderLayer> layers_;
};

}  // namespace quire
