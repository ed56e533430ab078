// The dot-product instructions of AVX-512 VNNI and BF16, on one operand type for all: __m512i.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/vec_avx512.h"

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
#include "kernels/cpu/emulated_dots.h"
#endif

namespace quire {
namespace {

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
// Denormal numbers become zeros with their sign.
inline __m512 emulated_flush(__m512 x) {
  const __m512 zero = _mm512_castsi512_ps(_mm512_and_si512(
      _mm512_castps_si512(x), _mm512_set1_epi32(static_cast<std::int32_t>(0x80000000U))));
  const __mmask16 denormal =
      _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(0x1p-126F), _CMP_LT_OQ);
  return _mm512_mask_blend_ps(denormal, x, zero);
}
#endif

// sum + a[1] * b[1], then + a[0] * b[0], of the bfloat16 pairs of each lane (vdpbf16ps): rounded to
// nearest even after each, denormal numbers taken for and replaced by zero.
inline __m512 dot_bf16(__m512 sum, __m512i a, __m512i b) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  // As emulated_dot_bf16(), all lanes at once: attention's tests would take minutes without.
  const __m512i upper = _mm512_set1_epi32(static_cast<std::int32_t>(0xFFFF0000U));
  const auto add = [](__m512 before, __m512i x, __m512i y) {
    return emulated_flush(_mm512_fmadd_ps(emulated_flush(_mm512_castsi512_ps(x)),
                                          emulated_flush(_mm512_castsi512_ps(y)),
                                          emulated_flush(before)));
  };
  const __m512 half = add(sum, _mm512_and_si512(a, upper), _mm512_and_si512(b, upper));
  return add(half, _mm512_slli_epi32(a, 16), _mm512_slli_epi32(b, 16));
#else
  __m512bh left;
  __m512bh right;
  __builtin_memcpy(&left, &a, sizeof(left));
  __builtin_memcpy(&right, &b, sizeof(right));
  return _mm512_dpbf16_ps(sum, left, right);
#endif
}

// Rounds to nearest even, with denormal numbers taken for zero (vcvtneps2bf16); NaN stays NaN.
inline __m256i round_to_bf16(__m512 x) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  std::uint16_t rounded[16];
  Vec16::store_bf16(rounded, emulated_flush(x));
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rounded));
#else
  const __m256bh rounded = _mm512_cvtneps_pbh(x);
  __m256i bits;
  __builtin_memcpy(&bits, &rounded, sizeof(bits));
  return bits;
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
