// Sixteen floats in an AVX-512 register (F, BW, DQ, VL): the twin of vec_avx2.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/fp8.inl.h"
#include "kernels/cpu/intrinsics.h"

namespace quire {
namespace {

struct Vec16 {
  using F = __m512;
  static constexpr int kWidth = 16;

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  // The first n lanes (n <= kWidth) from memory, the others zero.
  static F load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
  static void store_first(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), x); }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }    // a * b + c
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
  // a * b - c in even lanes, a * b + c in odd ones.
  static F fmaddsub(F a, F b, F c) {
    const __m512 signs = _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000LL));
    return _mm512_fmadd_ps(a, b, _mm512_xor_ps(c, signs));
  }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }  // b where a or b is NaN
  static F round(F x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  // x * 2^n for integral n, while the result is a normal number.
  static F scale_by_power(F x, F n) { return _mm512_scalef_ps(x, n); }
  // The rest of x beyond its nearest integer, which is 2^x's exponent.
  static F split(F x, F& exponent) {
    exponent = round(x);
    return _mm512_sub_ps(x, exponent);
  }
  // x times the power of two that split() found, or 0 where that is 2^-127 or less.
  static F scale_by_exponent(F x, F exponent) {
    return where_less(exponent, set1(-126.5F), zero(), _mm512_scalef_ps(x, exponent));
  }
  static F where_less(F a, F b, F yes, F no) {  // no where a or b is NaN
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  // x in lanes below n (any n), `other` in the rest.
  static F keep_first(F x, int n, F other) {
    return _mm512_mask_blend_ps(first_lanes(n), other, x);
  }
  static unsigned equal_lanes(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }

  static F swap_pairs(F x) {
    const __m512i swapped = _mm512_setr_epi32(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return _mm512_permutexvar_ps(swapped, x);
  }
  static F load_doubled(const float* p) {  // p[0] p[0] p[1] p[1] ...
    const __m512 half = _mm512_castps256_ps512(_mm256_loadu_ps(p));
    const __m512i doubled = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(doubled, half);
  }

  // Sums of a, b, c and d into out[0..3], in one order for all.
  static void sum4(F a, F b, F c, F d, float* out) {
    const __m256 pairs =
        _mm256_hadd_ps(_mm256_hadd_ps(fold(a), fold(b)), _mm256_hadd_ps(fold(c), fold(d)));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
  }
  static float sum(F x) {
    const __m256 eight = fold(x);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float largest(F x) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), upper_half(x));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  // Rounds to nearest even; NaN stays NaN.
  static void store_bf16(void* p, F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i high = _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16);
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(high));
  }

  // Of 2 kWidth numbers the even ones and the odd ones.
  static void split_bf16(const void* p, F& even, F& odd) {
    const __m512i bits = _mm512_loadu_si512(p);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
    odd = _mm512_castsi512_ps(
        _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<std::int32_t>(0xFFFF0000U))));
  }
  static void split_fp8(const void* p, F& even, F& odd) {
    const __m128i first = split_bytes(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    const __m128i second = split_bytes(_mm_loadu_si128(static_cast<const __m128i*>(p) + 1));
    even = join(decode_fp8(first), decode_fp8(second));
    odd = join(decode_fp8(_mm_unpackhi_epi64(first, first)),
               decode_fp8(_mm_unpackhi_epi64(second, second)));
  }
  static void store_fp8(void* p, F x) {
    _mm_storeu_si128(
        static_cast<__m128i*>(p),
        _mm_unpacklo_epi64(encode_fp8(_mm512_castps512_ps256(x)), encode_fp8(upper_half(x))));
  }
  // 2 kWidth bytes as pairs of 16-bit integers.
  static F load_int8_as_int16(const void* p) {
    return _mm512_castsi512_ps(
        _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p))));
  }
  // sum + the two products of the 16-bit integers of each lane, in 32 bits.
  static F add_pairs(F a, F b, F sum) {
    const __m512i products = _mm512_madd_epi16(_mm512_castps_si512(a), _mm512_castps_si512(b));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(sum), products));
  }
  static F from_ints(F x) { return _mm512_cvtepi32_ps(_mm512_castps_si512(x)); }
  // Rounds to nearest even; x is within the range.
  static void store_int16(void* p, F x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)));
  }
  // Rounds to nearest even; x is within the range.
  static void store_int8(void* p, F x) {
    _mm_storeu_si128(
        static_cast<__m128i*>(p),
        _mm_unpacklo_epi64(round_to_int8(_mm512_castps512_ps256(x)), round_to_int8(upper_half(x))));
  }

 private:
  static F join(__m256 low, __m256 high) {
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)),
                                               _mm256_castps_pd(high), 1));
  }
  static __m256 upper_half(F x) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
  }
  static __m256 fold(F x) { return _mm256_add_ps(_mm512_castps512_ps256(x), upper_half(x)); }
  static __mmask16 first_lanes(int n) {
    const int lanes = n < 0 ? 0 : (n > 16 ? 16 : n);
    return static_cast<__mmask16>((1U << lanes) - 1U);
  }
};

}  // namespace
}  // namespace quire
