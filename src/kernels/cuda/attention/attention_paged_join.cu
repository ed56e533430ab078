// Joins what several blocks have computed of the same rows.
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_walk.cuh"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {
namespace {

constexpr int kJoinParts = 64;  // at a time, whose numbers are on their way together
constexpr int kMostJoinThreads = 512;

// One row's factors of the parts at hand, and the sum of the weights of each.
struct JoinShared {
  float4 factors[kJoinParts];  // before, part, total
  float largest;               // of all parts so far
};

// The first warp, two parts a lane: parts that are none have no weight.
__device__ void find_factors(const float2 (&parts)[2], int lane, float& largest,
                             JoinShared& shared) {
  float up_to = fmaxf(parts[0].x, parts[1].x);
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(~0U, up_to, distance);
    if (lane >= distance) up_to = fmaxf(up_to, before);
  }
  float before = __shfl_up_sync(~0U, up_to, 1);
  before = lane == 0 ? largest : fmaxf(before, largest);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const PagedJoin factors = PagedJoin::of(before, parts[i].x);
    shared.factors[2 * lane + i] = make_float4(factors.before, factors.part, parts[i].y, 0.0F);
  }
  largest = __shfl_sync(~0U, before, 31);
  if (lane == 0) shared.largest = largest;
}

// One row of what several blocks have in common; a thread has a dimension. Block x of the grid is
// the one that has begun it.
__global__ void __launch_bounds__(kMostJoinThreads)
    join_split(const __grid_constant__ SplitTask task) {
  __shared__ JoinShared shared;
  let_next_start();
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const auto row = static_cast<std::int32_t>(blockIdx.y);
  const SplitStart& own = task.plan.starts[block];
  const SplitStart& next = task.plan.starts[block + 1];
  const SequenceRows rows = task.rows_of(next.sequence);
  const RowTile tile = RowTile::of(task.args, rows, next.tile, task.plan.tile_rows);
  const bool same =
      own.sequence == next.sequence && own.tile == next.tile && own.kv_head == next.kv_head;
  // A block whose row is none waits all the same: the kernel after this one counts on it.
  const bool has_row = next.range != tile.range_begin() && row < tile.num_rows &&
                       (!same || own.range == tile.range_begin());
  wait_for_previous();
  if (!has_row) return;

  const std::int32_t dims = task.args.layout.value_dims();
  const auto dim = static_cast<std::int32_t>(threadIdx.x);
  const int lane = dim % 32;
  const std::int32_t share = task.plan.share;
  const std::int64_t slot_floats = task.plan.slot_floats(dims);
  const std::int64_t maxima = std::int64_t{task.plan.slot_rows} * dims + row;
  const float* const begun = task.slot(block, 0);
  const float* const first_part = task.slot(block + 1, 1);
  float largest = begun[maxima];
  float total = begun[maxima + task.plan.slot_rows];
  const std::int64_t at = std::int64_t{row} * dims + min(dim, dims - 1);
  float sum = begun[at];
  const std::int32_t count = tile.range_end() - next.range;
  // Parts lie one after the other, `share` in each block's slots, of which the first is another's.
  const float* from = first_part + at;
  std::int32_t within = 0;
  for (std::int32_t first = 0; first < count; first += kJoinParts) {
    float parts[kJoinParts];
#pragma unroll
    for (int i = 0; i < kJoinParts; ++i) {
      parts[i] = first + i < count ? *from : 0.0F;
      from += slot_floats;
      if (++within == share) {
        within = 0;
        from += (task.plan.block_slots - share) * slot_floats;
      }
    }
    if (threadIdx.x < 32) {
      float2 own_parts[2] = {{-INFINITY, 0.0F}, {-INFINITY, 0.0F}};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::int32_t part = first + 2 * lane + i;
        if (part >= count) continue;
        const float* const slot =
            first_part +
            (std::int64_t{part / share} * task.plan.block_slots + part % share) * slot_floats;
        own_parts[i] = make_float2(slot[maxima], slot[maxima + task.plan.slot_rows]);
      }
      find_factors(own_parts, lane, largest, shared);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kJoinParts; ++i) {
      if (first + i < count) {
        const float4 factors = shared.factors[i];
        const PagedJoin both = {factors.x, factors.y};
        total = both(total, factors.z);
        sum = both(sum, parts[i]);
      }
    }
    __syncthreads();
  }
  if (dim >= dims) return;
  const std::int32_t tile_row = tile.first_row + row;
  const std::int32_t head = next.kv_head * task.group + tile_row % task.group;
  const float factor = final_factor(shared.largest, total, task.args.sinks, head);
  const std::int64_t to =
      std::int64_t{rows.query_begin + tile_row / task.group} * task.args.num_heads + head;
  task.args.out[to * dims + dim] = __fmul_rn(sum, factor);
}

}  // namespace

void join_split_results(const Launch& launch, const SplitTask& task) {
  if (!task.plan.joins || task.plan.blocks == 1) return;
  const dim3 grid(static_cast<unsigned>(task.plan.blocks - 1),
                  static_cast<unsigned>(task.plan.slot_rows));
  const auto threads = static_cast<unsigned>(task.args.layout.value_dims() + 31) / 32 * 32;
  launch_dependent(join_split, grid, dim3(threads), 0, launch.stream, task);
}

}  // namespace quire::cuda
