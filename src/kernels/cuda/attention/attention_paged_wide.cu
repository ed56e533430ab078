#include <algorithm>
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_feed.cuh"
#include "kernels/cuda/attention/attention_paged_wide.cuh"
#include "kernels/cuda/attention/attention_paged_wide.h"
#include "kernels/cuda/attention/attention_paged_wide_worker.cuh"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {
namespace {

constexpr std::uint64_t kMostTurnedBytes = std::uint64_t{128} << 20;

template <int kDims>
__global__ void __launch_bounds__(kWideThreads, 1)
    attend_wide(const __grid_constant__ WideTask task) {
  using Memory = WideMemory<kDims>;
  extern __shared__ std::byte unaligned[];
  let_next_start();
  std::byte* const shared = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  // The same in all lanes, which the compiler cannot know otherwise.
  const int group = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) % 128 / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const RingPlace ring = {.barriers = shared_address(shared) + Memory::kBarriers,
                          .distance = Memory::kPieces * 8,
                          .size = Memory::kPieces};
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < ring.size; ++i) {
      barrier_init(ring.barriers + i * 8, 1);
      barrier_init(ring.barriers + ring.distance + i * 8, 8);
    }
    const QueryBarriers<kDims> queries = {shared_address(shared)};
    for (int number = 0; number < 2; ++number) {
      barrier_init(queries.full(number), kQueryWarps);
      barrier_init(queries.empty(number), 4);
    }
    fence_barrier_init();
  }
  __syncthreads();
  wait_for_previous();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    WideFeeder<kDims> feeder = {task, shared_address(shared), ring, warp, lane};
    feeder.run();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    WideWorker<kDims> worker = {task, shared_address(shared), ring, ring.empty(), group - 1, warp,
                                lane};
    worker.run();
  }
}

template <int kDims>
void launch_wide(const Launch& launch, const WideTask& task) {
  constexpr std::int32_t kBytes = WideMemory<kDims>::kBytes;
  const auto kernel = attend_wide<kDims>;
  static_cast<void>(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int blocks = std::min(launch.multiprocessors, task.first_items[task.num_sequences]);
  launch_dependent(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kWideThreads), kBytes,
                   launch.stream, task);
}

void launch_dims(const Launch& launch, const WideTask& task) {
  switch (task.args.layout.head_dim) {
    case 64:
      return launch_wide<64>(launch, task);
    case 80:
      return launch_wide<80>(launch, task);
    case 96:
      return launch_wide<96>(launch, task);
    default:
      return launch_wide<128>(launch, task);
  }
}

void launch_task(const Launch& launch, const WideTask& task) {
  if (task.num_sequences == 0) return;
  turn_ranges(launch, task);
  launch_dims(launch, task);
}

// Bytes of the turned keys and values of a KV head.
std::uint64_t head_bytes(const AttentionArgs& args, const SequenceRows& rows) {
  const TurnedRange turned = {args.layout.head_dim};
  return static_cast<std::uint64_t>(SeenRanges::of(args, rows).count()) *
         static_cast<std::uint64_t>(turned.bytes());
}

}  // namespace

bool wide_attention_applies(const AttentionArgs& args) {
  const std::int32_t dims = args.layout.head_dim;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.q) % sizeof(float4) == 0 && args.q_stride % 4 == 0;
  return aligned && (dims == 64 || dims == 80 || dims == 96 || dims == 128);
}

std::uint64_t wide_attention_workspace_bytes(const StreamLimits& limits) {
  const AttentionSizes& sizes = limits.attention;
  const TurnedRange turned = {std::min(sizes.head_dim, 128)};
  const std::int64_t ranges = (sizes.max_seq_len + kRangeKeys - 1) / kRangeKeys;
  const auto of_head = static_cast<std::uint64_t>(ranges * turned.bytes());
  const auto heads = static_cast<std::uint64_t>(std::max(sizes.num_kv_heads, 1));
  return std::max(of_head, std::min(of_head * heads, kMostTurnedBytes));
}

void wide_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                    std::int32_t fewest_rows) {
  WideTask task;
  task.args = args;
  task.inputs = inputs;
  task.kv = KvPlaces::of(args);
  task.turned = launch.workspace;
  task.group = args.num_heads / args.layout.num_kv_heads;
  const auto rows_of = [&](std::int32_t sequence) {
    return SequenceRows::of(inputs.host_query_start_loc, inputs.host_seq_lens, sequence,
                            task.group);
  };
  std::uint64_t most_bytes = 0;
  for (std::int32_t sequence = 0; sequence < inputs.num_seqs; ++sequence) {
    const SequenceRows rows = rows_of(sequence);
    if (rows.rows() > fewest_rows) most_bytes = std::max(most_bytes, head_bytes(args, rows));
  }
  if (most_bytes == 0) return;
  // As many KV heads at a time as there is room for.
  const auto all_heads = static_cast<std::uint64_t>(args.layout.num_kv_heads);
  const std::uint64_t most_heads =
      std::clamp(launch.workspace_bytes / most_bytes, std::uint64_t{1}, all_heads);
  for (std::uint64_t head = 0; head < all_heads; head += most_heads) {
    task.first_head = static_cast<std::int32_t>(head);
    task.heads = static_cast<std::int32_t>(std::min(most_heads, all_heads - head));
    std::uint64_t used = 0;
    const auto launch_all = [&] {
      launch_task(launch, task);
      task.num_sequences = 0;
      task.first_items[0] = 0;
      task.first_ranges[0] = 0;
      used = 0;
    };
    task.first_items[0] = 0;
    task.first_ranges[0] = 0;
    for (std::int32_t sequence = 0; sequence < inputs.num_seqs; ++sequence) {
      const SequenceRows rows = rows_of(sequence);
      if (rows.rows() <= fewest_rows) continue;
      const std::uint64_t bytes = head_bytes(args, rows) * static_cast<std::uint64_t>(task.heads);
      if (used + bytes > launch.workspace_bytes || task.num_sequences == kMostWideSequences) {
        launch_all();
      }
      used += bytes;
      const std::int32_t index = task.num_sequences++;
      task.sequences[index] = sequence;
      task.first_items[index + 1] = task.first_items[index] + rows.tiles(kWideTile) * task.heads;
      task.first_ranges[index + 1] =
          task.first_ranges[index] + SeenRanges::of(args, rows).count() * task.heads;
    }
    launch_all();
  }
}

}  // namespace quire::cuda
