// e4m3 weights by inputs rounded to bfloat16, with vdpbf16ps: codes are expanded to bfloat16, which
// holds each of their values. What is summed before it is scaled is what matmul_f8.inl.h says.
#pragma once

#include <cstdint>

#include "kernels/cpu/avx512_vnni_bf16/fp8_pairs.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_bf16.inl.h"
#include "kernels/cpu/matmul_f8.inl.h"

namespace quire {
namespace {

// The upper and the lower bytes of what codes without a sign are as bfloat16.
struct Fp8ByteTables {
  alignas(64) std::uint8_t upper[128] = {};
  alignas(64) std::uint8_t lower[128] = {};
  constexpr Fp8ByteTables() {
    for (int code = 0; code < 128; ++code) {
      upper[code] = static_cast<std::uint8_t>(fp8_bits(code) >> 8);
      lower[code] = static_cast<std::uint8_t>(fp8_bits(code) & 0xFF);
    }
  }
};
inline constexpr Fp8ByteTables kFp8ByteTables;

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
#define QUIRE_WITH_VBMI
#else
#define QUIRE_WITH_VBMI [[gnu::target("avx512vbmi")]]
#endif

// Codes as bfloat16, in their order: `count` and as many more as fill a multiple of 64, a line of a
// panel. By tables of bytes two permutations give 64 codes; by tables of words, 32. It is called,
// not inlined: its callers are compiled without VBMI.
QUIRE_WITH_VBMI void expand_fp8(const std::uint8_t* codes, std::int64_t count, std::uint16_t* to) {
  const __m512i upper[2] = {_mm512_load_si512(kFp8ByteTables.upper),
                            _mm512_load_si512(kFp8ByteTables.upper + 64)};
  const __m512i lower[2] = {_mm512_load_si512(kFp8ByteTables.lower),
                            _mm512_load_si512(kFp8ByteTables.lower + 64)};
  // Bytes are interleaved within lanes of 16: the first eight codes of each lane come first.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  const __m512i signs = _mm512_set1_epi8(-128);
  for (std::int64_t at = 0; at < count; at += 64) {
    const __m512i x = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(codes + at));
    // By the lower seven bits of each code.
    const __m512i size = _mm512_permutex2var_epi8(upper[0], x, upper[1]);
    const __m512i high = _mm512_or_si512(size, _mm512_and_si512(x, signs));
    const __m512i low = _mm512_permutex2var_epi8(lower[0], x, lower[1]);
    _mm512_storeu_si512(to + at, _mm512_unpacklo_epi8(low, high));
    _mm512_storeu_si512(to + at + 32, _mm512_unpackhi_epi8(low, high));
  }
}

// As F8FloatTerms.
template <typename V>
struct F8DotTerms {
  static constexpr float kUnit = 1.0F;

  template <int R, int N>
  [[gnu::always_inline]] static void add(const MatmulPanels& args,
                                         const WeightStreams<V, N>& streams, std::int64_t offset,
                                         std::int64_t input, std::int64_t count,
                                         typename V::F (&acc)[R][N]) {
    const std::uint16_t* x = args.bf16_x.values + input;
    for (std::int64_t k = 0; k < count; k += 2) {
      if (k % kF8Inputs == 0) streams.fetch(offset + k * kPanelOutputs, kF8Line);
      typename V::I pair[R];
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) pair[r] = set1_bf16_pair<V>(x + r * args.bf16_x.stride + k);
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const auto weight = fp8_as_bf16(streams.panel[n] + offset + k * kPanelOutputs);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) acc[r][n] = dot_bf16(acc[r][n], weight, pair[r]);
      }
    }
  }

  // Codes become lines as bfloat16 weights have them.
  using Lines = Bf16DotPieces<V>;
  struct alignas(64) Piece : Lines::Piece {
    std::uint16_t pairs[kF8RunInputs * kPanelOutputs];
  };
  static void expand(const std::uint8_t* codes, std::int64_t inputs, Piece& piece) {
    piece.lines = reinterpret_cast<const std::uint8_t*>(piece.pairs);
    expand_fp8(codes, inputs * kPanelOutputs, piece.pairs);
  }
};

}  // namespace
}  // namespace quire
