// Joins what several blocks have computed of the same rows.
#include <algorithm>
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_copies.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_walk.cuh"
#include "kernels/cuda/dynamic_shared.h"

namespace quire::cuda {
namespace {

constexpr int kJoinDims = 128;   // of a block, one a thread
constexpr int kJoinParts = 128;  // at most, that are in shared memory at a time

// What a row's sums are multiplied by when a part joins them, and the part's sum of weights.
struct PartFactors {
  PagedJoin both;
  float total;
  float unused;
};

// Of a row, parts that a block has in shared memory: first their factors, then their sums.
struct JoinMemory {
  std::int32_t parts;  // room

  __host__ __device__ int bytes() const {
    return parts * static_cast<int>(sizeof(PartFactors) + kJoinDims * sizeof(float));
  }
};

// A warp: factors of `count` parts, of which each lane gets the largest score and the sum of the
// weights by fn(part). `largest`: of all parts before, then of these, too.
template <typename F>
__device__ void find_factors(std::int32_t count, int lane, float& largest, PartFactors* to,
                             const F& fn) {
  for (std::int32_t first = 0; first < count; first += 32) {
    float2 part = {-INFINITY, 0.0F};
    if (first + lane < count) part = fn(first + lane);
    float up_to = part.x;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float before = __shfl_up_sync(~0U, up_to, distance);
      if (lane >= distance) up_to = fmaxf(up_to, before);
    }
    float before = __shfl_up_sync(~0U, up_to, 1);
    before = lane == 0 ? largest : fmaxf(before, largest);
    const PagedJoin both = PagedJoin::of(before, part.x);
    if (first + lane < count) to[first + lane] = {both, part.y, 0.0F};
    largest = __shfl_sync(~0U, before, 31);
  }
}

// Block (x, y, z): row y of the x-th of the tiles that blocks have in common, dimensions from
// kJoinDims z on.
__global__ void __launch_bounds__(kJoinDims)
    join_split(const __grid_constant__ SplitTask task, JoinMemory memory) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float all_largest;
  let_next_start();
  const SplitPlan& plan = *task.plan;
  if (static_cast<std::int32_t>(blockIdx.x) >= plan.num_joined) return wait_for_previous();
  const std::int32_t block = plan.joined[blockIdx.x];
  const auto row = static_cast<std::int32_t>(blockIdx.y);
  const SplitStart& next = plan.starts[block + 1];
  const SequenceRows rows = task.rows_of(next.sequence);
  const RowTile tile = RowTile::of(task.args, rows, next.tile, task.form.tile_rows);
  // A block whose row is none waits all the same: the kernel after this one counts on it.
  wait_for_previous();
  if (row >= tile.num_rows) return;

  const std::int32_t dims = task.args.layout.value_dims();
  const std::int32_t first_dim = static_cast<std::int32_t>(blockIdx.z) * kJoinDims;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const int lane = thread % 32;
  auto* const factors = reinterpret_cast<PartFactors*>(shared);
  auto* const sums = reinterpret_cast<float*>(factors + memory.parts);
  const std::int64_t slot_floats = task.form.slot_floats(dims);
  const std::int64_t maxima = std::int64_t{task.form.slot_rows} * dims + row;
  const std::int64_t at = std::int64_t{row} * dims + first_dim;
  const std::int32_t share = plan.share;
  const float* const begun = task.slot(block, 0);
  // Parts lie one after the other, `share` in each block's slots, of which the first is another's.
  const auto part_at = [&](std::int32_t part) {
    return task.slot(block + 1 + part / share, 1 + part % share);
  };
  const bool has_dim = first_dim + thread < dims;
  float sum = has_dim ? begun[at + thread] : 0.0F;
  float largest = begun[maxima];
  float total = begun[maxima + task.form.slot_rows];
  const std::int32_t count = tile.range_end() - next.range;
  for (std::int32_t first = 0; first < count; first += memory.parts) {
    const std::int32_t here = min(count - first, memory.parts);
    // A warp copies a part's sums, 16 bytes a lane.
    for (std::int32_t part = thread / 32; part < here; part += kJoinDims / 32) {
      if (first_dim + lane * 4 < dims) {
        copy_words(reinterpret_cast<const std::byte*>(part_at(first + part) + at + lane * 4),
                   shared_address(sums + part * kJoinDims + lane * 4));
      }
    }
    commit_copies();
    if (thread < 32) {
      find_factors(here, lane, largest, factors, [&](std::int32_t part) {
        const float* const slot = part_at(first + part) + maxima;
        return make_float2(slot[0], slot[task.form.slot_rows]);
      });
      if (lane == 0) all_largest = largest;
    }
    wait_copied<0>();
    __syncthreads();
#pragma unroll 8
    for (std::int32_t part = 0; part < here; ++part) {
      const PartFactors of_part = factors[part];
      total = of_part.both(total, of_part.total);
      sum = of_part.both(sum, sums[part * kJoinDims + thread]);
    }
    __syncthreads();
  }
  if (!has_dim) return;
  const std::int32_t tile_row = tile.first_row + row;
  const std::int32_t head = next.kv_head * task.group + tile_row % task.group;
  const float factor = final_factor(all_largest, total, task.args.sinks, head);
  const std::int64_t to =
      std::int64_t{rows.query_begin + tile_row / task.group} * task.args.num_heads + head;
  task.args.out[to * dims + first_dim + thread] = __fmul_rn(sum, factor);
}

}  // namespace

void join_split_results(const Launch& launch, const SplitTask& task) {
  const SplitForm& form = task.form;
  if (form.joined_grid == 0) return;
  const JoinMemory memory = {std::min(form.most_ranges, kJoinParts)};
  const std::int32_t dims = task.args.layout.value_dims();
  launch_with_shared(
      join_split,
      dim3(static_cast<unsigned>(form.joined_grid), static_cast<unsigned>(form.slot_rows),
           static_cast<unsigned>((dims + kJoinDims - 1) / kJoinDims)),
      dim3(kJoinDims), memory.bytes(), launch.stream, task, memory);
}

}  // namespace quire::cuda
