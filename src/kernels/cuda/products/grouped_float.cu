#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/float_panel.cuh"
#include "kernels/cuda/products/grouped_float.h"

namespace quire::cuda {
namespace {

constexpr int kGroupedRows = static_cast<int>(kFloatTileRows);

// blockIdx.x: a panel, those of all matrices one after the other; blockIdx.y: a tile of rows.
__global__ void __launch_bounds__(kFloatPanelThreads)
    grouped_float_kernel(const __grid_constant__ GroupedArgs args,
                         const __grid_constant__ FloatInputs inputs,
                         const __grid_constant__ PanelForm form, int num_panels) {
  __shared__ FloatPanelSums<kGroupedRows> sums;
  let_next_start();
  wait_for_previous();
  GroupTile tile;
  if (!find_tile(args, static_cast<std::int32_t>(blockIdx.y), tile)) return;
  const int matrix = static_cast<int>(blockIdx.x) / num_panels;
  const std::int64_t panel = static_cast<int>(blockIdx.x) % num_panels;
  const int group = tile.group - args.first_group;
  const std::uint8_t* const panels = args.panels[matrix][group];
  if (panels == nullptr) return;
  FloatRows<kGroupedRows> rows = {.inputs = form.inputs};
  if ((inputs.is_ordered[group / 32] >> group % 32 & 1U) != 0) {
    rows.order = reinterpret_cast<const std::int32_t*>(panels + num_panels * form.panel_bytes);
  }
  rows.is_aligned = inputs.is_aligned && rows.order == nullptr;
#pragma unroll
  for (int i = 0; i < kGroupedRows; ++i) {
    const int position = tile.begin + min(i, tile.count - 1);
    const std::int64_t row = args.x_rows == nullptr ? position : args.x_rows[position];
    rows.x[i] = inputs.x + row * inputs.x_stride + tile.group * inputs.x_group_stride;
  }
  float sum = float_panel_product<WeightKind::kAny, kGroupedRows>(
      form, panels + panel * form.panel_bytes, sums, [&] { return rows; });
  const std::int64_t output = panel * kPanelOutputs + threadIdx.x % kPanelOutputs;
  const int row = static_cast<int>(threadIdx.x) / kPanelOutputs;
  if (row >= tile.count || output >= args.outputs) return;
  if (args.biases[matrix] != nullptr) {
    sum += args.biases[matrix][tile.group * args.outputs + output];
  }
  args.out[matrix][(tile.begin + row) * args.out_stride + tile.group * args.out_group_stride +
                   output] = sum;
}

}  // namespace

void grouped_float_product(const Launch& launch, const PackedWeight& like, const GroupedArgs& args,
                           const FloatInputs& inputs) {
  const auto panels = static_cast<int>(args.num_panels());
  const dim3 grid(static_cast<unsigned>(panels * args.num_matrices),
                  static_cast<unsigned>(args.num_tile_slots()));
  launch_dependent(grouped_float_kernel, grid, dim3(kFloatPanelThreads), 0, launch.stream, args,
                   inputs, panel_form(like), panels);
}

}  // namespace quire::cuda
