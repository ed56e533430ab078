#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_latent.cuh"
#include "kernels/cuda/attention/attention_latent.h"
#include "kernels/cuda/attention/latent_scores.cuh"
#include "kernels/cuda/attention/latent_values.cuh"
#include "kernels/cuda/dynamic_shared.h"

namespace quire::cuda {
namespace {

constexpr std::int32_t kMostLatentRows = 32;  // of a tile
// Registers of a thread, by what it does; a block has 512 for the four warpgroups' threads.
constexpr int kCopyRegisters = 32;
constexpr int kScoreRegisters = 128;
constexpr int kValueRegisters = 176;

template <int kTiles, bool kWholeBlocks>
__global__ void __launch_bounds__(kLatentThreads, 1)
    attend_latents(const __grid_constant__ SplitTask task) {
  extern __shared__ __align__(128) std::byte latent_memory[];
  auto& shared = *reinterpret_cast<LatentShared<kTiles>*>(latent_memory);
  let_next_start();
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < LatentShared<kTiles>::kBuffers; ++i) {
      barrier_init(shared_address(&shared.full[i]), kWholeBlocks ? 1 : 32 * kCopyWarps);
      barrier_init(shared_address(&shared.empty[i]), kValueWarps);
    }
    for (int i = 0; i < kWeightStages; ++i) {
      barrier_init(shared_address(&shared.ready[i]), kScoreWarps);
      barrier_init(shared_address(&shared.taken[i]), kValueWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (task.plan->starts[blockIdx.x].units == 0) return wait_for_previous();
  // The same in all lanes, which the compiler cannot know otherwise.
  const int warp = __shfl_sync(~0U, thread / 32, 0);
  const int lane = thread % 32;
  if (warp < kCopyWarps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCopyRegisters));
    LatentCopier<kTiles> copier = {task, shared, thread};
    if constexpr (!kWholeBlocks) {
      copier.copy_any_blocks();
    } else if (warp == 0) {
      copier.copy_whole_blocks();
    }
  } else if (warp < kCopyWarps + kScoreWarps) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kScoreRegisters));
    LatentScorer<kTiles> scorer = {
        task, shared, shared.key_ring(), shared.weight_ring(), warp - kCopyWarps, lane};
    scorer.run();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kValueRegisters));
    LatentSummer<kTiles> summer = {
        task, shared, shared.key_ring(), shared.weight_ring(), warp - kCopyWarps - kScoreWarps,
        lane};
    summer.run();
  }
}

template <int kTiles>
void launch_latents(const Launch& launch, const SplitTask& task) {
  const auto kernel =
      copies_blocks(task.args) ? attend_latents<kTiles, true> : attend_latents<kTiles, false>;
  launch_with_shared(kernel, dim3(static_cast<unsigned>(task.form.grid)), dim3(kLatentThreads),
                     static_cast<int>(sizeof(LatentShared<kTiles>)), launch.stream, task);
}

}  // namespace

bool latent_attention_applies(const AttentionArgs& args) {
  const KvLayout& layout = args.layout;
  return layout.dtype == DType::kBF16 && layout.latent_dims == kLatentValueDims &&
         layout.head_dim == kLatentKeyDims && layout.num_kv_heads == 1 && args.window == 0 &&
         args.chunk == 0 && args.soft_cap == 0.0F && args.alibi_slopes == nullptr &&
         args.sinks == nullptr;
}

std::uint64_t latent_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  return split_attention_workspace_bytes(limits, multiprocessors);
}

SplitShape latent_split_shape(int multiprocessors) {
  return {.max_rows = INT32_MAX,
          .tile_rows = kMostLatentRows,
          .blocks = multiprocessors,
          .small_blocks = multiprocessors};
}

void latent_attention(const Launch& launch, const AttentionInputs& inputs,
                      const AttentionArgs& args, const StagedSplit& split) {
  const SplitTask task = {.args = args,
                          .inputs = inputs,
                          .form = split.form,
                          .plan = split.plan,
                          .kv = KvPlaces::of(args),
                          .group = args.num_heads / args.layout.num_kv_heads,
                          .slots = reinterpret_cast<float*>(launch.workspace)};
  if (task.form.grid == 0) return;
  if (task.form.tile_rows == 16) {
    launch_latents<1>(launch, task);
  } else {
    launch_latents<2>(launch, task);
  }
  join_split_results(launch, task);
}

}  // namespace quire::cuda
