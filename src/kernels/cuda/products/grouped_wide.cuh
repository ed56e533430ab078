// Tiles of up to 64 rows: a warp has two panels, of a gated product one of each matrix, and the
// inputs of the tile go through shared memory for all warps of a block.
#pragma once

#include <cstdint>

#include "base/checked.h"
#include "kernels/cuda/dynamic_shared.h"
#include "kernels/cuda/products/grouped_kernel.cuh"
#include "kernels/cuda/products/wide_panels.cuh"

namespace quire::cuda {

inline constexpr int kWideWarps = 4;
inline constexpr int kWideThreads = 32 * kWideWarps;
inline constexpr int kWideStages = 2;  // of a stream
static_assert(kWideRows == kWideTileRows);

template <WeightLayout kLayout>
using WideStream = PanelStream<kLayout, kWideStages>;

template <WeightLayout kLayout>
struct GroupedWideShared {
  alignas(128) std::uint8_t rings[kWideWarps][kWidePanels][WideStream<kLayout>::kRingBytes];
  alignas(16) WideInputs inputs[2];
  std::uint64_t barriers[kWideWarps][kWidePanels][kWideStages];
  float exchange[kWideWarps][kWideRows];
};

__device__ inline void copy_16_bytes(const void* from, void* to) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}
__device__ inline void copy_4_bytes(const void* from, void* to) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}

// Copies the inputs of a tile into shared memory, kWideGroups groups at a time. What rows that
// there are not have there changes no row that there is.
template <bool kHasSums>
class TileLoader {
 public:
  __device__ TileLoader(const GroupedKernelArgs& args, const GroupTile& tile)
      : groups_(static_cast<int>((args.product.inputs + 31) / 32)),
        x_stride_(args.inputs.rows * 32),
        sum_stride_(sum_stride(args.inputs.rows)) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = static_cast<int>(threadIdx.x) / 4 + kWideRows / 2 * i;
      if (row >= tile.count) continue;
      x_[i] = args.inputs.x + x_row(args.product, tile.group, tile.begin + row) * 32 +
              threadIdx.x % 4 * 8;
    }
    const int row = static_cast<int>(threadIdx.x) % kWideRows;
    if (kHasSums && row < tile.count) {
      sums_ = args.inputs.sums + x_row(args.product, tile.group, tile.begin + row);
    }
  }

  __device__ void load(int first, WideInputs& to) const {
#pragma unroll
    for (int group = 0; group < kWideGroups; ++group) {
      if (first + group >= groups_) break;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (x_[i] == nullptr) continue;
        copy_16_bytes(x_[i] + (first + group) * x_stride_,
                      &to.x[group][threadIdx.x / 4 + kWideRows / 2 * i][threadIdx.x % 4 * 8]);
      }
    }
    if constexpr (kHasSums) {
#pragma unroll
      for (int i = 0; i < kWideGroups; i += 2) {
        const int group = static_cast<int>(threadIdx.x) / kWideRows + i;
        float* const at = &to.sums[group][threadIdx.x % kWideRows];
        if (first + group >= groups_ || sums_ == nullptr) {
          *at = 0.0F;
        } else {
          copy_4_bytes(sums_ + (first + group) * sum_stride_, at);
        }
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

 private:
  int groups_;
  std::int64_t x_stride_;
  std::int64_t sum_stride_;
  const std::uint16_t* x_[2] = {};  // of two rows that the thread copies a quarter of; null: none
  const float* sums_ = nullptr;
};

// Outputs 2 (lane / 4) and the next one of a panel for rows 2 (lane % 4) and the next one of a tile
// of eight: of a row first the one, then the other.
struct OutputsOfRow {
  float first;
  float second;
};
__device__ inline OutputsOfRow outputs_of(const float (&totals)[4], int row) {
  return {totals[row], totals[2 + row]};
}

__device__ inline void store_panel(const GroupedArgs& args, const GroupTile& tile, int matrix,
                                   std::int64_t panel, int lane,
                                   const float (&totals)[kWideTiles][4]) {
  const std::int64_t output = panel * kPanelOutputs + lane / 4 * 2;
  if (output >= args.outputs) return;
  const float bias = bias_of(args, matrix, tile.group, output);
  const float next_bias = bias_of(args, matrix, tile.group, output + 1);
  float* const out =
      args.out[matrix] + tile.begin * args.out_stride + tile.group * args.out_group_stride + output;
  const bool is_paired = output + 1 < args.outputs && args.out_stride % 2 == 0 &&
                         reinterpret_cast<std::uintptr_t>(out) % sizeof(float2) == 0;
#pragma unroll
  for (int i = 0; i < 2 * kWideTiles; ++i) {
    const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
    if (row >= tile.count) continue;
    const OutputsOfRow of = outputs_of(totals[i / 2], i % 2);
    float* const at = out + row * args.out_stride;
    if (is_paired) {
      *reinterpret_cast<float2*>(at) = {of.first + bias, of.second + next_bias};
    } else {
      at[0] = of.first + bias;
      if (output + 1 < args.outputs) at[1] = of.second + next_bias;
    }
  }
}

// A warp's panel, of 16 outputs; two warps have those of a group.
__device__ inline void store_gated_panels(const GroupedKernelArgs& args, const GroupTile& tile,
                                          std::int64_t panel, int lane,
                                          const float (&totals)[kWidePanels][kWideTiles][4],
                                          float (&sums)[kWideRows]) {
  const auto index = static_cast<int>(panel % 2) * 16 + lane / 4 * 2;
#pragma unroll
  for (int i = 0; i < 2 * kWideTiles; ++i) {
    const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
    const OutputsOfRow gate = outputs_of(totals[0][i / 2], i % 2);
    const OutputsOfRow other = outputs_of(totals[1][i / 2], i % 2);
    const float first = store_rounded(args, tile, panel / 2, index, row, gate.first, other.first);
    const float second =
        store_rounded(args, tile, panel / 2, index + 1, row, gate.second, other.second);
    const float sum = sum_of_panel(first, second);
    if (lane < 4) sums[row] = sum;
  }
}

// Of the groups of 32 outputs that the block has.
__device__ inline void store_sums_of_groups(const GroupedKernelArgs& args, const GroupTile& tile,
                                            std::int64_t first_group, int num_groups,
                                            const float (&sums)[kWideWarps][kWideRows]) {
  const int group = static_cast<int>(threadIdx.x) / kWideRows;
  const int row = static_cast<int>(threadIdx.x) % kWideRows;
  if (group >= num_groups || row >= tile.count) return;
  args.rounded.sums[(first_group + group) * sum_stride(args.rounded.rows) + tile.begin + row] =
      sums[2 * group][row] + sums[2 * group + 1][row];
}

// blockIdx.x: panels, those of all matrices one after the other, or those of both matrices of a
// gated product; blockIdx.y: a tile of rows.
template <WeightLayout kLayout>
__global__ void __launch_bounds__(kWideThreads, 2)
    grouped_wide_kernel(const __grid_constant__ GroupedKernelArgs args) {
  extern __shared__ __align__(128) std::uint8_t wide_shared[];
  constexpr FragmentForm kForm = fragment_form(kLayout);
  auto& shared = *reinterpret_cast<GroupedWideShared<kLayout>*>(wide_shared);
  const GroupedArgs& product = args.product;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int num_panels = panels_of(product);
  const int first_own = static_cast<int>(blockIdx.x) * kWideWarps + warp;

  let_next_start();
  WideStream<kLayout> streams[kWidePanels] = {
      {shared.rings[warp][0], shared.barriers[warp][0], lane},
      {shared.rings[warp][1], shared.barriers[warp][1], lane}};
  wait_for_previous();
  GroupTile tile;
  if (!find_tile(product, static_cast<std::int32_t>(blockIdx.y), tile)) return;
  if (product.panels[0][tile.group - product.first_group] == nullptr) return;

  // Panels that there are not are multiplied as the last one is, and not stored.
  int matrices[kWidePanels];
  std::int64_t own[kWidePanels];
  const std::uint8_t* weights[kWidePanels];
#pragma unroll
  for (int i = 0; i < kWidePanels; ++i) {
    const int index = min(kWidePanels * first_own + i, num_panels * product.num_matrices - 1);
    matrices[i] = args.is_gated ? i : index / num_panels;
    own[i] = args.is_gated ? min(first_own, num_panels - 1) : index % num_panels;
    weights[i] = product.panels[matrices[i]][tile.group - product.first_group] +
                 own[i] * product.panel_bytes;
    streams[i].add(weights[i] + kForm.header_bytes,
                   StreamForm<kLayout>::bytes(product.panel_bytes, product.inputs));
  }
  const TileLoader<kForm.has_minimum> loader(args, tile);
  loader.load(0, shared.inputs[0]);
  WidePanels<kLayout> panels(weights, product.panel_bytes, product.inputs, (tile.count + 7) / 8,
                             lane);
  const std::uint8_t* chunks[kWidePanels] = {};
  const auto groups = static_cast<int>((product.inputs + 31) / 32);
  int place = 0;  // of group `first` in the chunks
  for (int first = 0; first < groups; first += kWideGroups) {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const int buffer = first / kWideGroups % 2;
    if (first + kWideGroups < groups) loader.load(first + kWideGroups, shared.inputs[buffer ^ 1]);
    if (place == 0) {
#pragma unroll
      for (int i = 0; i < kWidePanels; ++i) chunks[i] = streams[i].wait();
    }
    panels.multiply(chunks, first, place, shared.inputs[buffer]);
    place += kWideGroups;
    if (place == StreamForm<kLayout>::kChunkGroups) {
#pragma unroll
      for (int i = 0; i < kWidePanels; ++i) streams[i].release();
      place = 0;
    }
  }
  panels.finish();

  if (!args.is_gated) {
#pragma unroll
    for (int i = 0; i < kWidePanels; ++i) {
      if (kWidePanels * first_own + i >= num_panels * product.num_matrices) continue;
      store_panel(product, tile, matrices[i], own[i], lane, panels.totals()[i]);
    }
    return;
  }
  // The second panel of the last group may be none: its outputs are zeros.
  const int num_groups = (num_panels + 1) / 2;
  if (first_own < 2 * num_groups) {
    store_gated_panels(args, tile, first_own, lane, panels.totals(), shared.exchange[warp]);
  }
  if (args.rounded.sums == nullptr) return;
  __syncthreads();
  const int first_group = static_cast<int>(blockIdx.x) * kWideWarps / 2;
  store_sums_of_groups(args, tile, first_group, num_groups - first_group, shared.exchange);
}

// Layouts that are compiled on their own.
enum class WidePart : std::uint8_t { kOthers, kZeros, kBlocks };

constexpr WidePart wide_part(WeightLayout layout) {
  if (is_blocks(layout)) return WidePart::kBlocks;
  return fragment_form(layout).has_zeros ? WidePart::kZeros : WidePart::kOthers;
}

template <WidePart kPart>
struct WideFamily {
  static constexpr bool has(WeightLayout layout) {
    return has_wide_tiles(layout) && wide_part(layout) == kPart;
  }

  template <WeightLayout kLayout>
  static void launch(const Launch& launch, const GroupedKernelArgs& args) {
    const GroupedArgs& product = args.product;
    const std::int64_t panels = product.num_panels() * product.num_matrices;
    const dim3 grid(static_cast<unsigned>(ceil_div(panels, kWidePanels * kWideWarps)),
                    static_cast<unsigned>(product.num_tile_slots()));
    launch_with_shared(grouped_wide_kernel<kLayout>, grid, dim3(kWideThreads),
                       static_cast<int>(sizeof(GroupedWideShared<kLayout>)), launch.stream, args);
  }
};

}  // namespace quire::cuda
