// Matrix products for more rows than kMaxDirectRows, written once for every vector width. A piece
// of K of a few panels is expanded into lines that fit into the L1 cache, and all blocks of rows of
// a chunk pass over it before the next piece; a chunk's inputs fit into the L2 cache.
//
// An output's sum lives in memory between two pieces and in a register within one, and adds its
// terms in the order of K either way: its bits are those of a block that goes through K at once.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_dense.inl.h"

namespace quire {
namespace {

// Lines of weights that are wanted next, fetched from memory while blocks are computed: the
// processor's own prefetching begins too late where few rows pass over a piece. One after the other
// as they lie in memory, and few at once: a Zen 4 drops some of a burst.
class Ahead {
 public:
  // `bytes` of each of `panels` panels from `first` on, while `inputs` are multiplied.
  [[gnu::always_inline]] Ahead(const std::uint8_t* first, std::int64_t panels,
                               std::int64_t panel_bytes, std::int64_t bytes, std::int64_t inputs)
      : at_(first),
        end_(first + bytes),
        panel_bytes_(panel_bytes),
        to_next_panel_(panel_bytes - bytes),
        lines_((panels * bytes + 63) / 64),
        inputs_(inputs) {}

  // The share of so many inputs.
  [[gnu::always_inline]] void fetch(std::int64_t inputs) {
    for (owed_ += inputs * lines_; owed_ >= inputs_; owed_ -= inputs_) {
      __builtin_prefetch(at_, 0, 2);
      at_ += 64;
      if (at_ >= end_) {
        at_ += to_next_panel_;
        end_ += panel_bytes_;
      }
    }
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  std::int64_t panel_bytes_;
  std::int64_t to_next_panel_;
  std::int64_t lines_;
  std::int64_t inputs_;
  std::int64_t owed_ = 0;  // the lines due, times inputs_
};

// Inputs between two fetches.
inline constexpr std::int64_t kFetchInputs = 16;

// acc += what add(acc, begin, end) adds for a piece of `count` inputs, a few inputs at a time.
template <typename V, int R, int N, typename Add>
[[gnu::always_inline]] inline void add_inputs(std::int64_t count, Ahead& ahead,
                                              typename V::F (&acc)[R][N], const Add& add) {
  for (std::int64_t begin = 0; begin < count; begin += kFetchInputs) {
    add(acc, begin, begin + kFetchInputs < count ? begin + kFetchInputs : count);
    ahead.fetch(kFetchInputs);
  }
}

// The same, where the sums [R][N vectors] lie in memory.
template <typename V, int R, int N, typename Add>
[[gnu::always_inline]] inline void add_piece(std::int64_t count, Ahead& ahead, float* sums,
                                             const Add& add) {
  typename V::F acc[R][N];
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) acc[r][n] = V::load(sums + (r * N + n) * V::kWidth);
  }
  add_inputs<V>(count, ahead, acc, add);
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) V::store(sums + (r * N + n) * V::kWidth, acc[r][n]);
  }
}

// What a layout gives to a blocked product is its Pieces: how weights are expanded. How they are
// then multiplied, its Product, is the same for several layouts and compiled once for them.

// Float32 inputs by weights that were expanded to lines of floats.
template <typename V>
struct FloatProduct {
  static constexpr std::int64_t kInputs = 320;  // of a piece at most
  static constexpr int kVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
  struct alignas(64) Piece {
    float lines[kInputs * kPanelOutputs];
    const float* begin;
  };
  template <int R, int P>
  static void multiply(const MatmulPanels& args, const Piece (&pieces)[P], std::int64_t row,
                       std::int64_t begin, std::int64_t end, Ahead& ahead, float* sums) {
    add_piece<V, R, P * kVectors>(end - begin, ahead, sums, adder<R, P>(args, pieces, row, begin));
  }

  // acc += the products; pieces are Piece or what is made of it.
  template <int R, int P, typename Lines>
  [[gnu::always_inline]] static void add(const MatmulPanels& args, const Lines (&pieces)[P],
                                         std::int64_t row, std::int64_t begin, std::int64_t end,
                                         Ahead& ahead, typename V::F (&acc)[R][P * kVectors]) {
    add_inputs<V>(end - begin, ahead, acc, adder<R, P>(args, pieces, row, begin));
  }

 private:
  template <int R, int P, typename Lines>
  [[gnu::always_inline]] static auto adder(const MatmulPanels& args, const Lines (&pieces)[P],
                                           std::int64_t row, std::int64_t begin) {
    const float* x = args.blocked_x + row * args.row_inputs + (args.first_input + begin) * R;
    return [ x, &pieces ](typename V::F(&acc)[R][P * kVectors], std::int64_t k, std::int64_t last)
        __attribute__((always_inline)) {
      for (; k < last; ++k) {
        typename V::F weight[P * kVectors];
        QUIRE_UNROLL
        for (int n = 0; n < P * kVectors; ++n) {
          weight[n] =
              V::load(pieces[n / kVectors].begin + k * kPanelOutputs + n % kVectors * V::kWidth);
        }
        multiply_add<V>(acc, weight, x + k * R, 1);
      }
    };
  }
};

// Lines expands one layout.
template <typename V, typename Lines>
struct FloatPieces {
  using Product = FloatProduct<V>;
  using Piece = typename Product::Piece;
  static constexpr std::int64_t kInputs = Product::kInputs;
  static constexpr bool kScalesOutputs = false;
  static void expand(const MatmulPanels& args, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t end, Piece& piece) {
    piece.begin = Lines::expand(args, panel, begin, end, piece.lines);
  }
};

// The same for kBF16, whose weights become floats in registers: on units that products leave free,
// so that lines of floats would only cost.
template <typename V>
struct Bf16Pieces {
  using Product = Bf16Pieces;
  static constexpr std::int64_t kInputs = 640;
  static constexpr bool kScalesOutputs = false;
  struct Piece {
    const std::uint8_t* begin;
  };
  static void expand(const MatmulPanels& /*args*/, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t /*end*/, Piece& piece) {
    piece.begin = panel + 2 * begin * kPanelOutputs;
  }
  template <int R, int P>
  static void multiply(const MatmulPanels& args, const Piece (&pieces)[P], std::int64_t row,
                       std::int64_t begin, std::int64_t end, Ahead& ahead, float* sums) {
    constexpr int kVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
    constexpr int N = P * kVectors;
    const float* x = args.blocked_x + row * args.row_inputs + begin * R;
    const auto pair_at = [&](int n, std::int64_t k) __attribute__((always_inline)) {
      return V::load_int(pieces[n / kVectors].begin + 2 * k * kPanelOutputs +
                         n % kVectors * 4 * V::kWidth);
    };
    // Registers are for the sums: a pair is loaded for each of its weights, and the mask each time.
    const std::uint32_t* high_halves = kHighHalves;
    const auto add = [&](typename V::F(&acc)[R][N], std::int64_t k, std::int64_t last)
        __attribute__((always_inline)) {
      for (; k < last; k += 2) {
        typename V::F weight[N];
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) weight[n] = even_weight<V>(pair_at(n, k));
        multiply_add<V>(acc, weight, x + k * R, 1);
        std::int64_t odd = k;
        __asm__("" : "+r"(odd), "+r"(high_halves));
        if (odd + 1 == last) return;
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          weight[n] = V::as_float(V::bit_and(pair_at(n, odd), V::load_int(high_halves)));
        }
        multiply_add<V>(acc, weight, x + (odd + 1) * R, 1);
      }
    };
    add_piece<V, R, N>(end - begin, ahead, sums, add);
  }

 private:
  alignas(64) static constexpr std::uint32_t kHighHalves[] = {
      0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U,
      0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U,
      0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U};
};

// R rows or fewer.
template <typename Product, int P, int R>
[[gnu::always_inline]] inline void multiply_up_to(const MatmulPanels& args,
                                                  const typename Product::Piece (&pieces)[P],
                                                  std::int64_t row, std::int64_t rows,
                                                  std::int64_t begin, std::int64_t end,
                                                  Ahead& ahead, float* sums) {
  if (rows == R) {
    Product::template multiply<R, P>(args, pieces, row, begin, end, ahead, sums);
  } else if constexpr (R > 1) {
    multiply_up_to<Product, P, R - 1>(args, pieces, row, rows, begin, end, ahead, sums);
  }
}

// Not inlined, so that layouts with one Product share it.
template <typename V, typename Product, int P>
[[gnu::noinline]] void multiply_block(const MatmulPanels& args,
                                      const typename Product::Piece (&pieces)[P], std::int64_t row,
                                      std::int64_t rows, std::int64_t begin, std::int64_t end,
                                      Ahead& ahead, float* sums) {
  multiply_up_to<Product, P, V::kMaxBlockRows>(args, pieces, row, rows, begin, end, ahead, sums);
}

// The inputs of a piece, a whole number of groups, where `inputs` are cut into as few pieces of at
// most `largest` inputs as possible: equal ones, because a short one costs nearly as much as a
// long.
[[gnu::always_inline]] inline std::int64_t equal_pieces(std::int64_t inputs, std::int64_t largest) {
  const std::int64_t count = (inputs + largest - 1) / largest;
  const std::int64_t each = (inputs + count - 1) / count;
  return (each + kGroupInputs - 1) / kGroupInputs * kGroupInputs;
}

// Blocks of rows that share an expanded piece.
inline constexpr std::int64_t kChunkBlocks = 8;

// Fetches what the sums of some rows will be stored to.
[[gnu::always_inline]] inline void fetch_outputs(const MatmulPanels& args, std::int64_t row,
                                                 std::int64_t rows, std::int64_t output,
                                                 std::int64_t outputs) {
  const std::int64_t end = output + outputs < args.outputs ? output + outputs : args.outputs;
  for (std::int64_t r = row; r < row + rows; ++r) {
    const float* const out = args.out + r * args.out_stride;
    for (std::int64_t i = output; i < end; i += 16) __builtin_prefetch(out + i, 1, 2);
  }
}

// Row blocks [block, block_end) by P panels; `next_panels` are wanted after them.
template <typename V, typename Pieces, int P>
void multiply_panels(const MatmulPanels& args, const RowBlocks& blocks, std::int64_t block,
                     std::int64_t block_end, std::int64_t panel, const std::uint8_t* next_panels) {
  constexpr std::int64_t kWidth = P * kPanelOutputs;
  constexpr int kVectors = static_cast<int>(kWidth) / V::kWidth;
  typename Pieces::Piece pieces[P];
  alignas(64) float sums[kChunkBlocks * V::kMaxBlockRows * kWidth];
  const std::int64_t first = blocks.first(block);
  const std::int64_t rows = blocks.first(block_end) - first;
  for (std::int64_t i = 0; i < rows * kWidth; i += V::kWidth) V::store(sums + i, V::zero());
  const std::int64_t piece_inputs = equal_pieces(args.inputs, Pieces::kInputs);
  for (std::int64_t begin = 0; begin < args.inputs; begin += piece_inputs) {
    const std::int64_t end =
        begin + piece_inputs < args.inputs ? begin + piece_inputs : args.inputs;
    const auto panel_bytes = static_cast<std::int64_t>(args.panel_bytes);
    const std::uint8_t* const from = args.panels + panel * panel_bytes;
    for (int p = 0; p < P; ++p) Pieces::expand(args, from + p * panel_bytes, begin, end, pieces[p]);
    // The next piece is as long as this one.
    const std::uint8_t* const next =
        end < args.inputs ? from + panel_bytes * end / args.inputs : next_panels;
    Ahead ahead(next, P, panel_bytes, panel_bytes * (end - begin) / args.inputs,
                (block_end - block) * (end - begin));
    for (std::int64_t b = block; b < block_end; ++b) {
      const std::int64_t row = blocks.first(b);
      if (args.out_is_far && end == args.inputs) {
        fetch_outputs(args, row, blocks.size(b), panel * kPanelOutputs, kWidth);
      }
      multiply_block<V, typename Pieces::Product, P>(args, pieces, row, blocks.size(b), begin, end,
                                                     ahead, sums + (row - first) * kWidth);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    typename V::F row[1][kVectors];
    for (int n = 0; n < kVectors; ++n) row[0][n] = V::load(sums + r * kWidth + n * V::kWidth);
    if constexpr (Pieces::kScalesOutputs) scale_outputs<V>(args, panel * kPanelOutputs, row);
    store_block<V>(args, first + r, panel * kPanelOutputs, row);
  }
}

// Row blocks [block, block_end) by panels [panel, num_panels), P at once and what is left by fewer.
template <typename V, typename Pieces, int P>
void multiply_rows(const MatmulPanels& args, const RowBlocks& blocks, std::int64_t block,
                   std::int64_t block_end, std::int64_t panel) {
  for (; panel + P <= args.num_panels; panel += P) {
    const std::int64_t behind = panel + P;
    const std::uint8_t* next = args.panels + static_cast<std::uint64_t>(behind) * args.panel_bytes;
    if (behind == args.num_panels) {
      next = block_end < blocks.count ? args.panels : args.next_panels;  // the next rows begin anew
    }
    multiply_panels<V, Pieces, P>(args, blocks, block, block_end, panel, next);
  }
  if constexpr (P > 1) {
    multiply_rows<V, Pieces, (P > 2 ? 2 : 1)>(args, blocks, block, block_end, panel);
  }
}

// With more rows than these a product may do more panels at a time: the loop itself then counts
// more than what comes from memory in time.
inline constexpr std::int64_t kNarrowRows = 32;

// V::kBlockPanels panels at a time, kWidePanels for more than kNarrowRows rows.
template <typename V, typename Pieces, int kWidePanels = V::kBlockPanels>
void blocked_matmul(const MatmulPanels& args) {
  const RowBlocks blocks(args.rows, V::kMaxBlockRows);
  for (std::int64_t block = 0; block < blocks.count; block += kChunkBlocks) {
    const std::int64_t end =
        block + kChunkBlocks < blocks.count ? block + kChunkBlocks : blocks.count;
    if (args.rows <= kNarrowRows) {
      multiply_rows<V, Pieces, V::kBlockPanels>(args, blocks, block, end, 0);
    } else {
      multiply_rows<V, Pieces, kWidePanels>(args, blocks, block, end, 0);
    }
  }
}

}  // namespace
}  // namespace quire
