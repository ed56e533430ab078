// Tiles of few rows: a warp has one panel. Blocks of small tiles are many, so that weights are
// asked for by many warps at once.
#include "base/checked.h"
#include "kernels/cuda/dynamic_shared.h"
#include "kernels/cuda/products/few_panel.cuh"
#include "kernels/cuda/products/grid_codes.cuh"
#include "kernels/cuda/products/grouped_kernel.cuh"
#include "kernels/cuda/products/hqq_codes.cuh"

namespace quire::cuda {
namespace {

constexpr int kFewWarps = 4;  // of a block, each with a panel
constexpr int kFewStages = 4;

template <WeightLayout kLayout>
using FewStream = PanelStream<kLayout, kFewStages>;

// A tile's products with one panel, in the registers of a warp's lanes.
struct FewTotals {
  float of[4] = {};
};

template <WeightLayout kLayout>
struct GroupedFewShared {
  alignas(128) std::uint8_t rings[kFewWarps][FewStream<kLayout>::kRingBytes];
  std::uint64_t barriers[kFewWarps][kFewStages];
  float exchange[2][4][32];
};

// Rows of the tile that a lane has results of.
__device__ int first_row_of(int lane) { return lane % 4 * 2; }

__device__ void store_totals(const GroupedArgs& args, const GroupTile& tile, int matrix,
                             std::int64_t panel, int lane, const FewTotals& totals) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t output = panel * kPanelOutputs + lane / 4 * 2 + i / 2;
    const int row = first_row_of(lane) + i % 2;
    if (output >= args.outputs || row >= tile.count) continue;
    float* const out = args.out[matrix] + (tile.begin + row) * args.out_stride +
                       tile.group * args.out_group_stride + output;
    *out = totals.of[i] + bias_of(args, matrix, tile.group, output);
  }
}

// The outputs of two panels, by warps 0 and 1; warps 2 and 3 have the other matrix's.
__device__ void store_gated(const GroupedKernelArgs& args, const GroupTile& tile, std::int64_t pair,
                            int warp, int lane, const FewTotals& totals,
                            float (&exchange)[2][4][32]) {
  if (warp >= 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) exchange[warp - 2][i][lane] = totals.of[i];
  }
  __syncthreads();
  float sums[2] = {};  // of the rows
  if (warp < 2) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float values[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = 2 * i + row;
        values[i] =
            store_rounded(args, tile, pair, 16 * warp + lane / 4 * 2 + i, first_row_of(lane) + row,
                          totals.of[at], exchange[warp][at][lane]);
      }
      sums[row] = sum_of_panel(values[0], values[1]);
    }
  }
  if (args.rounded.sums == nullptr) return;
  __syncthreads();
  if (warp == 1 && lane < 4) {
    for (int row = 0; row < 2; ++row) exchange[0][row][lane] = sums[row];
  }
  __syncthreads();
  if (warp != 0 || lane >= 4) return;
  for (int row = 0; row < 2; ++row) {
    if (first_row_of(lane) + row >= tile.count) continue;
    args.rounded
        .sums[pair * sum_stride(args.rounded.rows) + tile.begin + first_row_of(lane) + row] =
        sums[row] + exchange[0][row][lane];
  }
}

// blockIdx.x: panels, those of all matrices one after the other, or pairs of panels of a gated
// product; blockIdx.y: a tile of rows.
template <WeightLayout kLayout>
__global__ void __launch_bounds__(32 * kFewWarps)
    grouped_few_kernel(const __grid_constant__ GroupedKernelArgs args) {
  extern __shared__ __align__(128) std::uint8_t few_shared[];
  auto& shared = *reinterpret_cast<GroupedFewShared<kLayout>*>(few_shared);
  const GroupedArgs& product = args.product;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int num_panels = panels_of(product);
  const auto block = static_cast<int>(blockIdx.x);
  const int index =
      args.is_gated ? warp / 2 * num_panels + 2 * block + warp % 2 : kFewWarps * block + warp;
  const int matrix = index / num_panels;
  const std::int64_t panel = index - matrix * num_panels;
  const bool has_panel =
      args.is_gated ? 2 * block + warp % 2 < num_panels : matrix < product.num_matrices;

  let_next_start();
  FewStream<kLayout> stream(shared.rings[warp], shared.barriers[warp], lane);
  // Where tiles are known beforehand, weights may come before the inputs are there.
  if (product.tiles != nullptr) wait_for_previous();
  GroupTile tile;
  if (!find_tile(product, static_cast<std::int32_t>(blockIdx.y), tile)) return;
  if (product.panels[0][tile.group - product.first_group] == nullptr) return;
  FewTotals totals;
  if (has_panel) {
    const std::uint8_t* const weights =
        product.panels[matrix][tile.group - product.first_group] + panel * product.panel_bytes;
    stream.add(weights + fragment_form(kLayout).header_bytes,
               StreamForm<kLayout>::bytes(product.panel_bytes, product.inputs));
    if (product.tiles == nullptr) wait_for_previous();
    FewPanel<kLayout>(weights, product.panel_bytes, product.inputs, tile_inputs(args, tile, lane),
                      lane)
        .multiply(stream, totals.of);
  }
  if (args.is_gated) {
    store_gated(args, tile, block, warp, lane, totals, shared.exchange);
  } else if (has_panel) {
    store_totals(product, tile, matrix, panel, lane, totals);
  }
}

struct FewFamily {
  static constexpr bool has(WeightLayout /*layout*/) { return true; }

  template <WeightLayout kLayout>
  static void launch(const Launch& launch, const GroupedKernelArgs& args) {
    const GroupedArgs& product = args.product;
    const std::int64_t blocks =
        args.is_gated ? ceil_div(product.num_panels(), 2)
                      : ceil_div(product.num_panels() * product.num_matrices, kFewWarps);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(product.num_tile_slots()));
    launch_with_shared(grouped_few_kernel<kLayout>, grid, dim3(32 * kFewWarps),
                       static_cast<int>(sizeof(GroupedFewShared<kLayout>)), launch.stream, args);
  }
};

}  // namespace

void launch_grouped_few(const Launch& launch, WeightLayout layout, const GroupedKernelArgs& args) {
  launch_grouped<FewFamily>(launch, layout, args);
}

}  // namespace quire::cuda
