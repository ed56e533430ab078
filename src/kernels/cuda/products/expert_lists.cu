// A counting sort in one block, whose order no timing changes: every warp has a run of pairs,
// counts those of each expert, learns how many come before its own, and gives its pairs their
// positions.
#include "base/checked.h"
#include "kernels/cuda/dynamic_shared.h"
#include "kernels/cuda/products/expert_lists.h"

namespace quire::cuda {
namespace {

constexpr int kListThreads = 1024;
constexpr int kListWarps = kListThreads / 32;
// Of shared memory: numbers of pairs that warps have of experts.
constexpr std::int64_t kMaxCounts = 48 * 1024;

struct ListArgs {
  const std::int32_t* chosen = nullptr;
  std::int32_t pairs = 0;
  std::int32_t experts_per_row = 0;
  std::int32_t num_experts = 0;
  std::int32_t tile_rows = 0;
  std::int32_t warps = 0;  // that have pairs
  ExpertLists lists;
};

// Two numbers that are added together.
struct PairsAndTiles {
  std::int32_t pairs = 0;
  std::int32_t tiles = 0;
};

// Of all threads before this one, and of all in `total`.
__device__ PairsAndTiles sum_before(PairsAndTiles own, PairsAndTiles (&of_warps)[kListWarps],
                                    PairsAndTiles& total) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto scan = [&](PairsAndTiles sum) {
    for (int step = 1; step < 32; step *= 2) {
      const std::int32_t pairs = __shfl_up_sync(~0U, sum.pairs, step);
      const std::int32_t tiles = __shfl_up_sync(~0U, sum.tiles, step);
      if (lane >= step) sum = {sum.pairs + pairs, sum.tiles + tiles};
    }
    return sum;
  };
  const PairsAndTiles in_warp = scan(own);
  if (lane == 31) of_warps[warp] = in_warp;
  __syncthreads();
  const PairsAndTiles warps = scan(of_warps[lane]);
  total = {__shfl_sync(~0U, warps.pairs, 31), __shfl_sync(~0U, warps.tiles, 31)};
  const PairsAndTiles before = {__shfl_sync(~0U, warps.pairs, (warp + 31) % 32),
                                __shfl_sync(~0U, warps.tiles, (warp + 31) % 32)};
  __syncthreads();
  if (warp == 0) return {in_warp.pairs - own.pairs, in_warp.tiles - own.tiles};
  return {before.pairs + in_warp.pairs - own.pairs, before.tiles + in_warp.tiles - own.tiles};
}

// Calls fn(pair, expert, rank, size) for the pairs of a warp, 32 at a time: of the `size` of these
// that go to the same expert the pair is the `rank`th. Lanes that have none get expert -1.
template <typename F>
__device__ void for_pairs(const ListArgs& args, const F& fn) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp >= args.warps) return;
  const int share = (args.pairs + 32 * args.warps - 1) / (32 * args.warps) * 32;
  const int end = min(args.pairs, (warp + 1) * share);
  for (int first = warp * share; first < end; first += 32) {
    const int pair = first + lane;
    const std::int32_t expert = pair < end ? args.chosen[pair] : -1;
    const unsigned same = __match_any_sync(~0U, expert);
    fn(pair, expert, __popc(same & ((1U << lane) - 1)), __popc(same));
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kListThreads) list_kernel(const ListArgs args) {
  extern __shared__ std::int32_t counts[];  // [warps][num_experts]
  __shared__ PairsAndTiles of_warps[kListWarps];
  let_next_start();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::int32_t* const own = counts + warp * args.num_experts;
  for (int i = static_cast<int>(threadIdx.x); i < args.warps * args.num_experts;
       i += kListThreads) {
    counts[i] = 0;
  }
  wait_for_previous();
  __syncthreads();
  for_pairs(args, [&](int, std::int32_t expert, int rank, int size) {
    if (expert >= 0 && rank == 0) own[expert] += size;
  });
  __syncthreads();

  // Counts become the positions at which the pairs of a warp begin; a thread's experts lie side by
  // side.
  const int share = (args.num_experts + kListThreads - 1) / kListThreads;
  const int first = static_cast<int>(threadIdx.x) * share;
  const int last = min(args.num_experts, first + share);
  PairsAndTiles sum;
  for (int expert = first; expert < last; ++expert) {
    std::int32_t count = 0;
    for (int w = 0; w < args.warps; ++w) count += counts[w * args.num_experts + expert];
    sum.pairs += count;
    sum.tiles += (count + args.tile_rows - 1) / args.tile_rows;
  }
  PairsAndTiles total;
  PairsAndTiles next = sum_before(sum, of_warps, total);
  for (int expert = first; expert < last; ++expert) {
    const std::int32_t begin = next.pairs;
    for (int w = 0; w < args.warps; ++w) {
      const std::int32_t count = counts[w * args.num_experts + expert];
      counts[w * args.num_experts + expert] = next.pairs;
      next.pairs += count;
    }
    for (std::int32_t at = begin; at < next.pairs; at += args.tile_rows) {
      args.lists.tiles[next.tiles++] = {expert, at, min(args.tile_rows, next.pairs - at)};
    }
  }
  if (threadIdx.x == 0) *args.lists.num_tiles = total.tiles;
  __syncthreads();

  for_pairs(args, [&](int pair, std::int32_t expert, int rank, int size) {
    const std::int32_t position = expert < 0 ? 0 : own[expert] + rank;
    __syncwarp();
    if (expert < 0) return;
    if (rank == size - 1) own[expert] = position + 1;
    args.lists.pair_at[position] = pair;
    args.lists.row_at[position] = pair / args.experts_per_row;
    args.lists.expert_at[position] = expert;
    args.lists.position_of[pair] = position;
  });
}

}  // namespace

void list_experts(const Launch& launch, const std::int32_t* chosen, std::int64_t pairs,
                  std::int64_t experts_per_row, std::int64_t num_experts, std::int64_t tile_rows,
                  const ExpertLists& lists) {
  if (pairs == 0) return;
  const std::int64_t warps = std::clamp<std::int64_t>(
      std::min(ceil_div(pairs, 32), kMaxCounts / num_experts), 1, kListWarps);
  const auto bytes = static_cast<int>(warps * num_experts * std::int64_t{sizeof(std::int32_t)});
  const ListArgs args = {.chosen = chosen,
                         .pairs = static_cast<std::int32_t>(pairs),
                         .experts_per_row = static_cast<std::int32_t>(experts_per_row),
                         .num_experts = static_cast<std::int32_t>(num_experts),
                         .tile_rows = static_cast<std::int32_t>(tile_rows),
                         .warps = static_cast<std::int32_t>(warps),
                         .lists = lists};
  launch_with_shared(list_kernel, dim3(1), dim3(kListThreads), bytes, launch.stream, args);
}

}  // namespace quire::cuda
