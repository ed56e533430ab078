// Encodings whose weights stay in the very blocks of the file: matrix products expand some blocks
// into one wide layout at a time and multiply that (kernels/weight_layout.h). What each needs is
// this file's one function; kernels know none of them.
//
// Blocks of the GGUF specification (ggml-common.h, ggml-quants.c), d and dmin half precision:
//   Q2_K   16 x (4-bit s, 4-bit m), 64 bytes of 2-bit codes, d, dmin;  w = d * s * q - dmin * m
//   Q3_K   32 bytes of high bits, 64 of 2-bit codes, 16 x 6-bit s in 12 bytes, d;
//          w = d * (s - 32) * (q - 4)
//   Q8_K   float32 d, 256 x i8, 16 x i16 (sums of codes, which products do not need);  w = d * q
//   IQ4_NL d, 16 bytes of nibbles;  w = d * table[q]
//   IQ4_XS d, 8 x 6-bit s in 2 + 4 bytes, 128 bytes of nibbles;  w = d * (s - 32) * table[q]
//   MXFP4  u8 e, 16 bytes of nibbles;  w = 2^(e - 128) * e2m1[q], whose values are doubled
//   NVFP4  4 x u8 s (e4m3), for 16 weights each 8 bytes of nibbles;  w = e4m3(s) / 2 * e2m1[q]
//          as safetensors have it, a row begins with a float g;        w = e4m3(s) / 2 / g *
//          e2m1[q]
// Grid encodings: an index stands for eight (IQ3_*: four) weights of a codebook (grid_tables.h),
// with signs beside it; in IQ2_XXS, IQ2_XS and IQ3_XXS eight signs are seven bits, the last such
// that the number of minuses is even.
//   IQ2_XXS d, 8 x (4 x u8 index, u32: 4 x 7 signs, 4-bit s);           w = d * (2 s + 1) / 8 *
//   grid IQ2_XS  d, 32 x u16 (9-bit index, 7 signs), 16 x 4-bit s;           the same IQ2_S   d, 32
//   x u8 index, 32 x 8 signs, 2 more bits of each index in 8 bytes, 16 x 4-bit s IQ3_XXS d, 64 x u8
//   index, 8 x u32 as in IQ2_XXS;                    w = d * (2 s + 1) / 4 * grid IQ3_S   d, 64 x
//   u8 index, a ninth bit of each in 8 bytes, 32 x 8 signs, 8 x 4-bit s;
//           w = d * (2 s + 1) * grid
//   IQ1_S   d, 32 x u8 index, 8 x u16 (3 more bits of four indices, 3-bit s, sign of the eighth);
//           w = d * (2 s + 1) * (grid +- 1/8)
//   IQ1_M   32 x u8 index, 32 nibbles (3 more bits of an index, sign of the eighth), 4 x u16: four
//           3-bit s, for 16 weights each, and four bits of d;           the same
// Ternary ones:
//   TQ1_0   48 + 4 bytes of five (four) base-3 digits as fractions of 256, d;   w = d * (digit - 1)
//   TQ2_0   64 bytes of 2-bit codes, d;                                 w = d * (q - 1)
// HQQ's blocks, and GPTQ's of 2 and 3 bits: hqq_block.h.
#pragma once

#include <cstdint>

#include "quant/encoding.h"
#include "quant/group_row.h"

namespace quire {

inline constexpr bool is_compact(Encoding encoding) { return encoding >= kFirstCompact; }

// 32 consecutive weights of a block: w[i] = scales[i / 16] * codes[i] + minima[i / 16]. The product
// is exact, and minima are zero but for Q2_K and those of hqq_block.h.
struct CompactGroup {
  std::int8_t codes[kGroupSize];
  float scales[2];
  float minima[2];
};

inline constexpr int kMaxBlockGroups = 8;

// The groups of a block of a compact encoding, block_elements / 32 of them.
void expand_block(Encoding encoding, const std::uint8_t* block, CompactGroup* groups);

// Divides the scales and minima of groups by what their row begins with, a float.
void divide_scales(const std::uint8_t* row, std::int64_t count, CompactGroup* groups);

// Whether all weights that the block's scales allow are finite.
bool is_finite_block(Encoding encoding, const std::uint8_t* block);

// The tables of the encodings with 4-bit codes: that of IQ4_NL and IQ4_XS (kvalues_iq4nl in
// ggml-common.h), and twice the values of E2M1 (OCP Microscaling Formats, version 1.0).
inline constexpr std::int8_t kIq4Table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::int8_t kE2m1Table[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

// Eight signs of seven bits, as bits: the eighth makes their number even.
[[gnu::always_inline]] inline std::uint32_t eight_signs(std::uint32_t seven) {
  return seven | (static_cast<std::uint32_t>(__builtin_popcount(seven)) & 1U) << 7;
}

// Scales of MXFP4 and NVFP4, halved as their table is doubled.
float e8m0_half(std::uint8_t bits);
float e4m3_half(std::uint8_t bits);

}  // namespace quire
