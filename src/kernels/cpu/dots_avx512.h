// The dot-product instructions of AVX-512 VNNI and BF16, on one operand type for all: __m512i.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/vec_avx512.h"

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
#include <bit>

#include "kernels/cpu/emulated_dots.h"
#endif

namespace quire {
namespace {

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
// A vector's halves, for what is emulated much faster with instructions that are there.
struct Halves {
  __m256 half[2];
};

// Denormal numbers become zeros with their sign.
inline __m256 emulated_flush(__m256 x) {
  const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0F));
  const __m256 denormal =
      _mm256_cmp_ps(_mm256_xor_ps(x, sign), _mm256_set1_ps(0x1p-126F), _CMP_LT_OQ);
  return _mm256_blendv_ps(x, sign, denormal);
}

inline __m512 emulated_flush(__m512 x) {
  auto halves = std::bit_cast<Halves>(x);
  for (__m256& half : halves.half) half = emulated_flush(half);
  return std::bit_cast<__m512>(halves);
}
#endif

// sum + a[1] * b[1], then + a[0] * b[0], of the bfloat16 pairs of each lane (vdpbf16ps): rounded to
// nearest even after each, denormal numbers read and written as zero.
inline __m512 dot_bf16(__m512 sum, __m512i a, __m512i b) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  // As emulated_dot_bf16(), eight lanes at once: attention's tests would take minutes without.
  const __m256 upper = _mm256_castsi256_ps(_mm256_set1_epi32(-0x10000));
  const auto lower = [](__m256 pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
  };
  const auto add = [](__m256 before, __m256 x, __m256 y) {
    return emulated_flush(
        _mm256_fmadd_ps(emulated_flush(x), emulated_flush(y), emulated_flush(before)));
  };
  auto sums = std::bit_cast<Halves>(sum);
  const auto left = std::bit_cast<Halves>(a);
  const auto right = std::bit_cast<Halves>(b);
  for (int i = 0; i < 2; ++i) {
    const __m256 x = left.half[i];
    const __m256 y = right.half[i];
    sums.half[i] = add(sums.half[i], _mm256_and_ps(x, upper), _mm256_and_ps(y, upper));
    sums.half[i] = add(sums.half[i], lower(x), lower(y));
  }
  return std::bit_cast<__m512>(sums);
#else
  __m512bh left;
  __m512bh right;
  __builtin_memcpy(&left, &a, sizeof(left));
  __builtin_memcpy(&right, &b, sizeof(right));
  return _mm512_dpbf16_ps(sum, left, right);
#endif
}

// Rounds to nearest even, with denormal numbers read as zero (vcvtneps2bf16); NaN stays NaN.
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
