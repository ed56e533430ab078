// Gated MLP of one decoder layer (Shazeer 2020), residual included:
// hidden += Wdown(act(Wgate(norm(x))) * Wup(norm(x))). Biases and a norm of the output (sandwich
// norms) are there where the weights are.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"

namespace quire {

// A vector that the checkpoint does not have is empty.
struct MlpWeights {
  std::vector<float> norm;  // [hidden_size]
  PackedWeight gate;
  PackedWeight up;
  PackedWeight down;
  std::vector<float> gate_bias;    // [intermediate_size]
  std::vector<float> up_bias;      // [intermediate_size]
  std::vector<float> down_bias;    // [hidden_size]
  std::vector<float> output_norm;  // [hidden_size], before the residual is added
};

class MlpBlock {
 public:
  MlpBlock(Activation activation, float epsilon, MlpWeights weights);

  static std::uint64_t arena_bytes(std::int64_t hidden_size, std::int64_t intermediate_size,
                                   std::int64_t rows);

  // hidden: [num_tokens][hidden_size], updated in place.
  void forward(ForwardContext& ctx, float* hidden) const;

 private:
  Activation activation_;
  float epsilon_;
  MlpWeights weights_;
};

}  // namespace quire
