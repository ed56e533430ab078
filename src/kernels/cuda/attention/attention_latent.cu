#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "kernels/cuda/attention/attention_latent.cuh"
#include "kernels/cuda/attention/attention_latent.h"
#include "kernels/cuda/attention/latent_multiply.cuh"
#include "kernels/cuda/dynamic_shared.h"

namespace quire::cuda {
namespace {

constexpr int kJoinLatentThreads = 256;
// Registers of a thread that multiplies, and of one that brings keys. A block is launched with 168
// for each thread, and no more than these can be shared out: 2 * 192 + 120 = 3 * 168.
constexpr int kMultiplyRegisters = 192;
constexpr int kBringRegisters = 120;
// Partial results that a launch has room for, for each multiprocessor.
constexpr std::int64_t kSlotsEach = 4;

template <KeyAccess kAccess>
__global__ void __launch_bounds__(kLatentThreads, 1)
    latent_attention_kernel(AttentionArgs args, AttentionInputs inputs, LatentWork work) {
  extern __shared__ __align__(1024) std::byte latent_memory[];
  auto& shared = *reinterpret_cast<LatentShared*>(latent_memory);
  const auto thread = static_cast<int>(threadIdx.x);
  let_next_start();
  if (thread == 0) {
    for (int i = 0; i < kTileStages; ++i) {
      barrier_init(shared_address(&shared.full[i]), kLatentThreads - kMultiplyThreads);
      barrier_init(shared_address(&shared.empty[i]), kMultiplyThreads / 32);
    }
    fence_barrier_init();
  }
  __syncthreads();
  wait_for_previous();
  if (thread >= kMultiplyThreads) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kBringRegisters));
    bring_keys<kAccess, kAccess == KeyAccess::kBlocksOf16 ? 5 : 3>(args, inputs, work, shared,
                                                                   thread - kMultiplyThreads);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplyRegisters));
    LatentMultiplier(args, inputs, work, shared, thread).run();
  }
}

// Outputs of units that several blocks had. Block (x, y): warp x of the two warpgroups, a part y of
// what it had, of unit z.
__global__ void __launch_bounds__(kJoinLatentThreads)
    join_latent_kernel(AttentionArgs args, AttentionInputs inputs, LatentWork work) {
  let_next_start();
  wait_for_previous();
  LatentPiece piece;
  const auto index = static_cast<std::int32_t>(blockIdx.z);
  if (!find_piece(args, inputs, work, index, 0, piece) || piece.is_whole()) return;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int group = static_cast<int>(blockIdx.x) / work.warps;
  const int warp = static_cast<int>(blockIdx.x) % work.warps;
  const int eight = static_cast<int>(blockIdx.y) * (kJoinLatentThreads / 32) + thread / 32;
  const int row = 16 * warp + lane / 4;
  if (row - lane / 4 >= piece.unit.rows()) return;
  const std::int64_t at = (std::int64_t{blockIdx.x} * 32 + eight) * 32 + lane;
  SoftmaxSum low;
  SoftmaxSum high;
  float4 sum = {};
  const auto add = [&](std::int32_t slot_index) {
    const std::int64_t slot = work.slot(index, slot_index);
    const float4 part = work.values[slot * work.slot_size() + at];
    const JoinFactors first = join(low, work.sums[slot * kLatentRows + row]);
    const JoinFactors second = join(high, work.sums[slot * kLatentRows + row + 8]);
    sum = {join_values(sum.x, part.x, first), join_values(sum.y, part.y, first),
           join_values(sum.z, part.z, second), join_values(sum.w, part.w, second)};
  };
  add(0);
#pragma unroll 4
  for (std::int32_t i = piece.end_range; i < piece.unit_ranges; ++i) add(i);
  const int column = 256 * group + 8 * eight + 2 * (lane % 4);
  LatentOutput::of(args, piece.unit, row, low).store(column, sum.x, sum.y);
  LatentOutput::of(args, piece.unit, row + 8, high).store(column, sum.z, sum.w);
}

// How a step's units are cut.
struct LatentPlan {
  UnitShape shape;
  std::int64_t units = 0;
  std::int64_t ranges = 0;   // most of a unit
  std::int64_t average = 1;  // of a unit
};

LatentPlan plan_latent(const AttentionInputs& inputs, const AttentionArgs& args) {
  LatentPlan plan;
  plan.shape = UnitShape::of(args, kLatentRows, inputs.max_queries);
  plan.units = plan.shape.units(inputs, args);
  std::int64_t sum = 0;
  std::int64_t count = 0;
  for (std::int32_t s = 0; s < inputs.num_seqs; ++s) {
    const std::int64_t queries =
        inputs.host_query_start_loc[s + 1] - inputs.host_query_start_loc[s];
    const std::int64_t tiles = ceil_div(queries, plan.shape.queries);
    const std::int64_t last = ceil_div(inputs.host_seq_lens[s], kRangeKeys);
    const std::int64_t first = ceil_div(inputs.host_seq_lens[s] - queries + 1, kRangeKeys);
    plan.ranges = std::max(plan.ranges, last);
    sum += tiles * (first + last) / 2;
    count += tiles;
  }
  plan.average = std::max<std::int64_t>(1, ceil_div(sum, std::max<std::int64_t>(count, 1)));
  return plan;
}

// Ranges of a piece, for the least time, in units of a range's products. Reading keys takes as long
// as their products when half of the multiprocessors do so, and joining pieces as long as `kJoin`.
std::int64_t best_piece(const LatentPlan& plan, std::int64_t units, int multiprocessors) {
  constexpr double kJoin = 0.6;
  std::int64_t best = plan.ranges;
  double least = 0.0;
  const std::int64_t most = std::min<std::int64_t>(plan.ranges, multiprocessors);
  for (std::int64_t pieces = 1; pieces <= most; ++pieces) {
    const std::int64_t size = ceil_div(plan.ranges, pieces);
    const std::int64_t blocks = units * ceil_div(plan.average, size);
    const std::int64_t busy = std::min<std::int64_t>(blocks, multiprocessors);
    const double share = 2.0 * static_cast<double>(busy) / multiprocessors /
                         static_cast<double>(plan.shape.head_chunks);
    const double each = std::max(1.0, share) * static_cast<double>(std::min(size, plan.average));
    const double time = each * static_cast<double>(ceil_div(blocks, multiprocessors)) +
                        (pieces > 1 ? kJoin + 0.02 * static_cast<double>(plan.ranges) : 0.0);
    if (pieces == 1 || time < least) {
      best = size;
      least = time;
    }
  }
  return best;
}

void run_latent(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                const LatentWork& work) {
  const KvLayout& layout = args.layout;
  const bool of_16 = layout.block_size == 16 && layout.block_stride() % 16 == 0 &&
                     reinterpret_cast<std::uintptr_t>(args.kv) % 16 == 0;
  const auto kernel = of_16 ? latent_attention_kernel<KeyAccess::kBlocksOf16>
                            : latent_attention_kernel<KeyAccess::kAnyBlocks>;
  const auto blocks =
      std::min<std::int64_t>(std::int64_t{work.units} * work.pieces, launch.multiprocessors);
  launch_with_shared(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kLatentThreads),
                     static_cast<int>(sizeof(LatentShared)), launch.stream, args, inputs, work);
  if (work.pieces == 1) return;
  launch_dependent(join_latent_kernel,
                   dim3(static_cast<unsigned>(2 * work.warps), 32 * 32 / kJoinLatentThreads,
                        static_cast<unsigned>(work.units)),
                   dim3(kJoinLatentThreads), 0, launch.stream, args, inputs, work);
}

std::int64_t slot_bytes(std::int64_t rows) {
  const std::int64_t warps = ceil_div(rows, 16);
  return warps * 2048 * static_cast<std::int64_t>(sizeof(float4)) +
         kLatentRows * static_cast<std::int64_t>(sizeof(SoftmaxSum));
}

}  // namespace

bool latent_attention_applies(const AttentionArgs& args) {
  const KvLayout& layout = args.layout;
  return layout.dtype == DType::kBF16 && layout.latent_dims == kLatentValueDims &&
         layout.head_dim == kLatentKeyDims && args.window == 0 && args.chunk == 0 &&
         args.soft_cap == 0.0F && args.alibi_slopes == nullptr && args.sinks == nullptr;
}

std::uint64_t latent_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  const AttentionSizes& sizes = limits.attention;
  const std::int64_t ranges = ceil_div(sizes.max_seq_len, std::int64_t{kRangeKeys});
  if (sizes.head_dim < kLatentKeyDims || ranges <= 1) return 0;
  return static_cast<std::uint64_t>(multiprocessors * slot_bytes(kLatentRows) +
                                    std::max(kSlotsEach * multiprocessors, ranges) *
                                        slot_bytes(std::min(sizes.heads_per_kv_head, kLatentRows)));
}

void latent_attention(const Launch& launch, const AttentionInputs& inputs,
                      const AttentionArgs& args) {
  const LatentPlan plan = plan_latent(inputs, args);
  LatentWork work = {.shape = plan.shape};
  const std::int64_t rows = std::int64_t{plan.shape.queries} * plan.shape.heads;
  work.warps = static_cast<std::int32_t>(ceil_div(rows, 16));
  work.states = reinterpret_cast<float4*>(launch.workspace);
  const auto states = static_cast<std::int64_t>(launch.multiprocessors * work.slot_size() *
                                                static_cast<std::int64_t>(sizeof(float4)));
  const std::int64_t slots =
      (static_cast<std::int64_t>(launch.workspace_bytes) - states) / slot_bytes(rows);
  // A piece for each unit needs no room; units that are cut, so much that not all may fit at once.
  const std::int64_t at_once = std::min(slots / plan.ranges, plan.units);
  std::int64_t piece = best_piece(plan, plan.units, launch.multiprocessors);
  std::int64_t step = plan.units;
  if (piece < plan.ranges && at_once < plan.units) {
    piece = at_once < 1 ? plan.ranges : best_piece(plan, at_once, launch.multiprocessors);
    if (piece < plan.ranges) step = at_once;
  }
  work.piece_ranges = static_cast<std::int32_t>(piece);
  work.pieces = static_cast<std::int32_t>(ceil_div(plan.ranges, piece));
  work.slots = static_cast<std::int32_t>(plan.ranges);
  work.sums = reinterpret_cast<SoftmaxSum*>(launch.workspace + states);
  work.values =
      reinterpret_cast<float4*>(work.sums + std::min(step, plan.units) * plan.ranges * kLatentRows);
  for (std::int64_t first = 0; first < plan.units; first += step) {
    work.first_unit = static_cast<std::int32_t>(first);
    work.units = static_cast<std::int32_t>(std::min(step, plan.units - first));
    run_latent(launch, inputs, args, work);
  }
}

}  // namespace quire::cuda
