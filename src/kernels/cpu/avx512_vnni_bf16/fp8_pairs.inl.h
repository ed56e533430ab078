// e4m3 numbers expanded to bfloat16, which has each of them; and an fp8 cache, for the dot product
// of bf16_pairs.inl.h. The contents of the panels are expanded already.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512_vnni_bf16/bf16_pairs.inl.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

// The bits of e4m3 code `code` as bfloat16, for codes without a sign.
constexpr std::uint16_t fp8_bits(int code) {
  const int exponent = code >> 3;
  const int mantissa = code & 7;
  if (code == 0x7F) return 0x7FC0;  // NaN
  if (code == 0) return 0;
  if (exponent > 0) return static_cast<std::uint16_t>(((exponent + 120) << 7) | (mantissa << 4));
  const int power = mantissa >= 4 ? 2 : (mantissa >= 2 ? 1 : 0);  // mantissa * 2^-9
  return static_cast<std::uint16_t>(((power + 118) << 7) | ((mantissa << (7 - power)) & 0x7F));
}

struct Fp8Table {
  alignas(64) std::uint16_t bits[128] = {};
  constexpr Fp8Table() {
    for (int code = 0; code < 128; ++code) bits[code] = fp8_bits(code);
  }
};
inline constexpr Fp8Table kFp8Table;

// 32 codes as bfloat16, in their order.
inline __m512i fp8_as_bf16(const void* from) {
  const __m512i codes = _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  // By the lower six bits of each code from two vectors of the table, and where the next one is set
  // from the last two.
  const auto table = [](int first) { return _mm512_load_si512(kFp8Table.bits + first); };
  const __m512i lower = _mm512_permutex2var_epi16(table(0), codes, table(32));
  const __mmask32 upper = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
  const __m512i size =
      _mm512_mask_mov_epi16(lower, upper, _mm512_permutex2var_epi16(table(64), codes, table(96)));
  // size | (the sign's bit of codes << 8)
  return _mm512_ternarylogic_epi32(size, _mm512_slli_epi16(codes, 8),
                                   _mm512_set1_epi16(static_cast<std::int16_t>(0x8000)), 0xF8);
}

struct Fp8Pairs : Bf16Pairs {
  static constexpr int kBytes = 1;
  static void load(const std::byte* from, F (&x)[1]) {
    x[0] = _mm512_castsi512_ps(fp8_as_bf16(from));
  }
};

}  // namespace
}  // namespace quire
