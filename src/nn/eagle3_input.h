// What EAGLE-3's layer reads (Li et al. 2025): states of several layers of the model, made into one
// state by a matrix; its attention reads the token's embedding and that state side by side, each
// through its norm, and what it gives is added to the state.
#pragma once

#include <cstdint>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/norm.h"

namespace quire {

struct Eagle3InputWeights {
  PackedWeight projection;  // [hidden_size][state_size]
  Norm token_norm;
  Norm state_norm;
};

class Eagle3Input {
 public:
  // `add_to_normed`: the layer adds to the state as its norm gives it.
  Eagle3Input(Eagle3InputWeights weights, bool add_to_normed);

  // Bytes of arena that join() keeps for `rows` rows, and that it takes besides.
  static std::uint64_t kept_bytes(std::int64_t hidden_size, std::int64_t rows);
  static std::uint64_t scratch_bytes(std::int64_t hidden_size, std::int64_t rows);

  // hidden, the embeddings, becomes the states, and ctx.joined what attention reads, in the arena.
  // The states of `ctx` are the model's, or those that the layer has given, which are as they are.
  void join(ForwardContext& ctx, float* hidden) const;

 private:
  Eagle3InputWeights weights_;
  bool add_to_normed_;
};

}  // namespace quire
