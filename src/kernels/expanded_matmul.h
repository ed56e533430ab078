// Products of compact weights (weight_layout.h): some blocks of a few panels at a time are expanded
// into a panel of their product layout, whose kernels multiply them.
#pragma once

#include <cstdint>

#include "kernels/matmul_kernel.h"

namespace quire {

// Inputs [first, first + count) of a panel of a compact layout, whole blocks, as a panel of its
// product layout.
void expand_inputs(PanelExpander expand, WeightLayout layout, const std::uint8_t* panel,
                   std::int64_t first, std::int64_t count, std::uint8_t* out);

// Panels of a compact weight of layout `layout`, some inputs after the other: an output is the sum
// of what they give, in this order for any number of rows. `all.layout` is the product layout.
void multiply_expanded(const MatmulPanels& all, WeightLayout layout, PanelExpander expand,
                       MatmulKernel multiply);

}  // namespace quire
