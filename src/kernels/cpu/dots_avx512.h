// The dot-product instructions of AVX-512 VNNI and BF16, on one operand type for all: __m512i.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
#include "kernels/cpu/emulated_dots.h"
#endif

namespace quire {
namespace {

// sum + a[1] * b[1], then + a[0] * b[0], of the bfloat16 pairs of each lane (vdpbf16ps): rounded to
// nearest even after each, denormal numbers taken for and replaced by zero.
inline __m512 dot_bf16(__m512 sum, __m512i a, __m512i b) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  float lanes[16];
  std::uint16_t left[32];
  std::uint16_t right[32];
  _mm512_storeu_ps(lanes, sum);
  _mm512_storeu_si512(left, a);
  _mm512_storeu_si512(right, b);
  for (int i = 0; i < 16; ++i) {
    lanes[i] = emulated_dot_bf16(lanes[i], left + 2 * i, right + 2 * i);
  }
  return _mm512_loadu_ps(lanes);
#else
  __m512bh left;
  __m512bh right;
  __builtin_memcpy(&left, &a, sizeof(left));
  __builtin_memcpy(&right, &b, sizeof(right));
  return _mm512_dpbf16_ps(sum, left, right);
#endif
}

// sum + the four products of the unsigned bytes of each lane of `bytes` and the signed ones of
// `signed_bytes` (vpdpbusd), in 32 bits throughout.
inline __m512i dot_bytes(__m512i sum, __m512i bytes, __m512i signed_bytes) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  std::int32_t lanes[16];
  std::uint8_t left[64];
  std::int8_t right[64];
  _mm512_storeu_si512(lanes, sum);
  _mm512_storeu_si512(left, bytes);
  _mm512_storeu_si512(right, signed_bytes);
  for (int i = 0; i < 16; ++i) {
    lanes[i] = emulated_dot_bytes(lanes[i], left + 4 * i, right + 4 * i);
  }
  return _mm512_loadu_si512(lanes);
#else
  return _mm512_dpbusd_epi32(sum, bytes, signed_bytes);
#endif
}

// sum + the two products of the 16-bit numbers of each lane (vpdpwssd), in 32 bits throughout.
inline __m512i dot_pairs(__m512i sum, __m512i a, __m512i b) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#else
  return _mm512_dpwssd_epi32(sum, a, b);
#endif
}

}  // namespace
}  // namespace quire
