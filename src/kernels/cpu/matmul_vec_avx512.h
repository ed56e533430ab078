// What matmul.inl.h needs of AVX-512 (F, BW, DQ, VL): Vec16 and integers.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

struct MatmulVec16 : Vec16 {
  using I = __m512i;

  // Few rows fetch weights into the L2 cache: one thread of a Zen 4 reads 28 GB/s this way, and 17
  // into the L1 cache.
  static constexpr int kFetchLocality = 2;

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  // Few and small blocks: emulated ones take minutes to compile.
  static constexpr int kMaxBlockRows = 4;
  static constexpr int kBlockPanels = 2;
  struct DirectBlocks {
    static constexpr int vectors(int rows) { return rows == 1 ? 2 : 1; }
  };
  using DirectBlocks16 = DirectBlocks;
  using LineBlocks = DirectBlocks;
  struct IntBlocks : DirectBlocks {
    static constexpr int kRows = 3;
    static constexpr std::int64_t kStripOutputs = 128;
  };
#else
  // 32 registers: at most 24 accumulators beside weights and an input.
  static constexpr int kMaxBlockRows = 6;
  static constexpr int kBlockPanels = 4;
  struct DirectBlocks {
    static constexpr int vectors(int rows) { return rows <= 2 ? 8 : 4; }
  };
  using DirectBlocks16 = DirectBlocks;
  using LineBlocks = DirectBlocks;
  struct IntBlocks {
    static constexpr int kRows = 4;
    static constexpr std::int64_t kStripOutputs = 128;
    static constexpr int vectors(int rows) { return rows <= 2 ? 8 : 2; }
  };
#endif

  static F load_half(const std::uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  // Half floats of `x` to where they are converted from: the first kWidth from the register.
  static void store_halves(std::uint16_t* p, I x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + kWidth), _mm512_extracti64x4_epi64(x, 1));
  }
  static F first_halves(const std::uint16_t* /*stored*/, I x) {
    return _mm512_cvtph_ps(_mm512_castsi512_si256(x));
  }
  static I load_int(const void* p) { return _mm512_loadu_si512(p); }
  static void store_int(void* p, I x) { _mm512_storeu_si512(p, x); }
  static I set1_int(int x) { return _mm512_set1_epi32(x); }
  static I set1_quad(const std::int8_t* p) {  // four bytes in every lane
    int quad = 0;
    __builtin_memcpy(&quad, p, sizeof(quad));
    return _mm512_set1_epi32(quad);
  }
  static I set1_pair(const std::int16_t* p) {  // two 16-bit numbers in every lane
    int pair = 0;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return _mm512_set1_epi32(pair);
  }
  static F load_bytes(const std::uint8_t* p) {  // unsigned
    return _mm512_cvtepi32_ps(load_unsigned_bytes(p));
  }
  static I load_unsigned_bytes(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I load_signed_bytes(const std::uint8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I lanes() {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  static F gather(const float* table, I index) { return _mm512_i32gather_ps(index, table, 4); }
  static I bit_or(I a, I b) { return _mm512_or_si512(a, b); }
  static I bit_and(I a, I b) { return _mm512_and_si512(a, b); }
  template <int kBits>
  static I shift_left(I x) {
    return _mm512_slli_epi32(x, kBits);
  }
  template <int kBits>
  static I shift_right(I x) {
    return _mm512_srli_epi32(x, kBits);
  }
  static I shift_right_each(I x, I bits) { return _mm512_srlv_epi32(x, bits); }
  static I shift_right_by(I x, int bits) { return _mm512_srl_epi32(x, _mm_cvtsi32_si128(bits)); }
  template <int kBits>
  static I shift_right_signed(I x) {
    return _mm512_srai_epi32(x, kBits);
  }
  template <int kBits>
  static I shift_left16(I x) {
    return _mm512_slli_epi16(x, kBits);
  }
  template <int kBits>
  static I shift_right16(I x) {
    return _mm512_srli_epi16(x, kBits);
  }
  template <int kBits>
  static I shift_right_signed16(I x) {
    return _mm512_srai_epi16(x, kBits);
  }
  static I sub16(I a, I b) { return _mm512_sub_epi16(a, b); }
  static I add16(I a, I b) { return _mm512_add_epi16(a, b); }
  static I add32(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub32(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I mul32(I a, I b) { return _mm512_mullo_epi32(a, b); }
  // Sums of two products of unsigned by signed bytes, in 16 bits.
  static I multiply_add_bytes(I bytes, I signed_bytes) {
    return _mm512_maddubs_epi16(bytes, signed_bytes);
  }
  // Sums of two products of signed 16-bit numbers.
  static I multiply_add16(I a, I b) { return _mm512_madd_epi16(a, b); }
  // sum + the same.
  static I add_products16(I sum, I a, I b) { return add32(sum, multiply_add16(a, b)); }
  static I add_pairs16(I x) { return _mm512_madd_epi16(x, _mm512_set1_epi16(1)); }
  static F as_float(I x) { return _mm512_castsi512_ps(x); }
  // A table of 16 numbers, and those that four bits of each lane name, from bit kFrom on.
  using Table = F;
  static Table load_table(const float* p) { return load(p); }
  template <int kFrom>
  static F look_up(Table table, I x) {
    return _mm512_permutexvar_ps(_mm512_srli_epi32(x, kFrom), table);
  }
  // A table of 16 numbers of 16 bits, and those that a line of nibbles names: by the low and the
  // high nibbles of each lane's bytes 0 and 2, then by those of bytes 1 and 3.
  using WordTable = I;
  static WordTable load_word_table(const std::int16_t* p) {
    alignas(64) std::int16_t twice[32];  // five bits of a number choose, the fifth does not matter
    for (int i = 0; i < 32; ++i) twice[i] = p[i % 16];
    return load_int(twice);
  }
  static void look_up_pairs(const WordTable& table, I line, I (&pairs)[4]) {
    pairs[0] = _mm512_permutexvar_epi16(line, table);
    pairs[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(line, 4), table);
    pairs[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(line, 8), table);
    pairs[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(line, 12), table);
  }
  // Products with those that a line names: one sum for an output.
  static constexpr int kLineSums = 1;
  static void look_up_line(const WordTable& table, I line, I (&weights)[4]) {
    look_up_pairs(table, line, weights);
  }
  // What weights[kIndex] are multiplied with: `low` and `high` are quads of inputs.
  template <int kIndex>
  static I line_inputs(const std::int16_t* low, const std::int16_t* high) {
    return set1_pair((kIndex % 2 == 0 ? low : high) + kIndex / 2 * 2);
  }
  static I join_sums(const I (&sums)[kLineSums]) { return sums[0]; }
  static F to_float(I x) { return _mm512_cvtepi32_ps(x); }
};

}  // namespace
}  // namespace quire
