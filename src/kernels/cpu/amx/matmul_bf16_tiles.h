// bfloat16 weights by inputs rounded to bfloat16, on tiles (tdpbf16ps): 16 rows by 16 outputs, K in
// steps of 32. A row's sums go through K step by step however many rows there are, and a tile's
// rows do not meet, so one row and many have the same bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

// Tiles 0 to 3 are sums. Up to 16 rows: of four panels, with the inputs in tile 4 and weights in 5
// to 7, so that memory delivers four streams. More rows: of two times 16 rows by two panels, with
// the inputs in 4 and 5 and the weights in 6 and 7.
inline constexpr int kMaxTilePanels = 4;
inline constexpr std::int64_t kWideRows = std::int64_t{2} * kTileRows;

// Blocks of kWideRows rows pass over a piece of K of two panels (32 KiB, in the L1 cache) before
// the next piece; their sums lie in memory between two pieces.
inline constexpr std::int64_t kPieceInputs = 512;
inline constexpr std::int64_t kChunkRows = 4 * kWideRows;

inline void configure_bf16(std::int64_t first_rows, std::int64_t second_rows) {
  TileConfig config;
  const auto first = static_cast<int>(first_rows);
  const auto second = static_cast<int>(second_rows);
  const bool wide = second > 0;
  for (int sum = 0; sum < 4; ++sum) config.set(sum, wide && sum >= 2 ? second : first, 64);
  config.set(4, first, kTileRowBytes);
  config.set(5, wide ? second : kTileRows, kTileRowBytes);
  config.set(6, kTileRows, kTileRowBytes);
  config.set(7, kTileRows, kTileRowBytes);
  tile_configure(config);
}

// The weights of 32 inputs of a panel. The last ones of a panel may be fewer: then a copy of them,
// with zeros behind, because what follows is not ours to read.
class TileOfWeights {
 public:
  template <int kTile>
  [[gnu::always_inline]] void load(const std::uint8_t* panel, std::int64_t k, std::int64_t inputs) {
    const std::uint8_t* from = panel + 2 * k * kPanelOutputs;
    if (inputs - k >= kBf16Line) {
      tile_load<kTile>(from, kTileRowBytes);
    } else {
      const std::int64_t lines = (inputs - k + 1) / 2;
      for (int i = 0; i < kTileRows; ++i) {
        if (i < lines) {
          __builtin_memcpy(copy_ + i * kTileRowBytes, from + i * kTileRowBytes, kTileRowBytes);
        } else {
          __builtin_memset(copy_ + i * kTileRowBytes, 0, kTileRowBytes);
        }
      }
      tile_load<kTile>(copy_, kTileRowBytes);
    }
  }

 private:
  alignas(64) std::uint8_t copy_[kTileRows * kTileRowBytes];
};

// Adds bias and old output and stores the sums [rows][P * 16] of P panels.
template <int P>
void store_sums(const MatmulPanels& args, const float* sums, std::int64_t row, std::int64_t rows,
                std::int64_t panel) {
  for (std::int64_t r = 0; r < rows; ++r) {
    __m512 lanes[1][P];
    for (int p = 0; p < P; ++p) lanes[0][p] = Vec16::load(sums + (r * P + p) * kPanelOutputs);
    store_block<Vec16>(args, row + r, panel * kPanelOutputs, lanes);
  }
}

// Up to 16 rows, as configured, by P panels.
template <int P>
void multiply_narrow(const MatmulPanels& args, std::int64_t row, std::int64_t rows,
                     std::int64_t panel) {
  static_assert(P <= kMaxTilePanels);
  constexpr std::int64_t kSumStride = P * kPanelOutputs * 4;
  const std::uint16_t* x = args.bf16_x.values + row * args.bf16_x.stride;
  const std::uint8_t* weights = args.panels + static_cast<std::uint64_t>(panel) * args.panel_bytes;
  const auto panel_bytes = static_cast<std::int64_t>(args.panel_bytes);
  TileOfWeights tile;
  tile_zero<0>();
  if constexpr (P > 1) tile_zero<1>();
  if constexpr (P > 2) tile_zero<2>();
  if constexpr (P > 3) tile_zero<3>();
  for (std::int64_t k = 0; k < args.inputs; k += kBf16Line) {
    tile_load<4>(x + k, args.bf16_x.stride * 2);
    tile.load<5>(weights, k, args.inputs);
    tile_dot_bf16<0, 4, 5>();
    if constexpr (P > 1) {
      tile.load<6>(weights + panel_bytes, k, args.inputs);
      tile_dot_bf16<1, 4, 6>();
    }
    if constexpr (P > 2) {
      tile.load<7>(weights + 2 * panel_bytes, k, args.inputs);
      tile_dot_bf16<2, 4, 7>();
    }
    if constexpr (P > 3) {
      tile.load<5>(weights + 3 * panel_bytes, k, args.inputs);
      tile_dot_bf16<3, 4, 5>();
    }
  }
  alignas(64) float sums[kTileRows * P * kPanelOutputs];
  tile_store<0>(sums, kSumStride);
  if constexpr (P > 1) tile_store<1>(sums + kPanelOutputs, kSumStride);
  if constexpr (P > 2) tile_store<2>(sums + 2 * kPanelOutputs, kSumStride);
  if constexpr (P > 3) tile_store<3>(sums + 3 * kPanelOutputs, kSumStride);
  store_sums<P>(args, sums, row, rows, panel);
}

// Inputs [begin, end) of 17 to 32 rows, as configured, by P (one or two) panels: sums [][P * 16],
// which have those of the inputs before.
template <int P>
void multiply_wide(const MatmulPanels& args, std::int64_t row, std::int64_t panel,
                   std::int64_t begin, std::int64_t end, float* sums) {
  constexpr std::int64_t kSumStride = P * kPanelOutputs * 4;
  float* const lower_sums = sums + kTileRows * P * kPanelOutputs;
  const std::int64_t x_stride = args.bf16_x.stride * 2;
  const std::uint16_t* x = args.bf16_x.values + row * args.bf16_x.stride;
  const std::uint16_t* lower_x = x + kTileRows * args.bf16_x.stride;
  const std::uint8_t* weights = args.panels + static_cast<std::uint64_t>(panel) * args.panel_bytes;
  TileOfWeights tile;
  if (begin == 0) {
    tile_zero<0>();
    tile_zero<2>();
    if constexpr (P > 1) {
      tile_zero<1>();
      tile_zero<3>();
    }
  } else {
    tile_load<0>(sums, kSumStride);
    tile_load<2>(lower_sums, kSumStride);
    if constexpr (P > 1) {
      tile_load<1>(sums + kPanelOutputs, kSumStride);
      tile_load<3>(lower_sums + kPanelOutputs, kSumStride);
    }
  }
  for (std::int64_t k = begin; k < end; k += kBf16Line) {
    tile_load<4>(x + k, x_stride);
    tile.load<6>(weights, k, args.inputs);
    tile_dot_bf16<0, 4, 6>();
    tile_load<5>(lower_x + k, x_stride);
    tile_dot_bf16<2, 5, 6>();
    if constexpr (P > 1) {
      tile.load<7>(weights + args.panel_bytes, k, args.inputs);
      tile_dot_bf16<1, 4, 7>();
      tile_dot_bf16<3, 5, 7>();
    }
  }
  tile_store<0>(sums, kSumStride);
  tile_store<2>(lower_sums, kSumStride);
  if constexpr (P > 1) {
    tile_store<1>(sums + kPanelOutputs, kSumStride);
    tile_store<3>(lower_sums + kPanelOutputs, kSumStride);
  }
}

// Rows [row, row + rows), at most kChunkRows, in blocks of kWideRows, by P panels.
template <int P>
void multiply_chunk(const MatmulPanels& args, std::int64_t row, std::int64_t rows,
                    std::int64_t panel) {
  alignas(64) float sums[kChunkRows * P * kPanelOutputs];
  for (std::int64_t begin = 0; begin < args.inputs; begin += kPieceInputs) {
    const std::int64_t end =
        begin + kPieceInputs < args.inputs ? begin + kPieceInputs : args.inputs;
    for (std::int64_t r = 0; r < rows; r += kWideRows) {
      multiply_wide<P>(args, row + r, panel, begin, end, sums + r * P * kPanelOutputs);
    }
  }
  store_sums<P>(args, sums, row, rows, panel);
}

// All panels of the call for up to kChunkRows rows of whole blocks, or for one smaller block.
inline void multiply_wide_rows(const MatmulPanels& args, std::int64_t row, std::int64_t rows) {
  std::int64_t panel = 0;
  for (; panel + 2 <= args.num_panels; panel += 2) multiply_chunk<2>(args, row, rows, panel);
  if (panel < args.num_panels) multiply_chunk<1>(args, row, rows, panel);
}

inline void multiply_narrow_rows(const MatmulPanels& args, std::int64_t row, std::int64_t rows) {
  std::int64_t panel = 0;
  for (; panel + 4 <= args.num_panels; panel += 4) multiply_narrow<4>(args, row, rows, panel);
  switch (args.num_panels - panel) {
    case 3:
      return multiply_narrow<3>(args, row, rows, panel);
    case 2:
      return multiply_narrow<2>(args, row, rows, panel);
    case 1:
      return multiply_narrow<1>(args, row, rows, panel);
    default:
      return;
  }
}

inline void bf16_tile_matmul(const MatmulPanels& args) {
  const std::int64_t whole = args.rows / kWideRows * kWideRows;
  if (whole > 0) configure_bf16(kTileRows, kTileRows);
  for (std::int64_t row = 0; row < whole; row += kChunkRows) {
    multiply_wide_rows(args, row, row + kChunkRows < whole ? kChunkRows : whole - row);
  }
  const std::int64_t left = args.rows - whole;
  if (left > kTileRows) {
    configure_bf16(kTileRows, left - kTileRows);
    multiply_wide_rows(args, whole, left);
  } else if (left > 0) {
    configure_bf16(left, 0);
    multiply_narrow_rows(args, whole, left);
  }
  tile_release();
}

}  // namespace
}  // namespace quire
