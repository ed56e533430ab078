// What matmul.inl.h needs of AVX2: Vec8 and integers.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec_avx2.h"

namespace quire {
namespace {

struct MatmulVec8 : Vec8 {
  using I = __m256i;

  // 16 registers: at most 12 accumulators beside weights and an input.
  static constexpr int kMaxBlockRows = 6;
  static constexpr int kBlockPanels = 1;
  static constexpr int kFetchLocality = 3;
  struct DirectBlocks {
    static constexpr int vectors(int rows) { return rows == 1 ? 8 : (rows == 2 ? 4 : 2); }
  };
  struct DirectBlocks16 {
    static constexpr int vectors(int) { return 2; }
  };
  // Of look_up_line(), whose sums need kLineSums registers for each of R by N.
  struct LineBlocks {
    static constexpr int vectors(int rows) { return rows <= 2 ? 2 : 1; }
  };
  struct IntBlocks {
    static constexpr int kRows = 6;
    static constexpr std::int64_t kStripOutputs = 64;
    static constexpr int vectors(int rows) { return rows <= 2 ? 2 : 1; }
  };

  static F load_half(const std::uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // Half floats of `x` to where they are converted from.
  static void store_halves(std::uint16_t* p, I x) { store_int(p, x); }
  static F first_halves(const std::uint16_t* stored, I /*x*/) {
    return load_half(reinterpret_cast<const std::uint8_t*>(stored));
  }
  static I load_int(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store_int(void* p, I x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
  static I set1_int(int x) { return _mm256_set1_epi32(x); }
  static I set1_quad(const std::int8_t* p) {  // four bytes in every lane
    int quad = 0;
    __builtin_memcpy(&quad, p, sizeof(quad));
    return _mm256_set1_epi32(quad);
  }
  static I set1_pair(const std::int16_t* p) {  // two 16-bit numbers in every lane
    int pair = 0;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return _mm256_set1_epi32(pair);
  }
  static F load_bytes(const std::uint8_t* p) {  // unsigned
    return _mm256_cvtepi32_ps(load_unsigned_bytes(p));
  }
  static I load_unsigned_bytes(const std::uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static I load_signed_bytes(const std::uint8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static I lanes() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  static F gather(const float* table, I index) { return _mm256_i32gather_ps(table, index, 4); }
  static I bit_or(I a, I b) { return _mm256_or_si256(a, b); }
  static I bit_and(I a, I b) { return _mm256_and_si256(a, b); }
  template <int kBits>
  static I shift_left(I x) {
    return _mm256_slli_epi32(x, kBits);
  }
  template <int kBits>
  static I shift_right(I x) {
    return _mm256_srli_epi32(x, kBits);
  }
  static I shift_right_each(I x, I bits) { return _mm256_srlv_epi32(x, bits); }
  static I shift_right_by(I x, int bits) { return _mm256_srl_epi32(x, _mm_cvtsi32_si128(bits)); }
  template <int kBits>
  static I shift_right_signed(I x) {
    return _mm256_srai_epi32(x, kBits);
  }
  template <int kBits>
  static I shift_left16(I x) {
    return _mm256_slli_epi16(x, kBits);
  }
  template <int kBits>
  static I shift_right16(I x) {
    return _mm256_srli_epi16(x, kBits);
  }
  template <int kBits>
  static I shift_right_signed16(I x) {
    return _mm256_srai_epi16(x, kBits);
  }
  static I sub16(I a, I b) { return _mm256_sub_epi16(a, b); }
  static I add16(I a, I b) { return _mm256_add_epi16(a, b); }
  static I add32(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub32(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I mul32(I a, I b) { return _mm256_mullo_epi32(a, b); }
  // Sums of two products of unsigned by signed bytes, in 16 bits.
  static I multiply_add_bytes(I bytes, I signed_bytes) {
    return _mm256_maddubs_epi16(bytes, signed_bytes);
  }
  // Sums of two products of signed 16-bit numbers.
  static I multiply_add16(I a, I b) { return _mm256_madd_epi16(a, b); }
  // sum + the same.
  static I add_products16(I sum, I a, I b) { return add32(sum, multiply_add16(a, b)); }
  static I add_pairs16(I x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
  static F as_float(I x) { return _mm256_castsi256_ps(x); }
  // A table of 16 numbers, and those that four bits of each lane name, from bit kFrom on.
  struct Table {
    F low;
    F high;
  };
  static Table load_table(const float* p) { return {load(p), load(p + 8)}; }
  template <int kFrom>
  static F look_up(const Table& table, I x) {
    const I index = _mm256_srli_epi32(x, kFrom);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, index),
                            _mm256_permutevar8x32_ps(table.high, index),
                            as_float(_mm256_slli_epi32(x, 28 - kFrom)));
  }
  // A table of 16 numbers of 16 bits, and those that a line of nibbles names: by the low and the
  // high nibbles of each lane's bytes 0 and 2, then by those of bytes 1 and 3.
  struct WordTable {
    I low;  // their low bytes, twice
    I high;
  };
  static WordTable load_word_table(const std::int16_t* p) {
    alignas(32) std::uint8_t bytes[2][32];
    for (int i = 0; i < 32; ++i) {
      const auto value = static_cast<std::uint16_t>(p[i % 16]);
      bytes[0][i] = static_cast<std::uint8_t>(value);
      bytes[1][i] = static_cast<std::uint8_t>(value >> 8);
    }
    return {load_int(bytes[0]), load_int(bytes[1])};
  }
  static void look_up_pairs(const WordTable& table, I line, I (&pairs)[4]) {
    const I mask = _mm256_set1_epi8(15);
    const I even_bytes = _mm256_set1_epi16(0x00FF);
    const I codes[2] = {bit_and(line, mask), bit_and(_mm256_srli_epi16(line, 4), mask)};
    for (int half = 0; half < 2; ++half) {
      const I low = _mm256_shuffle_epi8(table.low, codes[half]);
      const I high = _mm256_shuffle_epi8(table.high, codes[half]);
      pairs[half] = bit_or(bit_and(low, even_bytes), _mm256_slli_epi16(high, 8));
      pairs[2 + half] = bit_or(_mm256_srli_epi16(low, 8), _mm256_andnot_si256(even_bytes, high));
    }
  }
  // Products with those that a line names, as bytes by unpacking: of low nibbles, outputs 0, 1, 4
  // and 5, then the others; of high ones the same. An output's four bytes meet the inputs of a quad
  // (0, 2, 1, 3), so that it has two sums side by side.
  static constexpr int kLineSums = 2;
  static void look_up_line(const WordTable& table, I line, I (&weights)[4]) {
    const I mask = _mm256_set1_epi8(15);
    const I quads = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    line = _mm256_shuffle_epi8(line, quads);
    const I codes[2] = {bit_and(line, mask), bit_and(_mm256_srli_epi16(line, 4), mask)};
    for (int half = 0; half < 2; ++half) {
      const I low = _mm256_shuffle_epi8(table.low, codes[half]);
      const I high = _mm256_shuffle_epi8(table.high, codes[half]);
      weights[2 * half] = _mm256_unpacklo_epi8(low, high);
      weights[2 * half + 1] = _mm256_unpackhi_epi8(low, high);
    }
  }
  // What weights[kIndex] are multiplied with: `low` and `high` are quads of inputs.
  template <int kIndex>
  static I line_inputs(const std::int16_t* low, const std::int16_t* high) {
    long long quad = 0;
    __builtin_memcpy(&quad, kIndex < 2 ? low : high, sizeof(quad));
    return _mm256_set1_epi64x(quad);
  }
  static I join_sums(const I (&sums)[kLineSums]) { return _mm256_hadd_epi32(sums[0], sums[1]); }
  static F to_float(I x) { return _mm256_cvtepi32_ps(x); }
};

}  // namespace
}  // namespace quire
