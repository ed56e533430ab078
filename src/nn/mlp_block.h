// Gated MLP of one decoder layer (Shazeer 2020), residual included:
// hidden += Wdown(act(Wgate(x)) * Wup(x)). Biases are there where the weights are.
#pragma once

#include <cstdint>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/residual.h"

namespace quire {

// A vector that the checkpoint does not have is empty.
struct MlpWeights {
  PackedWeight gate;
  PackedWeight up;
  PackedWeight down;
  DeviceFloats gate_bias;  // [intermediate_size]
  DeviceFloats up_bias;    // [intermediate_size]
  DeviceFloats down_bias;  // [hidden_size]
};

class MlpBlock {
 public:
  MlpBlock(Activation activation, MlpWeights weights);

  static std::uint64_t arena_bytes(std::int64_t intermediate_size, std::int64_t rows);

  // x: [num_tokens][hidden_size].
  void forward(ForwardContext& ctx, const float* x, const Residual& residual) const;

 private:
  Activation activation_;
  MlpWeights weights_;
};

}  // namespace quire
