// The layers of a decoder-only transformer, one after the other.
#pragma once

#include <vector>

#include "nn/attention_block.h"
#include "nn/forward_context.h"
#include "nn/mlp_block.h"
#include "nn/rotary.h"

namespace quire {

struct DecoderLayer {
  AttentionBlock attention;
  MlpBlock mlp;
};

class DecoderStack {
 public:
  DecoderStack(RotaryTable rotary, std::vector<DecoderLayer> layers);

  // hidden: [num_tokens][hidden_size], updated in place by every layer in turn.
  void forward(ForwardContext& ctx, float* hidden) const;

 private:
  RotaryTable rotary_;
  std::vector<DecoderLayer> layers_;
};

}  // namespace quire
