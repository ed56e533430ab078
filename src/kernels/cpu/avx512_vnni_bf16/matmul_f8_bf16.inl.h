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

// A line of a panel, 64 codes, as bfloat16 in their order: by tables of bytes two permutations give
// 64 codes; by tables of words (fp8_as_bf16()), 32.
class Fp8Line {
 public:
  [[gnu::always_inline]] void expand(const std::uint8_t* codes, __m512i (&to)[2]) const {
    const __m512i x = _mm512_permutexvar_epi64(order_, _mm512_loadu_si512(codes));
    // By the lower seven bits of each code.
    const __m512i size = _mm512_permutex2var_epi8(upper_[0], x, upper_[1]);
    // size | (x & signs)
    const __m512i high = _mm512_ternarylogic_epi32(size, x, _mm512_set1_epi8(-128), 0xF8);
    const __m512i low = _mm512_permutex2var_epi8(lower_[0], x, lower_[1]);
    to[0] = _mm512_unpacklo_epi8(low, high);
    to[1] = _mm512_unpackhi_epi8(low, high);
  }

 private:
  __m512i upper_[2] = {_mm512_load_si512(kFp8ByteTables.upper),
                       _mm512_load_si512(kFp8ByteTables.upper + 64)};
  __m512i lower_[2] = {_mm512_load_si512(kFp8ByteTables.lower),
                       _mm512_load_si512(kFp8ByteTables.lower + 64)};
  // Bytes are interleaved within lanes of 16: the first eight codes of each lane come first.
  __m512i order_ = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
};

// As F8FloatTerms.
template <typename V>
struct F8DotTerms {
  static constexpr float kUnit = 1.0F;

  // As many rows as sums of theirs stay in registers share what codes are expanded to. Of pieces
  // that are expanded to memory, as for more rows, 4 to 16 rows get 0.64 to 0.94 of the speed.
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  static constexpr int kFewRows = 5;  // each number takes long to compile
#else
  static constexpr int kFewRows = 16;
#endif
  struct Shape {
    static constexpr int vectors(int rows) {
      return rows <= kMaxDirectRows ? V::DirectBlocks::vectors(rows) : rows <= 8 ? 2 : 1;
    }
  };

  template <int R, int N>
  [[gnu::always_inline]] static void add(const MatmulPanels& args,
                                         const WeightStreams<V, N>& streams, std::int64_t offset,
                                         std::int64_t input, std::int64_t count,
                                         typename V::F (&acc)[R][N]) {
    const Fp8Line line;
    const std::uint16_t* x = args.bf16_x.values + input;
    for (std::int64_t k = 0; k < count; k += kF8Inputs, x += kF8Inputs, offset += kF8Line) {
      streams.fetch(offset, kF8Line);
      typename V::I pairs[R][2];
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        QUIRE_UNROLL
        for (int i = 0; i < 2; ++i) {
          pairs[r][i] = set1_bf16_pair<V>(x + r * args.bf16_x.stride + 2 * i);
        }
      }
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        __m512i weights[2];
        line.expand(streams.panel[n] + offset, weights);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) {
          QUIRE_UNROLL
          for (int i = 0; i < 2; ++i) acc[r][n] = dot_bf16(acc[r][n], weights[i], pairs[r][i]);
        }
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
    const Fp8Line line;
    for (std::int64_t at = 0; at < inputs * kPanelOutputs; at += kF8Line) {
      __m512i weights[2];
      line.expand(codes + at, weights);
      _mm512_storeu_si512(piece.pairs + at, weights[0]);
      _mm512_storeu_si512(piece.pairs + at + 32, weights[1]);
    }
  }
};

}  // namespace
}  // namespace quire
