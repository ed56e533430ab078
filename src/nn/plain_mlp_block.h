// The MLP of one decoder layer without a gate (Vaswani et al. 2017), residual included: hidden +=
// Wdown(activation(Wup(x))). Biases are there where the weights are.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/residual.h"

namespace quire {

// A vector that the checkpoint does not have is empty.
struct PlainMlpWeights {
  PackedWeight up;
  PackedWeight down;
  DeviceFloats up_bias;             // [intermediate_size]
  DeviceFloats down_bias;           // [hidden_size]
  std::optional<Xielu> xielu = {};  // instead of another activation
};

class PlainMlpBlock {
 public:
  PlainMlpBlock(Activation activation, PlainMlpWeights weights);

  static std::uint64_t arena_bytes(std::int64_t intermediate_size, std::int64_t rows);

  // x: [num_tokens][hidden_size].
  void forward(ForwardContext& ctx, const float* x, const Residual& residual) const;

 private:
  Activation activation_;
  PlainMlpWeights weights_;
};

}  // namespace quire
