// exp for many values at once, for sampling: plain arithmetic that compilers turn into vector
// instructions, the same bits at every instruction-set level.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace quire {

// e^x for x <= 0, to about 2e-7 of its value; 0 below -87. Cody and Waite's reduction to
// [-ln 2 / 2, ln 2 / 2] and the Taylor polynomial of degree 6.
inline float exp_of_nonpositive(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float bounded = x < -87.0F ? -87.0F : x;
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
  const auto exponent = (std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U + 127U) << 23U;
  const float value = p * std::bit_cast<float>(exponent);
  return x < -87.0F ? 0.0F : value;
}

// weights[i] = e^((logits[i] - max_logit) * inverse_temperature).
inline void token_weights(const float* logits, std::size_t count, float max_logit,
                          float inverse_temperature, float* weights) {
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = exp_of_nonpositive((logits[i] - max_logit) * inverse_temperature);
  }
}

}  // namespace quire
