// Quantized weights by inputs rounded to 8 or 16 bits, on tiles of bytes (tdpbssd), for more than a
// few rows. The weights of the inputs that share a scale (a group, or half of one) are one tile, so
// that its sums leave the tile once, exact, and are scaled as at the levels below: the bits are
// theirs. Inputs of 16 bits are two bytes, and two products: 256 * high + low.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/matmul_groups.inl.h"
#include "kernels/cpu/matmul_int16.inl.h"
#include "kernels/cpu/matmul_vec_avx512.h"
#include "kernels/cpu/tiles.h"

namespace quire {
namespace {

// Pieces of K whose weights are expanded once for a chunk of rows; both and the chunk's sums fit
// the L1 cache.
inline constexpr std::int64_t kIntPieceGroups = 16;
inline constexpr std::int64_t kIntChunkRows = 128;

// The inputs of a call, in either form: [rows][stride] bytes, the low ones null for 8 bits.
template <bool k16>
struct TileInputs {
  const std::int8_t* high;
  const std::int8_t* low;
  std::int64_t stride;
  const float* scales;                                              // [rows][groups]
  const float* scaled_sums;                                         // [rows][groups]
  const std::conditional_t<k16, std::int32_t, std::int16_t>* sums;  // [rows][2 groups]
};

template <WeightLayout kLayout, bool k16>
struct IntTiles {
  using V = MatmulVec16;
  using Reader = GroupReader<V, kLayout>;
  static constexpr GroupLayout kForm = Reader::kForm;
  static constexpr int kQuads = kScaleQuads<kLayout>;  // of a tile
  static constexpr int kParts = 8 / kQuads;            // tiles of a group
  static constexpr int kLine = 64;
  // Two halves of a group of 8-bit inputs are added as integers, times their factors.
  static constexpr bool kAddsHalves = kForm.factors == ScaleFactors::kHalfGroup && !k16;

  struct alignas(64) Piece {
    std::int8_t lines[kIntPieceGroups * 8 * kLine];  // the zero subtracted
    float scales[kIntPieceGroups * kParts * kPanelOutputs];
    float minima[kForm.has_minimum ? kIntPieceGroups * kParts * kPanelOutputs : 1];
    std::int32_t factors[kAddsHalves ? kIntPieceGroups * kParts * kPanelOutputs : 1];
  };

  static void expand(const MatmulPanels& args, const std::uint8_t* panel, std::int64_t first,
                     std::int64_t groups, Piece& piece) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const Reader group(args, panel, first + g, 0);
      repeat<8>([&]<int kQuad>() __attribute__((always_inline)) {
        __m512i codes = group.template quad<kQuad>();
        if constexpr (kForm.zero != 0) {
          codes = _mm512_sub_epi8(codes, V::set1_int(kForm.zero * 0x01010101));
        }
        V::store_int(piece.lines + (g * 8 + kQuad) * kLine, codes);
      });
      repeat<kParts>([&]<int kPart>() __attribute__((always_inline)) {
        const std::int64_t at = (g * kParts + kPart) * kPanelOutputs;
        V::store(piece.scales + at, kAddsHalves ? V::load_half(group.scales) : group.scale(kPart));
        if constexpr (kForm.has_minimum) V::store(piece.minima + at, group.minimum(kPart));
        if constexpr (kAddsHalves) {
          V::store_int(piece.factors + at, V::load_signed_bytes(group.factors + 16 * kPart));
        }
      });
    }
  }

  // Sums in tiles 0 (high, or the first half) and 1 (low, or the second), inputs in 2 and 3,
  // weights in 4 and 5.
  static void configure(std::int64_t rows) {
    TileConfig config;
    const auto count = static_cast<int>(rows);
    for (int sum = 0; sum <= 1; ++sum) config.set(sum, count, kTileRowBytes);
    for (int input = 2; input <= 3; ++input) config.set(input, count, 4 * kQuads);
    for (int weight = 4; weight <= 5; ++weight) config.set(weight, kQuads, kLine);
    tile_configure(config);
  }

  // Rows `row` to `row + rows`, as configured, by one group of a panel: sums [rows][16].
  static void multiply(const TileInputs<k16>& x, std::int64_t num_groups, std::int64_t row,
                       std::int64_t rows, std::int64_t group, const Piece& piece,
                       std::int64_t index, float* sums) {
    alignas(64) std::int32_t products[2][kTileRows * kPanelOutputs];
    const std::int8_t* lines = piece.lines + index * 8 * kLine;
    const std::int64_t at = row * x.stride + group * kGroupInputs;
    const float* scales = x.scales + row * num_groups + group;
    const float* scaled_sums = x.scaled_sums + row * num_groups + group;
    for (int part = 0; part < (kAddsHalves ? 1 : kParts); ++part) {
      const std::int64_t inputs = at + 4 * kQuads * part;
      tile_zero<0>();
      tile_load<2>(x.high + inputs, x.stride);
      tile_load<4>(lines + part * kQuads * kLine, kLine);
      tile_dot_bytes<0, 2, 4>();
      tile_store<0>(products[0], kLine);
      if constexpr (k16 || kAddsHalves) {
        tile_zero<1>();
        if constexpr (k16) {
          tile_load<3>(x.low + inputs, x.stride);
          tile_dot_bytes<1, 3, 4>();
        } else {
          tile_load<3>(x.high + inputs + 4 * kQuads, x.stride);
          tile_load<5>(lines + kQuads * kLine, kLine);
          tile_dot_bytes<1, 3, 5>();
        }
        tile_store<1>(products[1], kLine);
      }
      const std::int64_t of_part = (index * kParts + part) * kPanelOutputs;
      const __m512 scale = V::load(piece.scales + of_part);
      for (std::int64_t r = 0; r < rows; ++r) {
        __m512i total = V::load_int(products[0] + r * kPanelOutputs);
        if constexpr (k16) {
          total = V::add32(V::template shift_left<8>(total),
                           V::load_int(products[1] + r * kPanelOutputs));
        } else if constexpr (kAddsHalves) {
          const __m512i second = V::load_int(products[1] + r * kPanelOutputs);
          total = V::add32(
              _mm512_mullo_epi32(total, V::load_int(piece.factors + of_part)),
              _mm512_mullo_epi32(second, V::load_int(piece.factors + of_part + kPanelOutputs)));
        }
        float* const sum = sums + r * kPanelOutputs;
        __m512 product = V::set1(scales[r * num_groups]);
        if constexpr (!kScaledAtEnd<kLayout>) product = V::mul(scale, product);
        __m512 value = V::fma(V::to_float(total), product, V::load(sum));
        if constexpr (kForm.has_minimum) {
          float sum_of_inputs = scaled_sums[r * num_groups];
          if constexpr (kHalvesHaveMinima<kLayout>) {
            const auto half = x.sums[2 * ((row + r) * num_groups + group) + part];
            sum_of_inputs = scales[r * num_groups] * static_cast<float>(half);
          }
          value = V::fma(V::load(piece.minima + of_part), V::set1(sum_of_inputs), value);
        }
        V::store(sum, value);
      }
    }
  }

  // Rows [row, row + rows), at most kIntChunkRows, by one panel.
  static void multiply_chunk(const MatmulPanels& args, const TileInputs<k16>& x, std::int64_t row,
                             std::int64_t rows, std::int64_t panel) {
    const std::int64_t num_groups = args.inputs / kGroupInputs;
    const std::int64_t row_groups = args.row_inputs / kGroupInputs;
    const std::uint8_t* from = args.panels + static_cast<std::uint64_t>(panel) * args.panel_bytes;
    Piece piece;
    alignas(64) float sums[kIntChunkRows * kPanelOutputs];
    for (std::int64_t r = 0; r < rows; ++r) V::store(sums + r * kPanelOutputs, V::zero());
    for (std::int64_t first = 0; first < num_groups; first += kIntPieceGroups) {
      const std::int64_t left = num_groups - first;
      const std::int64_t groups = left < kIntPieceGroups ? left : kIntPieceGroups;
      expand(args, from, first, groups, piece);
      for (std::int64_t r = 0; r < rows; r += kTileRows) {
        const std::int64_t count = rows - r < kTileRows ? rows - r : kTileRows;
        for (std::int64_t g = 0; g < groups; ++g) {
          multiply(x, row_groups, row + r, count, first + g, piece, g, sums + r * kPanelOutputs);
        }
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      __m512 lanes[1][1] = {{V::load(sums + r * kPanelOutputs)}};
      if constexpr (kScaledAtEnd<kLayout>) scale_outputs<V>(args, panel * kPanelOutputs, lanes);
      store_block<V>(args, row + r, panel * kPanelOutputs, lanes);
    }
  }

  // Whole tiles of rows first, then those left over.
  static void run(const MatmulPanels& args) {
    TileInputs<k16> x;
    if constexpr (k16) {
      const Int16ByteRows& rows = args.int16_bytes_x;
      x = {rows.high, rows.low, rows.stride, rows.scales, rows.scaled_sums, rows.sums};
    } else {
      const Int8Rows& rows = args.int8_x;
      x = {rows.codes, nullptr, rows.stride, rows.scales, rows.scaled_sums, rows.sums};
    }
    const std::int64_t first = args.first_input / kGroupInputs;
    x.high += args.first_input;
    if constexpr (k16) x.low += args.first_input;
    x.scales += first;
    x.scaled_sums += first;
    x.sums += 2 * first;
    const std::int64_t whole = args.rows / kTileRows * kTileRows;
    if (whole > 0) configure(kTileRows);
    for (std::int64_t row = 0; row < whole; row += kIntChunkRows) {
      const std::int64_t rows = whole - row < kIntChunkRows ? whole - row : kIntChunkRows;
      for (std::int64_t p = 0; p < args.num_panels; ++p) {
        multiply_chunk(args, x, row, rows, p);
      }
    }
    if (whole < args.rows) {
      configure(args.rows - whole);
      for (std::int64_t p = 0; p < args.num_panels; ++p) {
        multiply_chunk(args, x, whole, args.rows - whole, p);
      }
    }
    tile_release();
  }
};

}  // namespace
}  // namespace quire
