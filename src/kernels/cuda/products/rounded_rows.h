// Inputs of products rounded to bfloat16 (nearest even), as tensor cores read them.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace quire::cuda {

// Where input i of each 16 stands. What order inputs of a sum of 16 products stand in changes no
// bit of a matrix product, as long as weights stand in the same one.
enum class InputPlaces : std::uint8_t {
  kNatural,  // dense weights, and floats of eight bits
  // Quantized weights, whose words are four consecutive inputs of an output: places 2t and 2t + 1
  // have inputs 4t and 4t + 2, places 2t + 8 and 2t + 9 have inputs 4t + 1 and 4t + 3, because the
  // even and the odd bytes of a word become pairs of bfloat16 numbers without a shuffle.
  kQuads
};

// Inputs of a rounded row, zeros behind the last: a multiple of 64.
constexpr std::int64_t padded_inputs(std::int64_t inputs) { return (inputs + 63) / 64 * 64; }

// Sums of the rounded values of each `sum_inputs` inputs, 32 or 128 (InputSums of
// panel_fragments.cuh), for weights with minima: the four of a quad as (0 + 1) + (2 + 3), and quads
// as a balanced tree. `values` is [ceil(inputs / sum_inputs)][sum_stride(rows)], zeros behind the
// last row; null: not wanted.
struct InputSums {
  std::int64_t sum_inputs = 32;
  float* values = nullptr;
};
constexpr std::int64_t sum_stride(std::int64_t rows) { return (rows + 7) / 8 * 8; }
constexpr std::uint64_t input_sums_bytes(std::int64_t rows, std::int64_t inputs,
                                         std::int64_t sum_inputs) {
  return static_cast<std::uint64_t>((inputs + sum_inputs - 1) / sum_inputs * sum_stride(rows)) *
         sizeof(float);
}

// out: [rows][padded_inputs(inputs)]. input_order: of a weight whose inputs stand in another order
// (PackedWeight::input_order()): input j of what is written is x[input_order[j]].
void round_rows(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                std::int64_t inputs, const std::int32_t* input_order, InputPlaces places,
                std::uint16_t* out, const InputSums& sums = {});

// The same values as few_rows kernels read them (products_few.h): [padded_inputs(inputs) / 32]
// [rows][32]. Of the 32 inputs of a row, lane t of four has what it needs of them for both sums of
// 16 in one piece: places 2t, 2t + 1, 2t + 8 and 2t + 9 of the first 16, then of the second.
void round_fragments(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                     std::int64_t inputs, const std::int32_t* input_order, InputPlaces places,
                     std::uint16_t* out, const InputSums& sums = {});

}  // namespace quire::cuda
