// Panels of what quantized safetensors come to (quant/grouped_tensor.h,
// quant/codebook_tensor.h), as pack_panel() makes them.
#pragma once

#include <cstdint>

#include "kernels/pack_panel.h"

namespace quire {

// Each writes a whole panel; false if a weight or a scale is not finite, or, of blocks, where rows
// have different scales.
bool pack_zero_groups(const PanelRows& source, WeightLayout layout, std::uint8_t* panel);
bool pack_int8_rows(const PanelRows& source, std::uint8_t* panel);
bool pack_f8_rows(const PanelRows& source, std::uint8_t* panel);
bool pack_f8_blocks(const PanelRows& source, std::uint8_t* panel);
bool pack_codebook(const PanelRows& source, WeightLayout layout, std::uint8_t* panel);

}  // namespace quire
