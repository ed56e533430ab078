// exp for many values at once, for sampling: plain arithmetic that compilers turn into vector
// instructions, the same bits at every instruction-set level. Each level compiles it under a type
// of its own, so that no level calls another's.
#pragma once

#include <cstdint>

#include "kernels/row_args.h"

namespace quire {

// e^x for x <= 0, to about 2e-7 of its value; 0 below -87. Cody and Waite's reduction to
// [-ln 2 / 2, ln 2 / 2] and the Taylor polynomial of degree 6.
template <class Level>
inline float exp_of_nonpositive(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  // The bits of negative numbers grow as they get smaller. Compared as numbers, which might trap,
  // GCC makes no vector instructions of this.
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  constexpr std::uint32_t kLeast = __builtin_bit_cast(std::uint32_t, -87.0F);
  const float bounded = __builtin_bit_cast(float, bits < kLeast ? bits : kLeast);
  const std::uint32_t kept = bits <= kLeast ? ~std::uint32_t{0} : 0;
  const float shifted = bounded * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto exponent = (__builtin_bit_cast(std::uint32_t, shifted) - 0x4B400000U + 127U) << 23U;
  const float value = p * __builtin_bit_cast(float, exponent);
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, value) & kept);
}

// RowKernels::token_weights.
template <class Level>
inline void token_weights(const float* logits, std::int64_t count, float max_logit, float scale,
                          float* weights, TokenBlock* blocks) {
  for (std::int64_t i = 0; i < count; ++i) {
    weights[i] = exp_of_nonpositive<Level>((logits[i] - max_logit) * scale);
  }
  constexpr std::int64_t kLanes = 16;
  for (std::int64_t begin = 0; begin < count; begin += TokenBlock::kTokens) {
    const float* const block = weights + begin;
    float sums[kLanes] = {};
    std::uint32_t largest[kLanes] = {};  // bits, which are in the order of the weights
    const auto take = [&](std::int64_t i, std::int64_t lane) {
      const float weight = block[i + lane];
      const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, weight);
      sums[lane] += weight;
      largest[lane] = largest[lane] < bits ? bits : largest[lane];
    };
    const std::int64_t rest = count - begin;
    const std::int64_t size = rest < TokenBlock::kTokens ? rest : TokenBlock::kTokens;
    const std::int64_t whole = size / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) take(i, lane);
    }
    for (std::int64_t lane = 0; lane < size - whole; ++lane) take(whole, lane);
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) {
        const std::uint32_t other = largest[lane + half];
        sums[lane] += sums[lane + half];
        largest[lane] = largest[lane] < other ? other : largest[lane];
      }
    }
    *blocks++ = {.sum = sums[0], .largest = __builtin_bit_cast(float, largest[0])};
  }
}

}  // namespace quire
