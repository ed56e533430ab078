// One output's group of 32 weights in a quantized panel (group_layout.h), written and read back one
// at a time: for packing, exact decoding and the reference kernels.
#pragma once

#include <cstdint>

#include "kernels/group_layout.h"
#include "quant/group_row.h"

namespace quire {

// w[i] = scales[i / 16] * codes[i] + minimum; the product is exact but where all inputs share a
// scale.
struct PackedGroup {
  int codes[kGroupSize];  // the zero is subtracted
  float scales[2];
  float minimum;
};

// Writes group `index` of output `n` into a panel whose bytes are zero there, of a layout that
// holds an encoding; false if its scale or minimum is not finite.
bool write_packed_group(const GroupLayout& layout, const WeightGroup& group, std::uint8_t* panel,
                        std::int64_t index, std::int64_t n);

PackedGroup read_packed_group(const GroupLayout& layout, const std::uint8_t* panel,
                              std::int64_t index, std::int64_t n);

}  // namespace quire
