// The lanes of VNNI and BF16 dot products, as Intel's Software Developer's Manual defines them
// (volume 2, VPDPBUSD and VDPBF16PS), for processors that lack them.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace quire {

// Denormal numbers become zeros with their sign.
inline float emulated_flush(float x) { return std::fabs(x) < FLT_MIN ? std::copysign(0.0F, x) : x; }

// A bfloat16 as the instructions read it.
inline float emulated_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return emulated_flush(value);
}

// Rounded once, to nearest even.
inline float emulated_fma(float a, float b, float sum) {
  return emulated_flush(std::fma(a, b, emulated_flush(sum)));
}
inline float emulated_add(float a, float b) {
  return emulated_flush(emulated_flush(a) + emulated_flush(b));
}

// One lane: the upper product is added first.
inline float emulated_dot_bf16(float sum, const std::uint16_t* a, const std::uint16_t* b) {
  sum = emulated_fma(emulated_bf16(a[1]), emulated_bf16(b[1]), sum);
  return emulated_fma(emulated_bf16(a[0]), emulated_bf16(b[0]), sum);
}

// One lane; no part of the sum saturates.
inline std::int32_t emulated_dot_bytes(std::int32_t sum, const std::uint8_t* bytes,
                                       const std::int8_t* signed_bytes) {
  for (int i = 0; i < 4; ++i) sum += std::int32_t{bytes[i]} * signed_bytes[i];
  return sum;
}

}  // namespace quire
