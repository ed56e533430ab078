#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "kernels/cuda/attention/attention_generic.cuh"
#include "kernels/cuda/attention/attention_generic.h"
#include "kernels/cuda/dynamic_shared.h"

namespace quire::cuda {
namespace {

constexpr int kMostRows = 16;
// Of a block, less what the kernel has for itself.
constexpr std::int64_t kMostSharedBytes = 224 * 1024;
// Blocks of a multiprocessor that a step should have work for.
constexpr std::int64_t kBlocksEach = 2;
constexpr int kJoinThreads = 128;

// Shared memory of a block, in floats behind RangePlaces: queries, scores, sums of each slice of
// the range's keys, and what the ranges so far gave, where the block sees all ranges.
struct GenericShared {
  int rows;
  int query_dims;  // padded
  int value_dims;
  __host__ __device__ int queries() const { return 0; }
  __host__ __device__ int scores() const { return queries() + rows * query_dims; }
  __host__ __device__ int slices() const { return scores() + rows * kRangeKeys; }
  __host__ __device__ int sums() const { return slices() + rows * kGenericThreads; }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof(RangePlaces)) +
           std::int64_t{sums() + rows * value_dims} * static_cast<std::int64_t>(sizeof(float));
  }
};

// partials.rows: 0 where a block sees all ranges of its rows and writes their outputs; else a block
// sees range blockIdx.y of its unit's.
template <DType kDType, int kRows>
__global__ void __launch_bounds__(kGenericThreads)
    generic_attention_kernel(AttentionArgs args, AttentionInputs inputs, GenericWork work,
                             GenericShared shared, RangePartials partials) {
  extern __shared__ __align__(16) std::byte generic_memory[];
  auto& places = *reinterpret_cast<RangePlaces*>(generic_memory);
  auto* const floats = reinterpret_cast<float*>(generic_memory + sizeof(RangePlaces));
  float* const q = floats + shared.queries();
  float* const scores = floats + shared.scores();
  float* const slices = floats + shared.slices();
  float* const sums = floats + shared.sums();
  __shared__ SoftmaxSum row_sums[kRows];
  __shared__ JoinFactors factors[kRows];

  let_next_start();
  wait_for_previous();
  AttentionUnit unit;
  const auto slot = static_cast<std::int32_t>(blockIdx.x);
  if (!find_unit(args, inputs, work.shape, work.first_unit + slot, unit)) return;
  const std::int32_t last_position = unit.last_position();
  const std::int32_t first_key = first_visible_key(args, unit.tile.first_position);
  std::int32_t range = first_key / kRangeKeys;
  std::int32_t range_end = last_position / kRangeKeys + 1;
  const bool whole = partials.rows == 0;
  if (!whole) {
    range += static_cast<std::int32_t>(blockIdx.y);
    if (range >= range_end) return;
    range_end = range + 1;
  }

  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int rows = unit.rows();
  KvLayout layout = args.layout;
  layout.dtype = kDType;
  const int value_dims = layout.value_dims();
  for (int i = thread; i < kRows * shared.query_dims; i += kGenericThreads) {
    const int row = i / shared.query_dims;
    const int dim = i % shared.query_dims;
    q[i] = row < rows && dim < layout.head_dim
               ? args.q[unit.query(row) * args.q_stride +
                        std::int64_t{unit.head(row)} * layout.head_dim + dim]
               : 0.0F;
  }
  if (whole) {
    for (int i = thread; i < kRows * value_dims; i += kGenericThreads) sums[i] = 0.0F;
    if (thread < kRows) row_sums[thread] = {};
  }
  __syncthreads();

  const int slice = thread / work.columns;
  const bool paired = layout.has_values() && layout.value_group() == 2;
  const BlockId* const blocks = inputs.block_tables + unit.tile.sequence * inputs.table_stride;
  for (; range < range_end; ++range) {
    const std::int32_t base = range * kRangeKeys;
    const std::int32_t position = base + thread;
    // Of the range, the keys that some row sees, and those that all see.
    const int begin = max(first_key - base, 0);
    const int end = min(last_position + 1 - base, kRangeKeys);
    const int all_begin = max(first_visible_key(args, last_position) - base, 0);
    const int all_end = min(unit.tile.first_position + 1 - base, kRangeKeys);
    if (thread >= begin && thread < end) {
      const BlockId block = blocks[position / layout.block_size];
      const int token = position % layout.block_size;
      places.values[thread] = static_cast<std::int64_t>(
          layout.has_values()
              ? layout.values_offset(block, unit.kv_head) + layout.value_element_offset(0, token)
              : layout.keys_offset(block, unit.kv_head) + layout.key_element_offset(0, token));
      float key_scale = 1.0F;
      if constexpr (kDType == DType::kI8) {
        places.value_scales[thread] = *reinterpret_cast<const float*>(
            args.kv + layout.value_scale_offset(block, unit.kv_head, token));
        key_scale = *reinterpret_cast<const float*>(
            args.kv + layout.key_scale_offset(block, unit.kv_head, token));
      }
      float score[kRows];
      sum_scores<kDType, kRows>(
          layout,
          args.kv + layout.keys_offset(block, unit.kv_head) + layout.key_element_offset(0, token),
          q, shared.query_dims, score);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= rows) break;
        if constexpr (kDType == DType::kI8) score[r] = __fmul_rn(score[r], key_scale);
        scores[r * kRangeKeys + thread] =
            finish_score(args, score[r], unit.head(r), position - unit.position(r));
      }
    }
    __syncthreads();
    for (int r = thread / 32; r < kRows; r += kGenericThreads / 32) {
      // A row that is none sees nothing.
      const int first = r < rows ? first_visible_key(args, unit.position(r)) - base : kRangeKeys;
      const int last = r < rows ? unit.position(r) - base : -1;
      const SoftmaxSum part = weigh(scores + r * kRangeKeys, first, last, kDType == DType::kI8,
                                    places.value_scales, lane);
      if (lane != 0 || r >= rows) continue;
      if (whole) {
        factors[r] = join(row_sums[r], part);
      } else {
        partials.sums[partials.index(slot, r, static_cast<int>(blockIdx.y))] = part;
      }
    }
    __syncthreads();
    for (int column = 0; column < value_dims; column += work.columns) {
      const int dim = column + thread % work.columns;
      float part[kRows] = {};
      if (dim < value_dims) {
        const int key_dim = layout.head_dim - value_dims + dim;
        const auto offset =
            static_cast<std::int64_t>(layout.has_values() ? layout.value_element_offset(dim, 0)
                                                          : layout.key_element_offset(key_dim, 0));
        const int slice_begin = slice * work.columns;  // as many keys as columns
        sum_values<kDType, kRows>(args.kv, places, paired, offset, scores, max(begin, slice_begin),
                                  min(end, slice_begin + work.columns), all_begin, all_end, part);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) slices[r * kGenericThreads + thread] = part[r];
      __syncthreads();
      for (int i = thread; i < rows * work.columns; i += kGenericThreads) {
        const int r = i / work.columns;
        const int at = column + i % work.columns;
        if (at >= value_dims) continue;
        float sum = 0.0F;
        for (int s = i % work.columns; s < kGenericThreads; s += work.columns) {
          sum = __fadd_rn(sum, slices[r * kGenericThreads + s]);
        }
        if (whole) {
          float& joined = sums[r * value_dims + at];
          joined = join_values(joined, sum, factors[r]);
        } else {
          partials.values[partials.index(slot, r, static_cast<int>(blockIdx.y)) * value_dims + at] =
              sum;
        }
      }
      __syncthreads();
    }
  }
  if (!whole) return;
  for (int i = thread; i < rows * value_dims; i += kGenericThreads) {
    const int r = i / value_dims;
    SoftmaxSum sum = row_sums[r];
    float factor = 1.0F;
    add_sink(sum, factor, args.sinks, unit.head(r));
    args.out[(unit.query(r) * args.num_heads + unit.head(r)) * value_dims + i % value_dims] =
        normalized(sums[i], sum, factor);
  }
}

// The output of one row of a unit.
__global__ void __launch_bounds__(kJoinThreads)
    join_generic_kernel(AttentionArgs args, AttentionInputs inputs, GenericWork work,
                        RangePartials partials) {
  let_next_start();
  wait_for_previous();
  AttentionUnit unit;
  const auto slot = static_cast<std::int32_t>(blockIdx.x) / partials.rows;
  const auto row = static_cast<std::int32_t>(blockIdx.x) % partials.rows;
  if (!find_unit(args, inputs, work.shape, work.first_unit + slot, unit) || row >= unit.rows())
    return;
  const std::int32_t position = unit.position(row);
  const std::int32_t first_range = first_visible_key(args, unit.tile.first_position) / kRangeKeys;
  const std::int32_t begin = first_visible_key(args, position) / kRangeKeys - first_range;
  const std::int32_t end = position / kRangeKeys + 1 - first_range;
  const std::int64_t first = partials.index(slot, row, 0);
  const std::int32_t head = unit.head(row);
  for (int dim = static_cast<int>(threadIdx.x); dim < partials.dims; dim += kJoinThreads) {
    SoftmaxSum sum;
    float value = 0.0F;
#pragma unroll 4
    for (std::int32_t i = begin; i < end; ++i) {
      const JoinFactors factors = join(sum, partials.sums[first + i]);
      value = join_values(value, partials.values[(first + i) * partials.dims + dim], factors);
    }
    float factor = 1.0F;
    add_sink(sum, factor, args.sinks, head);
    args.out[(unit.query(row) * args.num_heads + head) * partials.dims + dim] =
        normalized(value, sum, factor);
  }
}

// How a step is done.
struct GenericPlan {
  GenericWork work;
  GenericShared shared = {};
  std::int64_t units = 0;
  std::int64_t ranges = 0;      // most of a unit
  std::int64_t all_ranges = 0;  // of all units, near enough
};

GenericPlan plan_generic(const AttentionInputs& inputs, const AttentionArgs& args) {
  GenericPlan plan;
  const KvLayout& layout = args.layout;
  const auto shared_of = [&](int rows) {
    return GenericShared{.rows = rows,
                         .query_dims = static_cast<int>(round_up(layout.head_dim, 4)),
                         .value_dims = layout.value_dims()};
  };
  int most = kMostRows;
  while (most > 1 && shared_of(most).bytes() > kMostSharedBytes) most /= 2;
  plan.work.shape = UnitShape::of(args, most, inputs.max_queries);
  const int rows = plan.work.shape.queries * plan.work.shape.heads;
  plan.shared = shared_of(rows > 8 ? 16 : rows > 4 ? 8 : rows > 1 ? 4 : 1);
  while (plan.work.columns < std::min(layout.value_dims(), kGenericThreads)) {
    plan.work.columns *= 2;
  }

  const std::int64_t per_tile = plan.work.shape.units_of_tile(args);
  const std::int32_t queries = plan.work.shape.queries;
  plan.units = plan.work.shape.units(inputs, args);
  const std::int32_t span = std::max(args.window, args.chunk);
  for (std::int32_t s = 0; s < inputs.num_seqs; ++s) {
    const std::int32_t count = inputs.host_query_start_loc[s + 1] - inputs.host_query_start_loc[s];
    const std::int64_t length = inputs.host_seq_lens[s];
    std::int64_t most_ranges = ceil_div(length, kRangeKeys);
    if (span > 0)
      most_ranges = std::min<std::int64_t>(most_ranges, (span + queries) / kRangeKeys + 2);
    plan.ranges = std::max(plan.ranges, most_ranges);
    plan.all_ranges += per_tile * ceil_div(count, queries) * most_ranges;
  }
  return plan;
}

template <DType kDType, int kRows>
void run_generic(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                 const GenericPlan& plan) {
  const auto kernel = generic_attention_kernel<kDType, kRows>;
  const auto shared_bytes = static_cast<int>(plan.shared.bytes());
  const std::int64_t unit_floats =
      RangePartials::floats(plan.shared.rows, plan.ranges, plan.shared.value_dims);
  const std::int64_t room =
      static_cast<std::int64_t>(launch.workspace_bytes / sizeof(float)) / unit_floats;
  // Whole units are best where the longest is no more than twice the average block's share.
  const std::int64_t blocks = kBlocksEach * launch.multiprocessors;
  if (plan.ranges == 1 || plan.ranges * blocks <= 2 * plan.all_ranges || room == 0) {
    launch_with_shared(kernel, dim3(static_cast<unsigned>(plan.units)), dim3(kGenericThreads),
                       shared_bytes, launch.stream, args, inputs, plan.work, plan.shared,
                       RangePartials{});
    return;
  }
  GenericWork work = plan.work;
  for (std::int64_t first = 0; first < plan.units; first += room) {
    const std::int64_t units = std::min(room, plan.units - first);
    work.first_unit = static_cast<std::int32_t>(first);
    RangePartials partials = {.rows = plan.shared.rows,
                              .ranges = static_cast<std::int32_t>(plan.ranges),
                              .dims = plan.shared.value_dims};
    partials.sums = reinterpret_cast<SoftmaxSum*>(launch.workspace);
    partials.values = reinterpret_cast<float*>(partials.sums + units * partials.rows * plan.ranges);
    launch_with_shared(kernel,
                       dim3(static_cast<unsigned>(units), static_cast<unsigned>(plan.ranges)),
                       dim3(kGenericThreads), shared_bytes, launch.stream, args, inputs, work,
                       plan.shared, partials);
    launch_dependent(join_generic_kernel, dim3(static_cast<unsigned>(units * partials.rows)),
                     dim3(kJoinThreads), 0, launch.stream, args, inputs, work, partials);
  }
}

template <DType kDType>
void run_generic_type(const Launch& launch, const AttentionInputs& inputs,
                      const AttentionArgs& args, const GenericPlan& plan) {
  switch (plan.shared.rows) {
    case 16:
      return run_generic<kDType, 16>(launch, inputs, args, plan);
    case 8:
      return run_generic<kDType, 8>(launch, inputs, args, plan);
    case 4:
      return run_generic<kDType, 4>(launch, inputs, args, plan);
    default:
      return run_generic<kDType, 1>(launch, inputs, args, plan);
  }
}

}  // namespace

std::uint64_t generic_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  const AttentionSizes& sizes = limits.attention;
  const std::int64_t ranges = ceil_div(sizes.max_seq_len, std::int64_t{kRangeKeys});
  if (ranges <= 1) return 0;
  // One unit with the most ranges, or twice as many ranges as there are blocks at a time.
  const std::int64_t floats = RangePartials::floats(
      kMostRows, std::max(ranges, 2 * kBlocksEach * multiprocessors), sizes.head_dim);
  return static_cast<std::uint64_t>(floats) * sizeof(float);
}

void generic_attention(const Launch& launch, const AttentionInputs& inputs,
                       const AttentionArgs& args) {
  const GenericPlan plan = plan_generic(inputs, args);
  switch (args.layout.dtype) {
    case DType::kBF16:
      return run_generic_type<DType::kBF16>(launch, inputs, args, plan);
    case DType::kF8E4M3:
      return run_generic_type<DType::kF8E4M3>(launch, inputs, args, plan);
    case DType::kI8:
      return run_generic_type<DType::kI8>(launch, inputs, args, plan);
    default:
      return run_generic_type<DType::kF32>(launch, inputs, args, plan);
  }
}

}  // namespace quire::cuda
