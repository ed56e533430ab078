// e4m3 weights by inputs rounded to bfloat16, with vdpbf16ps: codes are expanded to bfloat16, which
// holds each of their values. What is summed before it is scaled is what matmul_f8.inl.h says.
#pragma once

#include <cstdint>

#include "kernels/cpu/avx512_vnni_bf16/fp8_pairs.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_bf16.inl.h"
#include "kernels/cpu/matmul_f8.inl.h"

namespace quire {
namespace {

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
    for (std::int64_t at = 0; at < inputs * kPanelOutputs; at += 2 * V::kWidth) {
      V::store_int(piece.pairs + at, fp8_as_bf16(codes + at));
    }
  }
};

}  // namespace
}  // namespace quire
