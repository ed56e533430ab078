// The AVX-512 intrinsics that SIMDe 0.7.4 lacks and that Quire's kernels use, as pairs of AVX2
// instructions. For kernels/cpu/intrinsics.h only.
#pragma once

#include <cstring>

namespace quire {
namespace emulated {

// A 512-bit value as its halves.
template <typename Half>
struct Halves {
  Half low, high;

  template <typename Wide>
  static Halves of(const Wide& wide) {
    static_assert(sizeof(Wide) == sizeof(Halves));
    Halves halves;
    std::memcpy(&halves, &wide, sizeof(halves));
    return halves;
  }
  template <typename Wide>
  Wide join() const {
    Wide wide;
    std::memcpy(&wide, this, sizeof(wide));
    return wide;
  }
};

inline __m512 cvtepi32_ps(__m512i x) {
  const auto h = Halves<__m256i>::of(x);
  return Halves<__m256>{_mm256_cvtepi32_ps(h.low), _mm256_cvtepi32_ps(h.high)}.join<__m512>();
}

inline __m512i cvtps_epi32(__m512 x) {
  const auto h = Halves<__m256>::of(x);
  return Halves<__m256i>{_mm256_cvtps_epi32(h.low), _mm256_cvtps_epi32(h.high)}.join<__m512i>();
}

inline __m512 cvtph_ps(__m256i x) {
  return Halves<__m256>{_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
                        _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))}
      .join<__m512>();
}

inline __m512i cvtepu16_epi32(__m256i x) {
  return Halves<__m256i>{_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
                         _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1))}
      .join<__m512i>();
}

// Keeps the low half of each lane.
inline __m256i cvtepi32_epi16(__m512i x) {
  const auto h = Halves<__m256i>::of(x);
  const __m256i kept = _mm256_set1_epi32(0xFFFF);
  return _mm256_permute4x64_epi64(
      _mm256_packus_epi32(_mm256_and_si256(h.low, kept), _mm256_and_si256(h.high, kept)), 0xD8);
}

inline __m512i srai_epi32(__m512i x, int bits) {
  const auto h = Halves<__m256i>::of(x);
  return Halves<__m256i>{_mm256_srai_epi32(h.low, bits), _mm256_srai_epi32(h.high, bits)}
      .join<__m512i>();
}

inline __m512 maskz_loadu_ps(__mmask16 mask, const void* from) {
  float lanes[16] = {};
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) std::memcpy(&lanes[i], static_cast<const float*>(from) + i, 4);
  }
  return _mm512_loadu_ps(lanes);
}

inline void mask_storeu_ps(void* to, __mmask16 mask, __m512 x) {
  float lanes[16];
  _mm512_storeu_ps(lanes, x);
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) std::memcpy(static_cast<float*>(to) + i, &lanes[i], 4);
  }
}

}  // namespace emulated
}  // namespace quire

#define _mm512_cvtepi32_ps(x) quire::emulated::cvtepi32_ps(x)
#define _mm512_cvtps_epi32(x) quire::emulated::cvtps_epi32(x)
#define _mm512_cvtph_ps(x) quire::emulated::cvtph_ps(x)
#define _mm512_cvtepu16_epi32(x) quire::emulated::cvtepu16_epi32(x)
#define _mm512_cvtepi32_epi16(x) quire::emulated::cvtepi32_epi16(x)
#define _mm512_srai_epi32(x, bits) quire::emulated::srai_epi32(x, bits)
#define _mm512_maskz_loadu_ps(mask, from) quire::emulated::maskz_loadu_ps(mask, from)
#define _mm512_mask_storeu_ps(to, mask, x) quire::emulated::mask_storeu_ps(to, mask, x)
