#include <algorithm>
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_wgmma.cuh"
#include "kernels/cuda/attention/attention_paged_wide.cuh"
#include "kernels/cuda/attention/attention_paged_wide.h"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {
namespace {

constexpr int kHalfScores = kRangeKeys / 4;  // of a thread: two rows, a quarter of half the keys
constexpr int kSteps = kRangeKeys / 16;
constexpr int kFirstTurn = 4;  // named barriers

// A warpgroup that computes. Of its rows, a warp has 16, and a lane rows lane / 4 and lane / 4 + 8
// of these. Registers are short: what is easily found again is not kept.
template <int kDims>
struct WideWorker {
  using Memory = WideMemory<kDims>;
  using Scores = float[2][kHalfScores];               // of keys 0 to 127 and 128 to 255 of a range
  static constexpr int kSums = Memory::kColumns / 2;  // of a thread

  const WideTask& task;
  std::uint32_t shared;
  RingPlace ring;
  int number;  // of the warpgroup
  int warp;    // of the warpgroup
  int lane;
  RowTile tile;                 // of the warpgroup
  std::int32_t first_position;  // of the sequence's queries
  std::int32_t kv_head;
  float largest[2];
  float totals[2];

  __device__ int row_of(int half) const { return 16 * warp + 8 * half + lane / 4; }
  __device__ std::int32_t query_of(int row) const { return (tile.first_row + row) / task.group; }
  __device__ std::int32_t head_of(int row) const {
    return kv_head * task.group + (tile.first_row + row) % task.group;
  }
  __device__ std::int32_t position_of(int half) const {
    return first_position + query_of(row_of(half));
  }
  __device__ std::uint32_t queries() const {
    return shared + Memory::kQueries + number * Memory::kQueryBytes;
  }
  __device__ std::uint32_t buffer() const {
    return shared + Memory::kData + ring.index / 4 * Memory::kBufferBytes;
  }
  __device__ void meet() const { paged_meet(1 + number, 128); }
  // The warpgroups take turns with the tensor cores: products of both at the same time would end
  // at the same time, and then both compute weights.
  __device__ void take_turn() const { paged_meet(kFirstTurn + number, 256); }
  __device__ void pass_turn() const {
    asm volatile("bar.arrive %0, 256;" ::"r"(kFirstTurn + 1 - number) : "memory");
  }
  // Of a quarter of a buffer.
  __device__ void release() {
    __syncwarp();
    if (lane == 0) paged_arrive(ring.empty());
    ring.advance();
  }

  __device__ void load_queries(std::int32_t query_begin) const {
    constexpr int kLoads = Memory::kColumns / 8;  // of 4 numbers, by a lane
    const AttentionArgs& args = task.args;
    meet();  // all have done with those of the item before
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * 32 + lane;
      const int row = 16 * warp + at / (Memory::kColumns / 4);
      const int dim = at % (Memory::kColumns / 4) * 4;
      // Loads of all, so that they are on their way together.
      const int known = min(row, tile.num_rows - 1);
      const float* const from = args.q +
                                std::int64_t{query_begin + query_of(known)} * args.q_stride +
                                std::int64_t{head_of(known)} * kDims + min(dim, kDims - 4);
      float4 numbers = *reinterpret_cast<const float4*>(from);
      if (row != known || dim >= kDims) numbers = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      const float scale = args.scale * kLog2E;
      store_words(queries() + dim / 64 * (kWideRows * 128) + row * 128 +
                      ((dim % 64 / 8 ^ row % 8) << 4) + dim % 8 * 2,
                  scaled_queries(make_float2(numbers.x, numbers.y), scale),
                  scaled_queries(make_float2(numbers.z, numbers.w), scale));
    }
    fence_for_wgmma();
    meet();
  }

  // The item's range begin and end.
  __device__ int2 begin_item(const WideItem& item) {
    const RowTile block = RowTile::of(task.args, item.rows, item.tile, kWideTile);
    tile = RowTile::of(task.args, item.rows, item.tile * 2 + number, kWideRows);
    first_position = item.rows.first_position;
    kv_head = item.kv_head;
    load_queries(item.rows.query_begin);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[half] = -INFINITY;
      totals[half] = 0.0F;
    }
    return make_int2(block.range_begin(), block.range_end());
  }

  // Passes its turn on.
  __device__ void score(Scores& scores) {
    RingPlace place = ring;
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      place.wait_full();
      place.advance();
    }
    wgmma_fence();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int step = 0; step < kDims / 16; ++step) {
        const std::uint32_t within = step % 4 * 32;
        const std::uint64_t a = swizzled_operand(queries() + step / 4 * (kWideRows * 128) + within);
        const std::uint64_t b = swizzled_operand(buffer() + step / 4 * Memory::kHalfBytes +
                                                 half * (Memory::kHalfBytes / 2) + within);
        if (step == 0) {
          multiply_shared<true>(scores[half], a, b);
        } else {
          multiply_shared<false>(scores[half], a, b);
        }
      }
    }
    wgmma_commit();
    pass_turn();
    wgmma_wait<0>();
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) release();
  }

  // Calls fn(score, row's half, key) for all scores of the thread.
  template <typename F>
  __device__ void for_each_score(Scores& scores, std::int32_t range, const F& fn) const {
    const std::int32_t first_key = range * kRangeKeys + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * kHalfScores; ++i) {
      fn(scores[i / kHalfScores][i % kHalfScores], i % 4 / 2, first_key + i / 4 * 8 + i % 2);
    }
  }

  __device__ void change(std::int32_t range, Scores& scores) const {
    const AttentionArgs& args = task.args;
    if (args.soft_cap > 0.0F) {
      const float cap = args.soft_cap * kLog2E;
      const float inverse = 1.0F / cap;
      for_each_score(scores, range,
                     [&](float& score, int, std::int32_t) { score = capped(score, cap, inverse); });
    }
    if (args.alibi_slopes != nullptr) {
      const std::int32_t positions[2] = {position_of(0), position_of(1)};
      const float slopes[2] = {__fmul_rn(args.alibi_slopes[head_of(row_of(0))], kLog2E),
                               __fmul_rn(args.alibi_slopes[head_of(row_of(1))], kLog2E)};
      for_each_score(scores, range, [&](float& score, int half, std::int32_t key) {
        score = with_distance(score, slopes[half], key - positions[half]);
      });
    }
    if (!tile.sees_all_of(range)) {
      const std::int32_t positions[2] = {position_of(0), position_of(1)};
      const std::int32_t first[2] = {first_visible_key(args, positions[0]),
                                     first_visible_key(args, positions[1])};
      for_each_score(scores, range, [&](float& score, int half, std::int32_t key) {
        if (key > positions[half] || key < first[half]) score = -INFINITY;
      });
    }
  }

  // Weights as operand A; gives the factors that join the range.
  __device__ void weigh(Scores& scores, std::uint32_t (&weights)[kSteps][4],
                        PagedJoin (&factors)[2]) {
    float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < 2 * kHalfScores; ++i) {
      most[i % 4 / 2] = fmaxf(most[i % 4 / 2], scores[i / kHalfScores][i % kHalfScores]);
    }
    float references[2];
    float range_totals[2] = {0.0F, 0.0F};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = largest_of_quad(most[half]);
      references[half] = reference_of(most[half]);
    }
#pragma unroll
    for (int group = 0; group < kRangeGroups; ++group) {
      float parts[2] = {0.0F, 0.0F};
#pragma unroll
      for (int i = 0; i < 16; i += 2) {
        const int half = i % 4 / 2;
        const float* const pair = &scores[group / 4][group % 4 * 16 + i];
        const float a = weight_of(pair[0], references[half]);
        const float b = weight_of(pair[1], references[half]);
        parts[half] = __fadd_rn(__fadd_rn(parts[half], a), b);
        weights[group * 2 + i / 8][i / 2 % 4] = two_bf16(a, b);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        range_totals[half] = __fadd_rn(range_totals[half], parts[half]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      factors[half] = PagedJoin::of(largest[half], most[half]);
      totals[half] = factors[half](totals[half], sum_of_quad(range_totals[half]));
    }
  }

  // Weighted sums of the range's values.
  __device__ void add_values(std::uint32_t (&weights)[kSteps][4], float (&part)[kSums]) {
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      RingPlace place = ring;
      place.advance(quarter == 0 ? 0 : 1);  // the one before is not released yet
      place.wait_full();
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const std::uint64_t b =
            swizzled_operand(buffer() + quarter * Memory::kQuarterBytes + step * 32);
        if (quarter + step == 0) {
          multiply_first(part, weights[0], b);
        } else {
          WgmmaBf16<Memory::kColumns>::multiply(part, weights[quarter * 4 + step], b, true);
        }
      }
      wgmma_commit();
      if (quarter > 0) {
        wgmma_wait<1>();
        finish_quarter(weights, quarter - 1);
      }
    }
    wgmma_wait<0>();
    finish_quarter(weights, 3);
  }

  __device__ void finish_quarter(const std::uint32_t (&weights)[kSteps][4], int quarter) {
    const int never = task.group < 0 ? 1 : 0;
#pragma unroll
    for (int step = 0; step < 4; ++step) keep_fragment(weights[quarter * 4 + step], never, shared);
    release();
  }

  __device__ void store(const float (&sums)[kSums], std::int32_t query_begin) const {
    const AttentionArgs& args = task.args;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      if (row >= tile.num_rows) continue;
      const std::int32_t head = head_of(row);
      const float factor = final_factor(largest[half], totals[half], args.sinks, head);
      const std::int64_t query = query_begin + query_of(row);
      float* const to = args.out + (query * args.num_heads + head) * kDims + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kDims / 8; ++i) {
        *reinterpret_cast<float2*>(to + 8 * i) =
            make_float2(__fmul_rn(sums[4 * i + 2 * half], factor),
                        __fmul_rn(sums[4 * i + 2 * half + 1], factor));
      }
    }
  }

  __device__ void run() {
    WideItem item;
    if (number == 1) pass_turn();
    for (std::int32_t round = 0; WideItem::find(task, round, item); ++round) {
      const int2 ranges = begin_item(item);
      float sums[kSums];
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] = 0.0F;
      take_turn();
      for (std::int32_t range = ranges.x; range < ranges.y; ++range) {
        Scores scores;
        score(scores);
        change(range, scores);
        std::uint32_t weights[kSteps][4];
        PagedJoin factors[2];
        weigh(scores, weights, factors);
        float part[kSums];
        take_turn();
        add_values(weights, part);
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[i] = factors[i % 4 / 2](sums[i], part[i]);
      }
      pass_turn();
      WideItem::find(task, round, item);
      store(sums, item.rows.query_begin);
    }
  }
};

template <int kDims>
__global__ void __launch_bounds__(kWideThreads, 1)
    attend_wide(const __grid_constant__ WideTask task) {
  using Memory = WideMemory<kDims>;
  extern __shared__ std::byte unaligned[];
  let_next_start();
  std::byte* const shared = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  // The same in all lanes, which the compiler cannot know otherwise.
  const int group = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const RingPlace ring = {.barriers = shared_address(shared) + Memory::kBarriers,
                          .distance = Memory::kQuarters * 8,
                          .size = Memory::kQuarters};
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < ring.size; ++i) {
      barrier_init(ring.barriers + i * 8, 4);
      barrier_init(ring.barriers + ring.distance + i * 8, 8);
    }
    fence_barrier_init();
  }
  __syncthreads();
  wait_for_previous();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    WideCopier<kDims> copier = {task, shared_address(shared) + Memory::kData, ring, ring, warp,
                                lane};
    copier.run();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    WideWorker<kDims> worker = {task, shared_address(shared), ring, group - 1, warp, lane};
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
  if (task.num_sequences == 0) return;
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

}  // namespace

bool wide_attention_applies(const AttentionArgs& args) {
  const std::int32_t dims = args.layout.head_dim;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.q) % sizeof(float4) == 0 && args.q_stride % 4 == 0;
  // Capped scores have been compared in split_attention() alone.
  return aligned && args.soft_cap == 0.0F &&
         (dims == 64 || dims == 80 || dims == 96 || dims == 128);
}

void wide_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                    std::int32_t fewest_rows) {
  WideTask task;
  task.args = args;
  task.inputs = inputs;
  task.kv = KvPlaces::of(args);
  task.group = args.num_heads / args.layout.num_kv_heads;
  task.first_items[0] = 0;
  for (std::int32_t sequence = 0; sequence < inputs.num_seqs; ++sequence) {
    const SequenceRows rows =
        SequenceRows::of(inputs.host_query_start_loc, inputs.host_seq_lens, sequence, task.group);
    if (rows.rows() <= fewest_rows) continue;
    if (task.num_sequences == kMostWideSequences) {
      launch_dims(launch, task);
      task.num_sequences = 0;
    }
    const std::int32_t items = rows.tiles(kWideTile) * args.layout.num_kv_heads;
    task.sequences[task.num_sequences] = sequence;
    task.first_items[task.num_sequences + 1] = task.first_items[task.num_sequences] + items;
    ++task.num_sequences;
  }
  launch_dims(launch, task);
}

}  // namespace quire::cuda
