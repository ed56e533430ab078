// The end of a block: project its result to the residual stream and add it there.
#pragma once

#include <cstdint>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/norm.h"

namespace quire {

// Where a block's result goes, and what it goes through on its way. All of [num_tokens]
// [hidden_size].
struct Residual {
  float* hidden = nullptr;
  const Norm* norm = nullptr;  // of what is added; null or empty: none
  float scale = 1.0F;          // of what is added; 1 where there is a norm
  float* scratch = nullptr;    // written where there is either; may be what the block read
};

struct ResidualProjection {
  const PackedWeight* weight = nullptr;
  const DeviceFloats* bias = nullptr;  // [hidden_size], or empty
  ActivationMode mode = ActivationMode::kFloat32;
  const Stage* stage = &kMatmulStage;  // of the product
};

// residual.hidden += norm(W x + bias) * scale. x: [num_tokens][weight inputs]. One stage where
// there is neither norm nor scale, else the product, and what follows it with the addition.
void add_to_residual(ForwardContext& ctx, const float* x, const ResidualProjection& projection,
                     const Residual& residual);

// The same of what a block has computed in the end: residual.hidden += norm(x) * scale.
void add_to_residual(ForwardContext& ctx, const float* x, std::int64_t hidden_size,
                     const Residual& residual);

}  // namespace quire
