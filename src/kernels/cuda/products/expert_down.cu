// A block has one panel of outputs of all experts, its warps take the tiles in turn. Results of all
// pairs stay in shared memory until they are added.
#include "base/checked.h"
#include "kernels/cuda/dynamic_shared.h"
#include "kernels/cuda/products/expert_down.h"
#include "kernels/cuda/products/few_panel.cuh"
#include "kernels/cuda/products/grid_codes.cuh"
#include "kernels/cuda/products/grouped_kernel.cuh"
#include "kernels/cuda/products/hqq_codes.cuh"

namespace quire::cuda {
namespace {

constexpr int kDownWarps = 8;
constexpr int kDownThreads = 32 * kDownWarps;
constexpr int kDownStages = 4;

struct DownArgs {
  GroupedKernelArgs products;
  PairSums sums;
};

template <WeightLayout kLayout>
using DownStream = PanelStream<kLayout, kDownStages>;

template <WeightLayout kLayout>
struct DownShared {
  alignas(128) std::uint8_t rings[kDownWarps][DownStream<kLayout>::kRingBytes];
  std::uint64_t barriers[kDownWarps][kDownStages];
  float results[kMaxDownPairs][kPanelOutputs];
};

// The results of a row's pairs with one output, in the order of their positions, which is that of
// their experts.
__device__ float sum_of_pairs(const PairSums& sums, std::int64_t row, int n,
                              const float (&results)[kMaxDownPairs][kPanelOutputs]) {
  const std::int32_t* const positions = sums.position_of + row * sums.experts_per_row;
  float total = 0.0F;
  std::int32_t last = -1;
  for (std::int64_t i = 0; i < sums.experts_per_row; ++i) {
    std::int32_t next = INT32_MAX;
    std::int64_t pair = 0;
    for (std::int64_t j = 0; j < sums.experts_per_row; ++j) {
      if (positions[j] <= last || positions[j] >= next) continue;
      next = positions[j];
      pair = row * sums.experts_per_row + j;
    }
    const float weight = sums.weights == nullptr ? 1.0F : sums.weights[pair];
    total = fmaf(weight, results[next][n], total);
    last = next;
  }
  return total;
}

// blockIdx.x: panel.
template <WeightLayout kLayout>
__global__ void __launch_bounds__(kDownThreads)
    expert_down_kernel(const __grid_constant__ DownArgs args) {
  extern __shared__ __align__(128) std::uint8_t down_shared[];
  auto& shared = *reinterpret_cast<DownShared<kLayout>*>(down_shared);
  const GroupedArgs& product = args.products.product;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first_output = std::int64_t{blockIdx.x} * kPanelOutputs;
  let_next_start();
  DownStream<kLayout> stream(shared.rings[warp], shared.barriers[warp], lane);
  wait_for_previous();
  const std::int32_t num_tiles = *product.num_tiles;
  const auto panel_of = [&](std::int32_t tile) {
    return product.panels[0][product.tiles[tile].group] + blockIdx.x * product.panel_bytes;
  };
  const auto ask_for = [&](std::int32_t tile) {
    if (tile >= num_tiles) return;
    stream.add(panel_of(tile) + fragment_form(kLayout).header_bytes,
               StreamForm<kLayout>::bytes(product.panel_bytes, product.inputs));
  };
  ask_for(warp);
  for (std::int32_t index = warp; index < num_tiles; index += kDownWarps) {
    const GroupTile tile = product.tiles[index];
    FewPanel<kLayout> panel(panel_of(index), product.panel_bytes, product.inputs,
                            tile_inputs(args.products, tile, lane), lane);
    ask_for(index + kDownWarps);
    float totals[4];
    panel.multiply(stream, totals);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = lane / 4 * 2 + i / 2;
      const int row = lane % 4 * 2 + i % 2;
      if (row >= tile.count) continue;
      shared.results[tile.begin + row][n] =
          totals[i] + bias_of(product, 0, tile.group, first_output + n);
    }
  }
  __syncthreads();
  const int n = static_cast<int>(threadIdx.x) % kPanelOutputs;
  if (first_output + n >= product.outputs) return;
  for (std::int64_t row = threadIdx.x / kPanelOutputs; row < args.sums.rows;
       row += kDownThreads / kPanelOutputs) {
    args.sums.out[row * product.outputs + first_output + n] =
        sum_of_pairs(args.sums, row, n, shared.results);
  }
}

struct DownFamily {
  static constexpr bool has(WeightLayout /*layout*/) { return true; }

  template <WeightLayout kLayout>
  static void launch(const Launch& launch, const DownArgs& args) {
    launch_with_shared(expert_down_kernel<kLayout>,
                       dim3(static_cast<unsigned>(args.products.product.num_panels())),
                       dim3(kDownThreads), static_cast<int>(sizeof(DownShared<kLayout>)),
                       launch.stream, args);
  }
};

}  // namespace

void expert_down(const Launch& launch, WeightLayout layout, const GroupedArgs& args,
                 const GroupedInputs& inputs, const PairSums& sums) {
  launch_grouped<DownFamily>(
      launch, layout, DownArgs{.products = {.product = args, .inputs = inputs}, .sums = sums});
}

}  // namespace quire::cuda
