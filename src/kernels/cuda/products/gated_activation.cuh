// The results of a gated MLP from its two products, by one function for any number of rows.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/op_args.h"

namespace quire::cuda {

// GatedProducts' activation as kernels take it.
struct GateFunction {
  Activation activation = Activation::kSilu;
  bool is_clamped = false;
  ClampedGate clamped = {};

  GateFunction() = default;
  GateFunction(Activation of, const std::optional<ClampedGate>& clamps)
      : activation(of), is_clamped(clamps.has_value()), clamped(clamps.value_or(ClampedGate{})) {}

#if defined(__CUDACC__)
  // NaN stays NaN.
  __device__ float operator()(float gate, float up) const {
    if (is_clamped) {
      const float g = gate > clamped.limit ? clamped.limit : gate;
      float u = up > clamped.limit ? clamped.limit : up;
      if (u < -clamped.limit) u = -clamped.limit;
      return g / (1.0F + expf(-clamped.alpha * g)) * (u + 1.0F);
    }
    if (activation == Activation::kSilu) return gate / (1.0F + expf(-gate)) * up;
    // (1 + tanh u) / 2 = sigmoid(2 u)
    constexpr float kTwiceSqrtTwoOverPi = 1.5957691216057307118F;
    const float u = gate + 0.044715F * gate * gate * gate;
    return gate / (1.0F + expf(-kTwiceSqrtTwoOverPi * u)) * up;
  }
#endif
};

}  // namespace quire::cuda
