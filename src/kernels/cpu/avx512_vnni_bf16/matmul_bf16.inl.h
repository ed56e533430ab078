// bfloat16 weights by inputs rounded to bfloat16, with vdpbf16ps: a line of a panel is one operand,
// two inputs of a row, in every lane, the other. Sums go through K pair by pair, for few rows and
// for many.
#pragma once

#include <cstdint>

#include "kernels/cpu/dots_avx512.h"
#include "kernels/cpu/matmul_blocked.inl.h"
#include "kernels/cpu/matmul_dense.inl.h"

namespace quire {
namespace {

template <typename V>
[[gnu::always_inline]] inline typename V::I set1_bf16_pair(const std::uint16_t* p) {
  int pair = 0;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return V::set1_int(pair);
}

// Few rows.
template <typename V>
struct Bf16DotBlock {
  using Shape = typename V::DirectBlocks;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const Bf16Rows& x = args.bf16_x;
    typename V::F acc[R][N];
    clear<V>(acc);
    for (std::int64_t k = 0; k < args.inputs; k += 2) {
      typename V::I pair[R];
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) pair[r] = set1_bf16_pair<V>(x.values + r * x.stride + k);
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const typename V::I weight = V::load_int(streams.panel[n] + 2 * k * kPanelOutputs);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) acc[r][n] = dot_bf16(acc[r][n], weight, pair[r]);
      }
    }
    store_block<V>(args, 0, output, acc);
  }
};

// Many rows: lines of weights are read where they are. Four panels of a piece stay in the second
// cache, which is fast enough; shorter pieces, for the first, lost 4 to 7% to their beginnings.
template <typename V>
struct Bf16DotPieces {
  using Product = Bf16DotPieces;
  static constexpr std::int64_t kInputs = 2048;  // of a piece at most
  static constexpr bool kScalesOutputs = false;
  struct Piece {
    const std::uint8_t* lines;
  };
  static void expand(const MatmulPanels& /*args*/, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t /*end*/, Piece& piece) {
    piece.lines = panel + 2 * begin * kPanelOutputs;
  }

  template <int R, int P>
  static void multiply(const MatmulPanels& args, const Piece (&pieces)[P], std::int64_t row,
                       std::int64_t begin, std::int64_t end, Ahead& ahead, float* sums) {
    add_piece<V, R, P>(end - begin, ahead, sums, adder<R, P>(args, pieces, row, begin));
  }

  // acc += the products; pieces are Piece or what is made of it.
  template <int R, int P, typename Lines>
  [[gnu::always_inline]] static void add(const MatmulPanels& args, const Lines (&pieces)[P],
                                         std::int64_t row, std::int64_t begin, std::int64_t end,
                                         Ahead& ahead, typename V::F (&acc)[R][P]) {
    add_inputs<V>(end - begin, ahead, acc, adder<R, P>(args, pieces, row, begin));
  }

 private:
  template <int R, int P, typename Lines>
  [[gnu::always_inline]] static auto adder(const MatmulPanels& args, const Lines (&pieces)[P],
                                           std::int64_t row, std::int64_t begin) {
    static_assert(V::kWidth == kPanelOutputs);
    const std::int64_t stride = args.bf16_x.stride;
    const std::uint16_t* x = args.bf16_x.values + row * stride + begin;
    return [ x, stride, &pieces ](typename V::F(&acc)[R][P], std::int64_t k, std::int64_t last)
        __attribute__((always_inline)) {
      for (; k < last; k += 2) {
        typename V::I weight[P];
        QUIRE_UNROLL
        for (int p = 0; p < P; ++p) {
          weight[p] = V::load_int(pieces[p].lines + 2 * k * kPanelOutputs);
        }
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) {
          const typename V::I pair = set1_bf16_pair<V>(x + r * stride + k);
          QUIRE_UNROLL
          for (int p = 0; p < P; ++p) acc[r][p] = dot_bf16(acc[r][p], weight[p], pair);
        }
      }
    };
  }
};

}  // namespace
}  // namespace quire
