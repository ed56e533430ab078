// Eight numbers of one byte, for the vector types of both widths. e4m3: a sign, four bits of
// exponent (bias 7), three of mantissa, no infinity; 0x7F is NaN.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"

namespace quire {
namespace {

// From the low eight bytes. Shifted to where a half float has its exponent and mantissa, a code is
// its value times 2^-8, subnormals included.
[[maybe_unused]] inline __m256 decode_fp8(__m128i codes) {
  const __m128i wide = _mm_slli_epi16(_mm_cvtepi8_epi16(codes), 7);
  const __m128i magnitude = _mm_and_si128(wide, _mm_set1_epi16(0x3F80));
  const __m128i nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x3F80));
  const __m128i half = _mm_and_si128(wide, _mm_set1_epi16(static_cast<std::int16_t>(0xBFFF)));
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(half, nan)), _mm256_set1_ps(256.0F));
}

// The even ones of sixteen bytes in the low eight bytes, the odd ones in the others.
[[maybe_unused]] inline __m128i split_bytes(__m128i bytes) {
  return _mm_packus_epi16(_mm_and_si128(bytes, _mm_set1_epi16(0xFF)), _mm_srli_epi16(bytes, 8));
}

// The low byte of each of eight integers, in the low eight bytes.
[[maybe_unused]] inline __m128i low_bytes(__m256i x) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  return _mm_packus_epi16(words, words);
}

// To nearest even; what is larger than 448 becomes 448, NaN stays NaN.
[[maybe_unused]] inline __m128i encode_fp8(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
  const __m256 size =
      _mm256_min_ps(_mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF))),
                    _mm256_set1_ps(448.0F));
  const __m256i size_bits = _mm256_castps_si256(size);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(size_bits, 20), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_add_epi32(size_bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFFF)));
  const __m256i normal =
      _mm256_sub_epi32(_mm256_srli_epi32(rounded, 20), _mm256_set1_epi32(120 << 3));
  // Adding 2^14 rounds to multiples of 2^-9.
  const __m256i subnormal =
      _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(size, _mm256_set1_ps(16384.0F))),
                       _mm256_castps_si256(_mm256_set1_ps(16384.0F)));
  const __m256i small =
      _mm256_castps_si256(_mm256_cmp_ps(size, _mm256_set1_ps(0x1p-6F), _CMP_LT_OQ));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  __m256i code = _mm256_blendv_epi8(normal, subnormal, small);
  code = _mm256_blendv_epi8(code, _mm256_set1_epi32(0x7F), nan);
  return low_bytes(_mm256_or_si256(code, sign));
}

[[maybe_unused]] inline __m128i round_to_int8(__m256 x) {
  return low_bytes(_mm256_and_si256(_mm256_cvtps_epi32(x), _mm256_set1_epi32(0xFF)));
}

}  // namespace
}  // namespace quire
