// e4m3 weights by inputs rounded to bfloat16, with vdpbf16ps: codes are expanded to bfloat16, which
// holds each of their values. What is summed before it is scaled is what matmul_f8.inl.h says.
#pragma once

#include <cstdint>

#include "kernels/cpu/avx512_vnni_bf16/fp8_pairs.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_bf16.inl.h"
#include "kernels/cpu/matmul_f8.inl.h"

namespace quire {
namespace {

// Few rows.
template <typename V, WeightLayout kLayout>
struct F8DotBlock {
  using Shape = typename V::DirectBlocks;
  using Panel = F8Panel<kLayout>;
  using F = typename V::F;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const std::int64_t run_inputs = equal_pieces(args.inputs, Panel::kRunInputs);
    F sums[R][N];
    clear<V>(sums);
    for (std::int64_t begin = 0; begin < args.inputs; begin += run_inputs) {
      const std::int64_t left = args.inputs - begin;
      F acc[R][N];
      clear<V>(acc);
      add_inputs(args, streams, begin, left < run_inputs ? left : run_inputs, acc);
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const F scale = Panel::template scale<V>(streams.panel[n], begin, 0);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) sums[r][n] = V::fma(acc[r][n], scale, sums[r][n]);
      }
    }
    store_block<V>(args, 0, output, sums);
  }

 private:
  template <int R, int N>
  [[gnu::always_inline]] static void add_inputs(const MatmulPanels& args,
                                                const WeightStreams<V, N>& streams,
                                                std::int64_t begin, std::int64_t count,
                                                F (&acc)[R][N]) {
    const std::uint16_t* x = args.bf16_x.values + begin;
    const std::int64_t codes = Panel::codes_offset(begin);
    for (std::int64_t k = 0; k < count; k += 2) {
      typename V::I pair[R];
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) pair[r] = set1_bf16_pair<V>(x + r * args.bf16_x.stride + k);
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const auto weight = fp8_as_bf16(streams.panel[n] + codes + k * kPanelOutputs);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) acc[r][n] = dot_bf16(acc[r][n], weight, pair[r]);
      }
    }
  }
};

// Many rows: a run is a piece, expanded to lines as bfloat16 weights have them.
template <typename V>
struct F8DotProduct {
  using Lines = Bf16DotPieces<V>;
  struct alignas(64) Piece : Lines::Piece {
    std::uint16_t pairs[F8Panel<WeightLayout::kF8Row>::kRunInputs * kPanelOutputs];
    float scales[kPanelOutputs];
  };
  template <int R, int P>
  static void multiply(const MatmulPanels& args, const Piece (&pieces)[P], std::int64_t row,
                       std::int64_t begin, std::int64_t end, Ahead& ahead, float* sums) {
    typename V::F acc[R][P];
    clear<V>(acc);
    Lines::template add<R, P>(args, pieces, row, begin, end, ahead, acc);
    QUIRE_UNROLL
    for (int p = 0; p < P; ++p) {
      const auto scale = V::load(pieces[p].scales);
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        float* const sum = sums + (r * P + p) * V::kWidth;
        V::store(sum, V::fma(acc[r][p], scale, V::load(sum)));
      }
    }
  }
};

template <typename V, WeightLayout kLayout>
struct F8DotPieces {
  using Panel = F8Panel<kLayout>;
  using Product = F8DotProduct<V>;
  using Piece = typename Product::Piece;
  static constexpr std::int64_t kInputs = Panel::kRunInputs;
  static constexpr bool kScalesOutputs = false;

  static void expand(const MatmulPanels& /*args*/, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t end, Piece& piece) {
    piece.lines = reinterpret_cast<const std::uint8_t*>(piece.pairs);
    const std::uint8_t* const codes = panel + Panel::codes_offset(begin);
    for (std::int64_t at = 0; at < (end - begin) * kPanelOutputs; at += 2 * V::kWidth) {
      V::store_int(piece.pairs + at, fp8_as_bf16(codes + at));
    }
    V::store(piece.scales, Panel::template scale<V>(panel, begin, 0));
  }
};

}  // namespace
}  // namespace quire
