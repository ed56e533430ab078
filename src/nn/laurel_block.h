// Learned augmented residual of low rank (Menghani et al. 2024, "LAuReL"), beside a layer's mixer:
//   hidden += x + norm(Wright Wleft x)
#pragma once

#include <cstdint>
#include <utility>

#include "nn/forward_context.h"
#include "nn/norm.h"

namespace quire {

struct LaurelWeights {
  PackedWeight left;   // [rank][hidden_size]
  PackedWeight right;  // [hidden_size][rank]
  Norm norm;
};

class LaurelBlock {
 public:
  explicit LaurelBlock(LaurelWeights weights) : weights_(std::move(weights)) {}

  // Bytes of arena that forward() needs for `rows` rows.
  static std::uint64_t arena_bytes(std::int64_t rank, std::int64_t hidden_size, std::int64_t rows);

  // x, what the mixer reads, and hidden: [num_tokens][hidden_size].
  void forward(ForwardContext& ctx, const float* x, float* hidden) const;

 private:
  LaurelWeights weights_;
};

}  // namespace quire
