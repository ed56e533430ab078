// What an instruction-set level provides for matrix products: plain views, no threads, no memory.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/packed_weight.h"

namespace quire {

// Input rows rounded to int8 in groups of 32: x[k] ~ scales[k / 32] * codes[k], codes in
// -127..127. A group with a value that is not finite has scale NaN and codes zero, so that the
// outputs that depend on it are NaN.
struct Int8Rows {
  std::int8_t* codes = nullptr;  // [rows][stride]
  std::int64_t stride = 0;
  float* scales = nullptr;       // [rows][inputs / 32]
  std::int16_t* sums = nullptr;  // [rows][inputs / 16]: sum of the codes of each half of a group
  float* scaled_sums = nullptr;  // [rows][inputs / 32]: scale * sum
  // [rows][inputs / 32]: -128 * sum, the excess of products whose signed weights are read as
  // unsigned, 128 more.
  std::int32_t* offsets = nullptr;
};

// How a group of inputs is rounded: code = x * inverse to nearest even.
struct RoundingScale {
  float scale;
  float inverse;  // 0: all codes are zero
};

// From the bits of the largest magnitude of a group.
[[gnu::always_inline]] inline RoundingScale int8_scale(std::int32_t largest_bits) {
  const float largest = std::bit_cast<float>(largest_bits);
  if (largest_bits >= 0x7F800000) return {std::bit_cast<float>(0x7FC00000), 0.0F};
  // The inverse of anything smaller would overflow.
  if (largest < 0x1p-119F) return {0.0F, 0.0F};
  return {largest / 127.0F, 127.0F / largest};
}

// How rows are cut into blocks that share a loaded weight: as few as `max_rows` allows, equally
// large up to one row, the larger ones first.
struct RowBlocks {
  std::int64_t count = 0;
  std::int64_t smaller = 0;     // rows of a block after the larger ones
  std::int64_t num_larger = 0;  // these have one row more

  [[gnu::always_inline]] RowBlocks(std::int64_t rows, std::int64_t max_rows)
      : count((rows + max_rows - 1) / max_rows),
        smaller(count > 0 ? rows / count : 0),
        num_larger(count > 0 ? rows % count : 0) {}
  [[gnu::always_inline]] std::int64_t first(std::int64_t block) const {
    return block * smaller + (block < num_larger ? block : num_larger);
  }
  [[gnu::always_inline]] std::int64_t size(std::int64_t block) const {
    return smaller + (block < num_larger ? 1 : 0);
  }
};

// Input rows rounded to 16 bits in groups of 32: x[k] ~ scales[k / 32] * codes[k], codes in
// -kInt16Largest..kInt16Largest. Not finite: as in Int8Rows. Each array holds the blocks of
// RowBlocks one after the other; within a block of R rows the rows lie side by side, so that a
// kernel reads them as one stream:
struct Int16Rows {
  // [inputs / 4][R][4]; the four of a quad in the order 0, 2, 1, 3, because even and odd bytes of a
  // line of weights become 16-bit pairs without a shuffle.
  std::int16_t* codes = nullptr;
  float* scales = nullptr;       // [inputs / 32][R]
  std::int32_t* sums = nullptr;  // [inputs / 16][R]: sum of the codes of each half of a group
  float* scaled_sums = nullptr;  // [inputs / 32][R]: scale * sum
};

// The same for products of bytes: each code as 256 * high + low, two signed bytes, rows apart.
struct Int16ByteRows {
  std::int8_t* high = nullptr;  // [rows][stride]
  std::int8_t* low = nullptr;   // [rows][stride]
  std::int64_t stride = 0;
  float* scales = nullptr;       // [rows][inputs / 32]
  std::int32_t* sums = nullptr;  // [rows][inputs / 16]: sum of the codes of each half of a group
  float* scaled_sums = nullptr;  // [rows][inputs / 32]: scale * sum
};

// An odd number of lines of 64 bytes, so that a column of rows does not fall into one set of a
// cache.
[[gnu::always_inline]] constexpr std::int64_t byte_row_stride(std::int64_t inputs) {
  return ((inputs + 63) / 64 | 1) * 64;
}

// 127 * 256 + 127: a code is 256 times a signed byte plus a signed byte, neither of them -128.
inline constexpr std::int32_t kInt16Largest = 32639;

// From the bits of the largest magnitude of a group, as int8_scale().
[[gnu::always_inline]] inline RoundingScale int16_scale(std::int32_t largest_bits) {
  const float largest = std::bit_cast<float>(largest_bits);
  if (largest_bits >= 0x7F800000) return {std::bit_cast<float>(0x7FC00000), 0.0F};
  if (largest < 0x1p-111F) return {0.0F, 0.0F};
  return {largest / static_cast<float>(kInt16Largest), static_cast<float>(kInt16Largest) / largest};
}

// Input rows rounded to bfloat16 (nearest even), for weights of that layout and of e4m3.
struct Bf16Rows {
  std::uint16_t* values = nullptr;  // [rows][stride]; behind a row's inputs, zeros up to a line
  std::int64_t stride = 0;
};

// Values of a line of 64 bytes: a step of a product of tiles.
inline constexpr std::int64_t kBf16Line = 32;

// As byte_row_stride(), in values.
[[gnu::always_inline]] constexpr std::int64_t bf16_row_stride(std::int64_t inputs) {
  return byte_row_stride(2 * inputs) / 2;
}

// One call: consecutive panels of one weight, for consecutive rows. Pointers are to the first
// panel, output and row of the call.
struct MatmulPanels {
  WeightLayout layout = WeightLayout::kF32;
  int span_shift = 0;  // GroupLayout::span_shift of `layout`
  const std::uint8_t* panels = nullptr;
  std::uint64_t panel_bytes = 0;
  std::int64_t num_panels = 0;
  const std::uint8_t* next_panels = nullptr;  // that the next call needs; fetched meanwhile
  std::int64_t outputs = 0;                   // of the weight, from the first panel on
  std::int64_t inputs = 0;
  // The input of a row that the panels begin with, a multiple of 32, and all inputs of a row: those
  // of a compact weight are multiplied some at a time. `x` below is from that input on already.
  std::int64_t first_input = 0;
  std::int64_t row_inputs = 0;
  std::int64_t rows = 0;
  // The inputs as the kernel wants them: float32, or rounded.
  const float* x = nullptr;  // [rows][x_stride]
  std::int64_t x_stride = 0;
  // More rows than kMaxDirectRows at a level with row blocks: the blocks of `x` one after the
  // other, a block of R rows as [inputs][R].
  const float* blocked_x = nullptr;
  Bf16Rows bf16_x;
  Int16Rows int16_x;
  Int16ByteRows int16_bytes_x;
  Int8Rows int8_x;
  float* out = nullptr;  // [rows][out_stride]
  std::int64_t out_stride = 0;
  bool out_is_far = false;  // in no cache: what sums are stored to is fetched before
  const float* bias = nullptr;
  bool accumulate = false;
};

using MatmulKernel = void (*)(const MatmulPanels&);

// Expands `inputs` inputs, whole blocks, of a panel of a compact layout from the block at `blocks`
// on, into a panel of its product layout.
using PanelExpander = void (*)(const std::uint8_t* blocks, std::int64_t inputs,
                               std::uint8_t* panel);

// With this many rows or fewer, weights are expanded in registers and float inputs read as they
// are; with more, a block of weights is expanded once for all blocks of rows.
inline constexpr std::int64_t kMaxDirectRows = 3;

inline constexpr std::int64_t kMinChunkRows = 32;  // of MatmulKernels::chunk_rows

struct MatmulKernels {
  // By WeightLayout: with float32 activations, and (quantized layouts only) with rounded ones. A
  // layout without a kernel for int8 at a level is served with 16 bits there.
  MatmulKernel with_float[kNumWeightLayouts] = {};
  MatmulKernel with_int16[kNumWeightLayouts] = {};
  MatmulKernel with_int8[kNumWeightLayouts] = {};
  // For more rows than kMaxDirectRows, where products of bytes do better than the above; else null.
  MatmulKernel many_with_int16_bytes[kNumWeightLayouts] = {};
  MatmulKernel many_with_int8[kNumWeightLayouts] = {};
  // Compact layouts only.
  PanelExpander expand[kNumWeightLayouts] = {};
  // With activations rounded to bfloat16: weights of bfloat16 and e4m3; null where that is no
  // faster than with_float.
  MatmulKernel with_bf16[kNumWeightLayouts] = {};
  std::int64_t max_block_rows = 1;  // of RowBlocks
  // Rows that go through a kernel's weights together where there are many; a multiple of
  // max_block_rows.
  std::int64_t chunk_rows = kMinChunkRows;
  // Rounds one row of `inputs` floats, and writes the zeros behind it; beside with_bf16.
  void (*round_row_bf16)(const float* x, std::int64_t inputs, std::uint16_t* out) = nullptr;
  // Rounds one row of `inputs` (a multiple of 32) floats into its place in a block of `block_rows`
  // rows, the pointers at the row's first. The same bits at every level.
  void (*quantize_row_int16)(const float* x, std::int64_t inputs, std::int64_t block_rows,
                             const Int16Rows& out) = nullptr;
  // The same numbers into the one row `out`; beside many_with_int16_bytes.
  void (*quantize_row_int16_bytes)(const float* x, std::int64_t inputs,
                                   const Int16ByteRows& out) = nullptr;
  // Rounds one row of `inputs` (a multiple of 32) floats into the one row `out`. The same bits at
  // every level.
  void (*quantize_row_int8)(const float* x, std::int64_t inputs, const Int8Rows& out) = nullptr;
};

// Workspace bytes of matmul(), and what matmul_and_best(), gated_matmul() and qkv_matmul() take
// beside them.
std::uint64_t matmul_workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs);
std::uint64_t best_scratch_bytes(std::int64_t max_rows, int num_threads);
std::uint64_t gated_scratch_bytes(int num_threads);
std::uint64_t qkv_scratch_bytes(std::int64_t max_rows, std::int64_t num_heads);

}  // namespace quire
