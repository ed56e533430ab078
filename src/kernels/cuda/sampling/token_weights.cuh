// Weights of tokens as kernels/sampling/token_weights.h defines them, to the bit: each operation is
// rounded on its own.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

namespace quire::cuda {

__device__ inline float token_weight(float logit, float max_logit, float inverse_temperature) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;
  constexpr float kLeast = -87.0F;
  const float x = __fmul_rn(__fsub_rn(logit, max_logit), inverse_temperature);
  const float bounded = x < kLeast ? kLeast : x;
  const float shifted = __fadd_rn(__fmul_rn(bounded, kLog2E), kRound);
  const float n = __fsub_rn(shifted, kRound);
  const float r = __fsub_rn(__fsub_rn(bounded, __fmul_rn(n, kLn2High)), __fmul_rn(n, kLn2Low));
  float p = 1.0F / 720.0F;
  p = __fadd_rn(__fmul_rn(p, r), 1.0F / 120.0F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F / 24.0F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F / 6.0F);
  p = __fadd_rn(__fmul_rn(p, r), 0.5F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F);
  const std::uint32_t exponent = (__float_as_uint(shifted) - 0x4B400000U + 127U) << 23U;
  const float value = __fmul_rn(p, __uint_as_float(exponent));
  return x < kLeast ? 0.0F : value;
}

// Ranges of weights as kernels/sampling/token_selection.cpp has them, the best first: the exponent
// and four bits of the mantissa.
inline constexpr std::uint32_t kRangeShift = 19;
inline constexpr std::uint32_t kRangeOfOne = 0x3F800000U >> kRangeShift;

__device__ inline std::uint32_t range_of_weight(float weight) {
  const std::uint32_t range = __float_as_uint(weight) >> kRangeShift;
  return kRangeOfOne - (range < kRangeOfOne ? range : kRangeOfOne);
}

__device__ inline float least_weight_of_range(std::uint32_t range) {
  return __uint_as_float((kRangeOfOne - range) << kRangeShift);
}

// A weight is mantissa_of() * unit_of(), exactly; all of a range have one unit.
__device__ inline std::uint32_t mantissa_of(float weight) {
  return (__float_as_uint(weight) & 0x7FFFFFU) | 0x800000U;
}
__device__ inline double unit_of(float weight) {
  const auto exponent = static_cast<int>(__float_as_uint(weight) >> 23U);
  return scalbn(1.0, exponent - 150);
}

}  // namespace quire::cuda
