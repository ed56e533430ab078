// The end of a block: project its result to the residual stream and add it there.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"

namespace quire {

struct ResidualProjection {
  const PackedWeight* weight = nullptr;
  const std::vector<float>* bias = nullptr;  // [hidden_size], or empty
  const std::vector<float>* norm = nullptr;  // [hidden_size], or empty; of what is added
  float epsilon = 0.0F;
  ActivationMode mode = ActivationMode::kFloat32;
  const Stage* stage = &kMatmulStage;  // of the product
};

// hidden += norm(W x + bias). x: [num_tokens][weight inputs]; hidden and `scratch`:
// [num_tokens][hidden_size], `scratch` is written where there is a norm.
void add_to_residual(ForwardContext& ctx, const float* x, const ResidualProjection& projection,
                     float* scratch, float* hidden);

// `values` from `first` on, or nullptr where it is empty.
inline const float* vector_or_null(const std::vector<float>& values, std::int64_t first = 0) {
  return values.empty() ? nullptr : values.data() + first;
}

}  // namespace quire
