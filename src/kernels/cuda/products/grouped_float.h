// Products of groups of matrices with inputs in float32 (float_panel.cuh).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/grouped_args.h"
#include "kernels/packed_weight.h"

namespace quire::cuda {

inline constexpr std::int64_t kFloatTileRows = 8;

// Inputs: x + x_row * x_stride + group * x_group_stride.
struct FloatInputs {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t x_group_stride = 0;
  bool is_aligned = false;  // `x` to 16 bytes, and strides multiples of 4
  // Bit g % 32 of number g / 32: whether group g of the launch has an order of inputs behind its
  // panels.
  std::uint32_t is_ordered[kMaxGroups / 32] = {};
};

// `like`: a matrix of the layout and the sizes that all of the launch have. args.tile_rows
// is at most kFloatTileRows.
void grouped_float_product(const Launch& launch, const PackedWeight& like, const GroupedArgs& args,
                           const FloatInputs& inputs);

}  // namespace quire::cuda
