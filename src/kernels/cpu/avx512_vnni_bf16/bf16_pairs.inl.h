// A bfloat16 cache as the dot product of bfloat16 reads it (vdpbf16ps): each lane has two
// neighbouring dimensions of a key, or the values of two neighbouring keys. What they are
// multiplied by, queries and weights, is rounded to bfloat16 too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/dots_avx512.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

struct Bf16Pairs {
  using F = __m512;
  using Panels = Bf16Pairs;
  static constexpr int kGroup = 2;
  static constexpr int kBytes = 2;
  static constexpr int kPerLane = 2;
  static constexpr bool kIntegers = false;

  static void load(const std::byte* from, F (&x)[1]) {
    x[0] = _mm512_castsi512_ps(_mm512_loadu_si512(from));
  }
  static F keep_one(F x, int which) {
    const __mmask32 kept = which == 0 ? 0x55555555U : 0xAAAAAAAAU;
    return _mm512_castsi512_ps(_mm512_maskz_mov_epi16(kept, _mm512_castps_si512(x)));
  }
  static F add_product(F a, F b, F sum) {
    return dot_bf16(sum, _mm512_castps_si512(a), _mm512_castps_si512(b));
  }
  static F store_factors(float* row, std::int64_t at, F x) {
    const __m256i rounded = round_to_bf16(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + at / 2), rounded);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  }
};

}  // namespace
}  // namespace quire
