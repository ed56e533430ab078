// The largest number of each row.
#include <cooperative_groups.h>
#include <cstdint>
#include <utility>

#include <climits>

#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/row_access.cuh"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/sampling/number_order.cuh"

namespace quire::cuda {
namespace {

constexpr unsigned kBestThreads = 512;
// The most blocks that share a row, so that a single one is read by several multiprocessors.
constexpr int kBestCluster = 8;
constexpr std::int64_t kShortestOfCluster = 16384;

// NaN if one of them is.
__device__ float larger(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// The largest number that a thread sees, NaN if it sees one, and the first quad that has it. Quads
// are `step` apart.
struct BestQuad {
  float value = -INFINITY;
  int quad = INT_MAX;

  template <bool kAligned>
  __device__ void see(const float* x, std::int64_t cols, std::int64_t first, std::int64_t step) {
    constexpr int kAtOnce = 8;
    for (std::int64_t begin = first; 4 * begin < cols; begin += kAtOnce * step) {
      float4 values[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t quad = begin + i * step;
        values[i] = load_quad<kAligned>(x, quad, cols);
        pad(values[i], cols - 4 * quad);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const float of_quad =
            larger(larger(values[i].x, values[i].y), larger(values[i].z, values[i].w));
        if (of_quad > value || quad == INT_MAX) quad = static_cast<int>(begin + i * step);
        value = larger(value, of_quad);
      }
    }
  }

 private:
  // Beyond a row's end, where `left` numbers are left of it.
  __device__ static void pad(float4& values, std::int64_t left) {
    if (left < 1) values.x = -INFINITY;
    if (left < 2) values.y = -INFINITY;
    if (left < 3) values.z = -INFINITY;
    if (left < 4) values.w = -INFINITY;
  }
};

__device__ RowBest best_of_place(const float* x, std::int64_t cols, Place place) {
  if (place.order == kOrderOfNan) return {.value = NAN, .index = 0};
  RowBest best = {.value = -INFINITY, .index = INT_MAX};
  for_each_of_quad(load_quad(x, place.index, cols), place.index, cols,
                   [&](float value, std::int64_t index) {
                     if (value > best.value || best.index == INT_MAX) {
                       best = {.value = value, .index = static_cast<std::int32_t>(index)};
                     }
                   });
  return best;
}

// A block, or a cluster of them, has a row. Places are of quads. Without the second bound the
// compiler spares registers and has loads wait for each other.
template <bool kAligned>
__global__ void __launch_bounds__(kBestThreads, kAligned ? 2 : 1)
    find_best_of_rows(const float* x, std::int64_t stride, std::int64_t cols, RowBest* best) {
  namespace cg = cooperative_groups;
  __shared__ Place of_warps[kBestThreads / 32];
  __shared__ Place of_blocks[kBestCluster];  // the first block's counts
  const cg::cluster_group cluster = cg::this_cluster();
  const auto blocks = static_cast<std::int64_t>(cluster.num_blocks());
  const std::int64_t row = blockIdx.x / blocks;
  let_next_start();
  auto token = cluster.barrier_arrive();  // all blocks are there before one writes to another
  wait_for_previous();
  x += row * stride;

  BestQuad of_thread;
  of_thread.see<kAligned>(x, cols, cluster.block_rank() * std::int64_t{kBestThreads} + threadIdx.x,
                          blocks * kBestThreads);
  Place place;
  if (of_thread.quad != INT_MAX) place.see(of_thread.value, of_thread.quad);
  place = first_largest_of_warp(place);
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) of_warps[threadIdx.x / 32] = place;
  __syncthreads();
  cluster.barrier_wait(std::move(token));
  if (threadIdx.x < 32) {
    place = first_largest_of_warp(lane < kBestThreads / 32 ? of_warps[lane] : Place{});
    if (lane == 0) cluster.map_shared_rank(of_blocks, 0)[cluster.block_rank()] = place;
  }
  cluster.sync();
  if (cluster.block_rank() != 0 || threadIdx.x >= 32) return;
  place = first_largest_of_warp(lane < blocks ? of_blocks[lane] : Place{});
  if (lane == 0) best[row] = best_of_place(x, cols, place);
}

// As many as there are multiprocessors for: the largest number is the same however a row is split.
unsigned blocks_of_row(const Launch& launch, std::int64_t rows, std::int64_t cols) {
  unsigned blocks = 1;
  while (2 * blocks <= kBestCluster && rows * 2 * blocks <= launch.multiprocessors &&
         cols >= kShortestOfCluster) {
    blocks *= 2;
  }
  return blocks;
}

}  // namespace

void find_best(const Launch& launch, const float* x, std::int64_t stride, std::int64_t rows,
               std::int64_t cols, RowBest* best) {
  if (rows == 0 || cols == 0) return;
  const unsigned blocks = blocks_of_row(launch, rows, cols);
  const bool aligned = quads_are_aligned(x, stride) && cols % 4 == 0;
  launch_dependent_clusters(aligned ? find_best_of_rows<true> : find_best_of_rows<false>,
                            static_cast<unsigned>(rows) * blocks, kBestThreads, blocks, 0,
                            launch.stream, x, stride, cols, best);
}

}  // namespace quire::cuda
