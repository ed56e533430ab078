// What kernels of grouped products on tensor cores have in common.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <utility>

#include "kernels/cuda/products/few_panel.cuh"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/grouped_products.h"

namespace quire::cuda {

struct GroupedKernelArgs {
  GroupedArgs product;
  GroupedInputs inputs;
  // Of gated products.
  bool is_gated = false;
  GateFunction function = {};
  RoundedOutputs rounded = {};
};

__device__ inline int panels_of(const GroupedArgs& args) {
  return static_cast<int>((args.outputs + kPanelOutputs - 1) / kPanelOutputs);
}

// Of an output; 0 beyond the last.
__device__ inline float bias_of(const GroupedArgs& args, int matrix, int group,
                                std::int64_t output) {
  if (args.biases[matrix] == nullptr || output >= args.outputs) return 0.0F;
  return args.biases[matrix][group * args.outputs + output];
}

// Of a tile of at most eight rows, as FewPanel reads them.
__device__ inline TileInputs tile_inputs(const GroupedKernelArgs& args, const GroupTile& tile,
                                         int lane) {
  const auto row_at = [&](int row) { return x_row(args.product, tile.group, tile.begin + row); };
  TileInputs x = {.x_stride = static_cast<std::int32_t>(args.inputs.rows * 32),
                  .sum_stride = static_cast<std::int32_t>(sum_stride(args.inputs.rows))};
  if (lane / 4 < tile.count) x.x = args.inputs.x + row_at(lane / 4) * 32 + lane % 4 * 8;
  if (args.inputs.sums == nullptr) return x;
  for (int i = 0; i < 2; ++i) {
    const int row = lane % 4 * 2 + i;
    if (row < tile.count) x.sums[i] = args.inputs.sums + row_at(row);
  }
  return x;
}

// Where output `index` of a group of 32 stands as an input of the next product, as
// round_fragments() has it.
__device__ inline int fragment_place(InputPlaces places, int index) {
  const int in_half = index % 16;
  const bool is_quads = places == InputPlaces::kQuads;
  const int t = is_quads ? in_half / 4 : in_half / 2 % 4;
  const int upper = is_quads ? in_half % 2 : in_half / 8;
  const int second = is_quads ? in_half % 4 / 2 : in_half % 2;
  return 8 * t + index / 16 * 4 + 2 * upper + second;
}

// Output `index` of group `group` of 32 outputs, from its two sums; what it is, rounded.
__device__ inline float store_rounded(const GroupedKernelArgs& args, const GroupTile& tile,
                                      std::int64_t group, int index, int row, float gate,
                                      float other) {
  const GroupedArgs& product = args.product;
  const std::int64_t output = 32 * group + index;
  gate += bias_of(product, 0, tile.group, output);
  other += bias_of(product, 1, tile.group, output);
  const float value = output < product.outputs ? args.function(gate, other) : 0.0F;
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
  if (row < tile.count) {
    const std::int64_t at = (group * args.rounded.rows + tile.begin + row) * 32 +
                            fragment_place(args.rounded.places, index);
    args.rounded.x[at] = __bfloat16_as_ushort(rounded);
  }
  return __bfloat162float(rounded);
}

// Of a panel's 16 rounded values of a row, of which a lane has two outputs, 2 (lane / 4) and the
// one after it. In the order of round_fragments(): the four of a quad as (0 + 1) + (2 + 3), quads
// as a tree.
__device__ inline float sum_of_panel(float first, float second) {
  float sum = first + second;
#pragma unroll
  for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
  return sum;
}

template <typename Args>
using GroupedLauncher = void (*)(const Launch&, const Args&);

// Family::launch<layout>, for every layout of tensor cores that the family has.
template <typename Family, typename Args, int... kIndices>
GroupedLauncher<Args> grouped_launcher(WeightLayout layout,
                                       std::integer_sequence<int, kIndices...> /*layouts*/) {
  GroupedLauncher<Args> launcher = nullptr;
  const auto consider = [&]<int kIndex>() {
    constexpr auto kLayout = static_cast<WeightLayout>(kIndex);
    if constexpr (multiplies_on_tensor_cores(kLayout) && Family::has(kLayout)) {
      if (layout == kLayout) launcher = Family::template launch<kLayout>;
    }
  };
  (consider.template operator()<kIndices>(), ...);
  return launcher;
}

template <typename Family, typename Args>
void launch_grouped(const Launch& launch, WeightLayout layout, const Args& args) {
  constexpr auto kLayouts = std::make_integer_sequence<int, kNumWeightLayouts>();
  grouped_launcher<Family, Args>(layout, kLayouts)(launch, args);
}

// Of kFewTileRows rows and of kWideTileRows.
void launch_grouped_few(const Launch& launch, WeightLayout layout, const GroupedKernelArgs& args);
void launch_grouped_wide(const Launch& launch, WeightLayout layout, const GroupedKernelArgs& args);
// Of layouts with zero points, and of compact ones.
void launch_grouped_wide_zeros(const Launch& launch, WeightLayout layout,
                               const GroupedKernelArgs& args);
void launch_grouped_wide_blocks(const Launch& launch, WeightLayout layout,
                                const GroupedKernelArgs& args);

}  // namespace quire::cuda
