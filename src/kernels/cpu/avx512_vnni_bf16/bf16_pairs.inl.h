// A bfloat16 cache as the dot product of bfloat16 takes it (vdpbf16ps): each lane has two
// neighbouring dimensions of a key, or the values of two neighbouring keys. What they are
// multiplied by, queries and weights, is rounded to bfloat16 too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_tile.inl.h"
#include "kernels/cpu/dots_avx512.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

struct Bf16PairProducts {
  using F = __m512;
  static constexpr int kBytes = 2;
  static constexpr int kPerLane = 2;
  static F add_product(F a, F b, F sum) {
    return dot_bf16(sum, _mm512_castps_si512(a), _mm512_castps_si512(b));
  }
  static F load(const std::byte* from) { return _mm512_castsi512_ps(_mm512_loadu_si512(from)); }
  // The first of the two in each lane (0), or the second (1); zero in the place of the other.
  static F keep_half(F x, int which) {
    const __mmask32 kept = which == 0 ? 0x55555555U : 0xAAAAAAAAU;
    return _mm512_castsi512_ps(_mm512_maskz_mov_epi16(kept, _mm512_castps_si512(x)));
  }
};

// Panels of values: of every two keys two vectors of columns, each lane a column of both keys.
struct Bf16PairPanels : Bf16PairProducts {
  static void load_pair(const std::byte* from, std::int64_t /*row_bytes*/, F& a, F& b) {
    a = load(from);
    b = load(from + sizeof(F));
  }
  static void load_half(const std::byte* from, std::int64_t row_bytes, int which, F& a, F& b) {
    load_pair(from, row_bytes, a, b);
    a = keep_half(a, which);
    b = keep_half(b, which);
  }
};

struct Bf16Pairs : Bf16PairProducts {
  using Panels = Bf16PairPanels;
  static constexpr int kKeyGroup = 2;
  static constexpr std::int64_t kColumns = 2 * Vec16::kWidth;

  static F store_factors(float* row, std::int64_t at, F x) {
    const __m256i rounded = round_to_bf16(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + at / 2), rounded);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  }
  static void load_keys(const std::byte* from, F (&x)[1]) { x[0] = load(from); }
  static void load_pair(const std::byte* from, std::int64_t row_bytes, F& a, F& b) {
    interleave(_mm512_loadu_si512(from), _mm512_loadu_si512(from + row_bytes), a, b);
  }
  static void load_half(const std::byte* from, std::int64_t row_bytes, int which, F& a, F& b) {
    const __m512i zero = _mm512_setzero_si512();
    if (which == 0) {
      interleave(_mm512_loadu_si512(from), zero, a, b);
    } else {
      interleave(zero, _mm512_loadu_si512(from + row_bytes), a, b);
    }
  }
  static void order(F& /*a*/, F& /*b*/) {}

  // A panel's values of the first of keys [keys.begin, keys.end), and of the next where it shares
  // their lanes: of how many. `from`: 2 kWidth columns of the first, `left` of them in its row;
  // beyond it zeros.
  static int pack_values(const std::byte* from, std::int64_t row_bytes, std::int64_t left,
                         KeySpan keys, float* panel) {
    const __m512i first = load_columns(from, left);
    const __m512i zero = _mm512_setzero_si512();
    F a;
    F b;
    float* const to = panel + keys.begin / 2 * kColumns;
    int count = 1;
    if (keys.begin % 2 != 0) {  // the other one, if any, is there, from the block before this one
      interleave(zero, first, a, b);
      a = join(keep_half(Vec16::load(to), 0), a);
      b = join(keep_half(Vec16::load(to + Vec16::kWidth), 0), b);
    } else if (keys.begin + 1 < keys.end) {
      interleave(first, load_columns(from + row_bytes, left), a, b);
      count = 2;
    } else {
      interleave(first, zero, a, b);
    }
    Vec16::store(to, a);
    Vec16::store(to + Vec16::kWidth, b);
    return count;
  }

 private:
  static F join(F a, F b) {
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static __m512i load_columns(const std::byte* from, std::int64_t left) {
    if (left >= kColumns) return _mm512_loadu_si512(from);
    std::byte padded[sizeof(__m512i)] = {};
    __builtin_memcpy(padded, from, static_cast<std::size_t>(left * kBytes));
    return _mm512_loadu_si512(padded);
  }
  // Columns of two keys side by side: the first kWidth columns and the others.
  static void interleave(__m512i first, __m512i second, F& a, F& b) {
    const __m512i low = _mm512_set_epi32(0x2F000F, 0x2E000E, 0x2D000D, 0x2C000C, 0x2B000B, 0x2A000A,
                                         0x290009, 0x280008, 0x270007, 0x260006, 0x250005, 0x240004,
                                         0x230003, 0x220002, 0x210001, 0x200000);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    a = _mm512_castsi512_ps(_mm512_permutex2var_epi16(first, low, second));
    b = _mm512_castsi512_ps(_mm512_permutex2var_epi16(first, high, second));
  }
};

}  // namespace
}  // namespace quire
