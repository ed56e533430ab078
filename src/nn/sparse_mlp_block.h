// Gated MLP of one decoder layer of which a known share of the gates is open (Gemma 3n, after the
// "statistical top-k" of You et al. 2025, "Spark Transformer"), residual included: a gate counts
// by how far it is above its row's mean and some standard deviations.
//   hidden += Wdown(act(max(0, g - cutoff(g))) * Wup(x)), g = Wgate(x)
#pragma once

#include <cstdint>

#include "nn/forward_context.h"
#include "nn/mlp_block.h"
#include "nn/residual.h"

namespace quire {

class SparseMlpBlock {
 public:
  // `deviations`: from the mean to the cutoff. The activation has a form without a product.
  SparseMlpBlock(Activation activation, float deviations, MlpWeights weights);

  static std::uint64_t arena_bytes(std::int64_t intermediate_size, std::int64_t rows);

  // x: [num_tokens][hidden_size].
  void forward(ForwardContext& ctx, const float* x, const Residual& residual) const;

 private:
  Activation activation_;
  float deviations_;
  MlpWeights weights_;
};

}  // namespace quire
