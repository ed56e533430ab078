// Scalar conversions between float and its 16-bit and 8-bit forms, bit-exact with the vector
// instructions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace quire {

inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Round to nearest even; NaN stays NaN (quietened).
inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

// IEEE binary16, subnormals included.
inline float f16_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

// Round to nearest even; overflow gives infinity.
inline std::uint16_t float_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // subnormal half: adding 0.5 rounds at the right bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

// FP8 e4m3: a sign, four bits of exponent (bias 7), three of mantissa, no infinity; 0x7F is NaN.
inline float fp8_e4m3_to_float(std::uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? static_cast<float>(mantissa) * 0x1.0p-9F
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Round to nearest even; what is larger than 448 becomes 448, NaN stays NaN.
inline std::uint8_t float_to_fp8_e4m3(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80U);
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7FU);
  const float magnitude = std::fmin(std::fabs(value), 448.0F);
  if (magnitude < 0x1.0p-6F) {  // adding 2^14 rounds to multiples of 2^-9
    const std::uint32_t shifted = std::bit_cast<std::uint32_t>(magnitude + 16384.0F);
    return static_cast<std::uint8_t>(sign | (shifted - std::bit_cast<std::uint32_t>(16384.0F)));
  }
  const std::uint32_t exact = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = exact + 0x7FFFFU + ((exact >> 20) & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120U << 3)));
}

}  // namespace quire
