// Joins what several blocks have computed of the same rows.
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_split.cuh"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {
namespace {

// One row of what several blocks have in common; a thread has a dimension. Block x of the grid is
// the one that has begun it.
__global__ void join_split(const __grid_constant__ SplitTask task) {
  wait_for_previous();
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const auto row = static_cast<std::int32_t>(blockIdx.y);
  const SplitStart& own = task.plan.starts[block];
  const SplitStart& next = task.plan.starts[block + 1];
  const SequenceRows rows = task.rows_of(next.sequence);
  const RowTile tile = RowTile::of(task.args, rows, next.tile, task.plan.tile_rows);
  if (next.range == tile.range_begin() || row >= tile.num_rows) return;
  const bool same =
      own.sequence == next.sequence && own.tile == next.tile && own.kv_head == next.kv_head;
  if (same && own.range != tile.range_begin()) return;

  const std::int32_t dims = task.args.layout.head_dim;
  const auto dim = static_cast<std::int32_t>(threadIdx.x);
  const bool has_dim = dim < dims;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto maximum_of = [&](const float* slot) {
    return slot + std::int64_t{task.plan.slot_rows} * dims + row;
  };
  const float* const begun = task.slot(block, 0);
  float largest = *maximum_of(begun);
  float total = maximum_of(begun)[task.plan.slot_rows];
  float sum = has_dim ? begun[row * dims + dim] : 0.0F;
  const std::int32_t count = tile.range_end() - next.range;
  const auto slot_of = [&](std::int32_t part) {
    return task.slot(block + 1 + part / task.plan.share, 1 + part % task.plan.share);
  };
  for (std::int32_t first = 0; first < count; first += 32) {
    float parts[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      parts[i] = has_dim && first + i < count ? slot_of(first + i)[row * dims + dim] : 0.0F;
    }
    // A lane has a part's largest score, and finds that of all up to there.
    const bool has_part = first + lane < count;
    const float* const maximum = has_part ? maximum_of(slot_of(first + lane)) : nullptr;
    const float part_largest = has_part ? *maximum : -INFINITY;
    const float part_total = has_part ? maximum[task.plan.slot_rows] : 0.0F;
    float up_to = part_largest;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float before = __shfl_up_sync(~0U, up_to, distance);
      if (lane >= distance) up_to = fmaxf(up_to, before);
    }
    float before = __shfl_up_sync(~0U, up_to, 1);
    before = lane == 0 ? largest : fmaxf(before, largest);
    const PagedJoin factors = PagedJoin::of(before, part_largest);
    largest = __shfl_sync(~0U, before, 31);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (first + i < count) {
        const PagedJoin both = {__shfl_sync(~0U, factors.before, i),
                                __shfl_sync(~0U, factors.part, i)};
        total = both(total, __shfl_sync(~0U, part_total, i));
        sum = both(sum, parts[i]);
      }
    }
  }
  if (!has_dim) return;
  const std::int32_t tile_row = tile.first_row + row;
  const std::int32_t head = next.kv_head * task.group + tile_row % task.group;
  const float factor = final_factor(largest, total, task.args.sinks, head);
  const std::int64_t to =
      std::int64_t{rows.query_begin + tile_row / task.group} * task.args.num_heads + head;
  task.args.out[to * dims + dim] = __fmul_rn(sum, factor);
}

}  // namespace

void join_split_results(const Launch& launch, const SplitTask& task) {
  const dim3 grid(static_cast<unsigned>(task.plan.blocks - 1),
                  static_cast<unsigned>(task.plan.slot_rows));
  const auto threads = static_cast<unsigned>(task.args.layout.head_dim + 31) / 32 * 32;
  launch_dependent(join_split, grid, dim3(threads), 0, launch.stream, task);
}

}  // namespace quire::cuda
