// One output's group of 32 weights in a quantized panel (group_layout.h), read back one at a time:
// for exact decoding and the reference kernels.
#pragma once

#include <cstdint>

#include "kernels/group_layout.h"
#include "quant/group_row.h"  // kGroupSize

namespace quire {

// w[i] = scales[i / 16] * codes[i] + minima[i / 16]; the product is exact but where all inputs
// share a scale.
struct PackedGroup {
  int codes[kGroupSize];  // the zero is subtracted
  float scales[2];
  float minima[2];
};

PackedGroup read_packed_group(const GroupLayout& layout, const std::uint8_t* panel,
                              std::int64_t index, std::int64_t n);

// The 32 weights of an output's group in a panel of codebook_panel.h, of `inputs` inputs.
void read_codebook_group(WeightLayout layout, const std::uint8_t* panel, std::int64_t inputs,
                         std::int64_t index, std::int64_t n, float* out);

// The same as products of integers see them (CodebookIntegers); minima are zero.
PackedGroup read_codebook_integers(WeightLayout layout, const std::uint8_t* panel,
                                   std::int64_t inputs, std::int64_t index, std::int64_t n);

}  // namespace quire
