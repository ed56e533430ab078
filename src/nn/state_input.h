// What layers that draft for another model read (EAGLE: Li et al. 2024; multi-token prediction:
// DeepSeek-AI 2024, DeepSeek-V3, 2.2): a token's embedding and the model's state at the token
// before it, joined by one matrix.
#pragma once

#include <cstdint>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/norm.h"
#include "tensor/device_floats.h"

namespace quire {

struct StateInputWeights {
  PackedWeight projection;  // [hidden_size][2 hidden_size]: embeddings first
  DeviceFloats bias;        // [hidden_size], or empty
  Norm token_norm;          // each may be empty
  Norm state_norm;
};

class StateInput {
 public:
  explicit StateInput(StateInputWeights weights);

  // Bytes of arena that join() needs for `rows` rows.
  static std::uint64_t arena_bytes(std::int64_t hidden_size, std::int64_t rows);

  // hidden = projection(token_norm(hidden) beside state_norm(states)) + bias, with the states of
  // `ctx`. hidden: [num_tokens][hidden_size].
  void join(ForwardContext& ctx, float* hidden) const;

 private:
  StateInputWeights weights_;
};

}  // namespace quire
