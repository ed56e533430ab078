// One panel of 16 outputs made from the rows of a checkpoint: as they are, in the layout that holds
// their encoding without loss, or quantized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/weight_layout.h"
#include "quant/encoding.h"

namespace quire {

// The 16 rows of a panel, each of `inputs` weights; behind the last that there is, rows of zeros.
struct PanelRows {
  Encoding encoding = Encoding::kF32;
  std::int64_t inputs = 0;
  const std::uint8_t* rows[kPanelOutputs] = {};
  std::int64_t num_rows = kPanelOutputs;  // without those of zeros
};

// Bytes of scratch that pack_panel() needs for a layout.
std::uint64_t pack_scratch_bytes(WeightLayout layout, std::int64_t inputs);

// Writes a whole panel; false if a weight or a scale is not finite. `layout`
// is layout_of(encoding) or, for F32, F16 and BF16, one of those that are quantized at load.
bool pack_panel(const PanelRows& source, WeightLayout layout, std::span<std::byte> scratch,
                std::uint8_t* panel);

}  // namespace quire
