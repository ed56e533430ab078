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
  std::int8_t* codes = nullptr;  // [rows][inputs]
  float* scales = nullptr;       // [rows][inputs / 32]
  std::int16_t* sums = nullptr;  // [rows][inputs / 16]: sum of the codes of each half of a group
  float* scaled_sums = nullptr;  // [rows][inputs / 32]: scale * sum
};

// How a group of inputs is rounded: code = x * inverse to nearest even.
struct Int8Scale {
  float scale;
  float inverse;  // 0: all codes are zero
};

// From the bits of the largest magnitude of a group.
[[gnu::always_inline]] inline Int8Scale int8_scale(std::int32_t largest_bits) {
  const float largest = std::bit_cast<float>(largest_bits);
  if (largest_bits >= 0x7F800000) return {std::bit_cast<float>(0x7FC00000), 0.0F};
  // The inverse of anything smaller would overflow.
  if (largest < 0x1p-119F) return {0.0F, 0.0F};
  return {largest / 127.0F, 127.0F / largest};
}

// One call: panels [panel_begin, panel_end) of one weight, for all rows.
struct MatmulPanels {
  WeightLayout layout = WeightLayout::kF32;
  const std::uint8_t* panels = nullptr;  // the weight's first panel
  std::uint64_t panel_bytes = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t panel_begin = 0;
  std::int64_t panel_end = 0;
  std::int64_t rows = 0;
  const float* x = nullptr;  // [rows][x_stride]; unused where int8_x is used
  std::int64_t x_stride = 0;
  Int8Rows int8_x;
  float* out = nullptr;  // [rows][out_stride]
  std::int64_t out_stride = 0;
  const float* bias = nullptr;
  bool accumulate = false;
};

using MatmulKernel = void (*)(const MatmulPanels&);

struct MatmulKernels {
  // By WeightLayout: with float32 activations, and (quantized layouts only) with int8 ones.
  MatmulKernel with_float[kNumWeightLayouts] = {};
  MatmulKernel with_int8[kNumWeightLayouts] = {};
  // Rounds one row of `inputs` (a multiple of 32) floats into the one row `out`. The same bits at
  // every level.
  void (*quantize_row)(const float* x, std::int64_t inputs, const Int8Rows& out) = nullptr;
};

// Workspace bytes of matmul(): int8 rows.
std::uint64_t matmul_workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs,
                                     int num_threads);

}  // namespace quire
