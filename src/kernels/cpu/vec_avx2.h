// Eight floats in an AVX2 register, behind the small interface that the row and attention kernels
// are written against (vec_avx512.h is its twin of sixteen). For files of the avx2 level only;
// internal linkage, so that no copy compiled with other flags can replace it.
#pragma once

#include <cstdint>

#include "kernels/cpu/fp8.inl.h"
#include "kernels/cpu/intrinsics.h"

namespace quire {
namespace {

struct Vec8 {
  using F = __m256;
  static constexpr int kWidth = 8;

  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  // The first n lanes (n <= kWidth) from memory, the others zero.
  static F load_first(const float* p, int n) { return _mm256_maskload_ps(p, first_lanes(n)); }
  static void store_first(float* p, F x, int n) { _mm256_maskstore_ps(p, first_lanes(n), x); }

  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }    // a * b + c
  static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
  // a * b - c in even lanes, a * b + c in odd ones.
  static F fmaddsub(F a, F b, F c) { return _mm256_fmaddsub_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }  // b where a or b is NaN
  static F round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

  // x * 2^n for integral n, while the result is a normal number.
  static F scale_by_power(F x, F n) {
    const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), shift));
  }
  // The rest of x, -127 <= x <= 0, beyond its nearest integer, and 2^x's exponent in a form of its
  // own: as the lowest bits of a number of which they are the units.
  static F split(F x, F& exponent) {
    const __m256 shift = _mm256_set1_ps(0x1.8p23F + 127.0F);
    exponent = _mm256_add_ps(x, shift);
    return _mm256_sub_ps(x, _mm256_sub_ps(exponent, shift));
  }
  // x times the power of two that split() found, or 0 where that is 2^-127.
  static F scale_by_exponent(F x, F exponent) {
    const __m256i power = _mm256_slli_epi32(_mm256_castps_si256(exponent), 23);
    return _mm256_mul_ps(x, _mm256_castsi256_ps(power));
  }
  static F where_less(F a, F b, F yes, F no) {  // no where a or b is NaN
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  // x in lanes below n (any n), `other` in the rest.
  static F keep_first(F x, int n, F other) {
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(first_lanes(n)));
  }
  static unsigned equal_lanes(F a, F b) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
  }

  static F swap_pairs(F x) { return _mm256_permute_ps(x, 0xB1); }
  static F load_doubled(const float* p) {  // p[0] p[0] p[1] p[1] ...
    const __m256 half = _mm256_castps128_ps256(_mm_loadu_ps(p));
    return _mm256_permutevar8x32_ps(half, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
  }

  // Sums of a, b, c and d into out[0..3], each by ((0+1)+(2+3)) + ((4+5)+(6+7)).
  static void sum4(F a, F b, F c, F d, float* out) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
  }
  static float sum(F x) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float largest(F x) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  // Rounds to nearest even; NaN stays NaN.
  static void store_bf16(void* p, F x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(static_cast<__m128i*>(p), packed);
  }

  // Of 2 kWidth numbers the even ones and the odd ones.
  static void split_bf16(const void* p, F& even, F& odd) {
    const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    even = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    odd = _mm256_castsi256_ps(_mm256_blend_epi16(_mm256_setzero_si256(), bits, 0xAA));
  }
  static void split_fp8(const void* p, F& even, F& odd) {
    const __m128i codes = split_bytes(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    even = decode_fp8(codes);
    odd = decode_fp8(_mm_unpackhi_epi64(codes, codes));
  }
  static void store_fp8(void* p, F x) { _mm_storel_epi64(static_cast<__m128i*>(p), encode_fp8(x)); }
  // 2 kWidth bytes as pairs of 16-bit integers.
  static F load_int8_as_int16(const void* p) {
    return _mm256_castsi256_ps(
        _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p))));
  }
  // sum + the two products of the 16-bit integers of each lane, in 32 bits.
  static F add_pairs(F a, F b, F sum) {
    const __m256i products = _mm256_madd_epi16(_mm256_castps_si256(a), _mm256_castps_si256(b));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), products));
  }
  static F from_ints(F x) { return _mm256_cvtepi32_ps(_mm256_castps_si256(x)); }
  // Rounds to nearest even; x is within the range.
  static void store_int16(void* p, F x) {
    const __m256i ints = _mm256_cvtps_epi32(x);
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packs_epi32(_mm256_castsi256_si128(ints),
                                                               _mm256_extracti128_si256(ints, 1)));
  }
  // Rounds to nearest even; x is within the range.
  static void store_int8(void* p, F x) {
    _mm_storel_epi64(static_cast<__m128i*>(p), round_to_int8(x));
  }

 private:
  static __m256i first_lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace quire
