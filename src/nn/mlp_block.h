// Gated MLP of one decoder layer (SwiGLU, Shazeer 2020), residual included:
// hidden += Wdown(silu(Wgate(norm(x))) * Wup(norm(x))).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"

namespace quire {

class MlpBlock {
 public:
  // `gate_up`: one matrix of both, or two where the checkpoint encodes them differently.
  MlpBlock(std::vector<float> norm, float epsilon, std::vector<PackedWeight> gate_up,
           PackedWeight down);

  static std::uint64_t arena_bytes(std::int64_t hidden_size, std::int64_t intermediate_size,
                                   std::int64_t rows);

  // hidden: [num_tokens][hidden_size], updated in place.
  void forward(ForwardContext& ctx, float* hidden) const;

 private:
  std::vector<float> norm_;
  float epsilon_;
  std::vector<PackedWeight> gate_up_;
  PackedWeight down_;
};

}  // namespace quire
