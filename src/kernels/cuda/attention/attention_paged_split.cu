#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_split.cuh"
#include "kernels/cuda/attention/attention_paged_split.h"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {
namespace {

constexpr int kMeeting = 1;  // of the computing warps

// The computing warps of a block.
template <int kTiles, int kColumns>
struct SplitWorker {
  using Results = SplitResults<kTiles, kColumns>;

  const SplitTask& task;
  const SplitMemory& memory;
  std::byte* shared;
  RingPlace ring;
  int warp;
  int lane;
  // Of the present tile.
  SplitWalk walk;
  std::int32_t positions[kTiles][2];
  float slopes[kTiles][2];

  __device__ int row_of(int tile, int half) const { return 16 * tile + 8 * half + lane / 4; }
  __device__ std::int32_t head_of(std::int32_t row) const {
    return walk.kv_head * task.group + (walk.tile.first_row + row) % task.group;
  }
  __device__ std::int32_t query_of(std::int32_t row) const {
    return (walk.tile.first_row + row) / task.group;
  }
  __device__ int first_dim() const { return warp * 8 * kColumns + lane % 4 * 2 * kColumns; }
  __device__ bool has_tile(int tile) const { return kTiles == 1 || 16 * tile < walk.tile.num_rows; }

  __device__ uint4* queries() const {
    return reinterpret_cast<uint4*>(shared + SplitMemory::queries());
  }
  __device__ uint4* weights() const { return reinterpret_cast<uint4*>(shared + memory.weights()); }
  __device__ float* maxima() const { return reinterpret_cast<float*>(shared + memory.maxima()); }
  __device__ float* totals() const { return reinterpret_cast<float*>(shared + memory.totals()); }
  __device__ const std::uint32_t* buffer(std::uint32_t index) const {
    return reinterpret_cast<const std::uint32_t*>(shared + memory.buffers() +
                                                  index * memory.buffer_bytes());
  }

  // Two neighbouring numbers of the tile's row; rows that it has not are zero.
  __device__ std::uint32_t query_word(std::int32_t row, std::int32_t dim) const {
    if (row >= walk.tile.num_rows) return 0;
    const AttentionArgs& args = task.args;
    const float* const from = args.q +
                              std::int64_t{walk.rows.query_begin + query_of(row)} * args.q_stride +
                              std::int64_t{head_of(row)} * args.layout.head_dim + dim;
    return scaled_queries(make_float2(from[0], from[1]), args.scale * kLog2E);
  }

  __device__ void begin_tile() {
    const std::int32_t fragments = memory.dims / 16 * kTiles * 32;
    for (std::int32_t i = threadIdx.x; i < fragments; i += 32 * kSplitWarps) {
      const std::int32_t row = i / 32 % kTiles * 16 + i % 32 / 4;
      const std::int32_t dim = i / 32 / kTiles * 16 + i % 4 * 2;
      queries()[i] = make_uint4(query_word(row, dim), query_word(row + 8, dim),
                                query_word(row, dim + 8), query_word(row + 8, dim + 8));
    }
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const std::int32_t row = row_of(i / 2, i % 2);
      positions[i / 2][i % 2] = walk.rows.first_position + query_of(row);
      slopes[i / 2][i % 2] = task.args.alibi_slopes == nullptr
                                 ? 0.0F
                                 : __fmul_rn(task.args.alibi_slopes[head_of(row)], kLog2E);
    }
    paged_meet(kMeeting, 32 * kSplitWarps);
  }

  // Products of the queries with the warp's group of keys.
  __device__ void score(float (&scores)[kTiles][4][4]) {
#pragma unroll
    for (int i = 0; i < 16 * kTiles; ++i) scores[i / 16][i / 4 % 4][i % 4] = 0.0F;
    RingPlace place = ring;
    place.advance(warp / 2);
    place.wait_full();
    // Lane (g, t) reads key g of every 8, of pairs of dimensions from t on.
    const int t = lane % 4;
    const std::uint32_t* keys = buffer(place.index) + t * kBufferKeys;
    std::int32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = warp % 2 * kGroupKeys + 8 * i + lane / 4 ^ 8 * t;
    const uint4* a = queries() + lane;
#pragma unroll 2
    for (int step = 0; step < memory.dims / 16; ++step) {
      std::uint32_t b[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        b[i][0] = keys[words[i]];
        b[i][1] = keys[words[i] + 4 * kBufferKeys];
      }
      keys += 8 * kBufferKeys;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        if (has_tile(tile)) {
          const uint4 query = a[tile * 32];
#pragma unroll
          for (int i = 0; i < 4; ++i) paged_mma(scores[tile][i], query, b[i][0], b[i][1]);
        }
      }
      a += kTiles * 32;
    }
    __syncwarp();
    if (lane < kRangeBuffers) {
      place = ring;
      place.advance(lane);
      place.wait_full();  // else it could be released twice before another warp does
      paged_arrive(place.empty());
    }
    ring.advance(kRangeBuffers);
  }

  // Calls fn(score, row's tile, row's half, key) for all scores of the lane.
  template <typename F>
  __device__ void for_each_score(float (&scores)[kTiles][4][4], const F& fn) const {
    const std::int32_t first_key = walk.range * kRangeKeys + warp * kGroupKeys + lane % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        fn(scores[tile][i / 4][i % 4], tile, i % 4 / 2, first_key + i / 4 * 8 + i % 2);
      }
    }
  }

  __device__ void change(float (&scores)[kTiles][4][4]) const {
    const AttentionArgs& args = task.args;
    if (args.soft_cap > 0.0F) {
      const float cap = args.soft_cap * kLog2E;
      const float inverse = 1.0F / cap;
      for_each_score(scores, [&](float& score, int, int, std::int32_t) {
        score = capped(score, cap, inverse);
      });
    }
    if (args.alibi_slopes != nullptr) {
      for_each_score(scores, [&](float& score, int tile, int half, std::int32_t key) {
        score = with_distance(score, slopes[tile][half], key - positions[tile][half]);
      });
    }
    if (!walk.tile.sees_all_of(walk.range)) {
      for_each_score(scores, [&](float& score, int tile, int half, std::int32_t key) {
        const std::int32_t position = positions[tile][half];
        if (key > position || key < first_visible_key(args, position)) score = -INFINITY;
      });
    }
  }

  // Stores the weights of the warp's group; gives the largest score of each row in the range, and
  // the sum of its weights.
  __device__ void weigh(float (&scores)[kTiles][4][4], Results& part) const {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      float most = -INFINITY;
#pragma unroll
      for (int j = 0; j < 8; ++j) most = fmaxf(most, scores[i / 2][j / 2][i % 2 * 2 + j % 2]);
      most = largest_of_quad(most);
      if (lane % 4 == 0) maxima()[row_of(i / 2, i % 2) * kRangeGroups + warp] = most;
    }
    paged_meet(kMeeting, 32 * kSplitWarps);
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i / 2, i % 2);
      const auto* const of_row = reinterpret_cast<const float4*>(maxima() + row * kRangeGroups);
      const float4 a = of_row[0];
      const float4 b = of_row[1];
      const float most =
          fmaxf(fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)), fmaxf(fmaxf(b.x, b.y), fmaxf(b.z, b.w)));
      part.largest[i / 2][i % 2] = most;
      const float reference = reference_of(most);
      float total = 0.0F;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float& score = scores[i / 2][j / 2][i % 2 * 2 + j % 2];
        score = weight_of(score, reference);
        total = __fadd_rn(total, score);
      }
      totals()[(row * kRangeGroups + warp) * 4 + lane % 4] = total;
    }
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      float(&s)[4][4] = scores[i / 2];
      const int step = i % 2;
      weights()[((2 * warp + step) * kTiles + i / 2) * 32 + lane] = make_uint4(
          two_bf16(s[2 * step][0], s[2 * step][1]), two_bf16(s[2 * step][2], s[2 * step][3]),
          two_bf16(s[2 * step + 1][0], s[2 * step + 1][1]),
          two_bf16(s[2 * step + 1][2], s[2 * step + 1][3]));
    }
    paged_meet(kMeeting, 32 * kSplitWarps);
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const float* const of_row = totals() + row_of(i / 2, i % 2) * kRangeGroups * 4 + lane % 4;
      float total = of_row[0];
#pragma unroll
      for (int group = 1; group < kRangeGroups; ++group) {
        total = __fadd_rn(total, of_row[group * 4]);
      }
      part.totals[i / 2][i % 2] = sum_of_quad(total);
    }
  }

  // Pairs of values of kColumns dimensions.
  __device__ static void load_pairs(const std::uint32_t* from, std::uint32_t (&to)[kColumns]) {
    if constexpr (kColumns == 1) {
      to[0] = *from;
    } else if constexpr (kColumns == 2) {
      const uint2 pairs = *reinterpret_cast<const uint2*>(from);
      to[0] = pairs.x;
      to[1] = pairs.y;
    } else {
      const uint4 pairs = *reinterpret_cast<const uint4*>(from);
      to[0] = pairs.x;
      to[1] = pairs.y;
      to[2] = pairs.z;
      to[3] = pairs.w;
    }
  }

  // The bits of a pair's values that some row sees: memory behind a sequence's end may be NaN.
  __device__ std::uint32_t seen_bits(std::int32_t key) const {
    const auto seen = [&](std::int32_t k) {
      return k >= walk.tile.key_begin && k < walk.tile.key_end;
    };
    return (seen(key) ? 0xFFFFU : 0U) | (seen(key + 1) ? 0xFFFF0000U : 0U);
  }

  __device__ void add_values(Results& part) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4 * kColumns; ++i) part.sums[tile][i / 4][i % 4] = 0.0F;
    }
    const bool whole = walk.tile.sees_all_of(walk.range);
    const bool has_dims = warp * 8 * kColumns < memory.dims;
    const std::int32_t row_words = memory.row_words();
    const int t = lane % 4;
    const std::int32_t from = t * row_words + (warp * 8 * kColumns + lane / 4 * kColumns ^ 8 * t);
    const uint4* a = weights() + lane;
#pragma unroll 1
    for (int piece = 0; piece < kRangeBuffers; ++piece) {
      ring.wait_full();
      const std::uint32_t* const values = buffer(ring.index) + from;
#pragma unroll
      for (int step = 0; step < kBufferKeys / 16; ++step) {
        std::uint32_t b[2][kColumns];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (has_dims) load_pairs(values + (step * 8 + i * 4) * row_words, b[i]);
          if (!whole) {
            const std::uint32_t bits = seen_bits(walk.range * kRangeKeys + piece * kBufferKeys +
                                                 step * 16 + i * 8 + lane % 4 * 2);
#pragma unroll
            for (int c = 0; c < kColumns; ++c) b[i][c] &= bits;
          }
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          if (has_tile(tile)) {
            const uint4 weight = a[tile * 32];
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
              paged_mma(part.sums[tile][c], weight, b[0][c], b[1][c]);
            }
          }
        }
        a += kTiles * 32;
      }
      __syncwarp();
      if (lane == 0) paged_arrive(ring.empty());
      ring.advance();
    }
  }

  __device__ void store_slot(const Results& results, std::int32_t index) const {
    float* const slot = task.slot(static_cast<std::int32_t>(blockIdx.x), index);
    float* const maxima = slot + std::int64_t{task.plan.slot_rows} * memory.dims;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i / 2, i % 2);
      if (row >= walk.tile.num_rows) continue;
      if (first_dim() < memory.dims) {
        results.store(i / 2, i % 2, 1.0F, slot + row * memory.dims + first_dim());
      }
      if (warp == 0 && lane % 4 == 0) {
        maxima[row] = results.largest[i / 2][i % 2];
        maxima[task.plan.slot_rows + row] = results.totals[i / 2][i % 2];
      }
    }
  }

  __device__ void finish(const Results& results) const {
    const AttentionArgs& args = task.args;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i / 2, i % 2);
      if (row >= walk.tile.num_rows || first_dim() >= memory.dims) continue;
      const std::int32_t head = head_of(row);
      const float factor = final_factor(results.largest[i / 2][i % 2], results.totals[i / 2][i % 2],
                                        args.sinks, head);
      const std::int64_t to = std::int64_t{walk.rows.query_begin + query_of(row)} * args.num_heads;
      results.store(i / 2, i % 2, factor, args.out + (to + head) * memory.dims + first_dim());
    }
  }

  __device__ void run() {
    const SplitStart& start = task.plan.starts[blockIdx.x];
    walk = SplitWalk::of(task, start);
    bool begun = walk.begins_tile();  // whether this block has the tile's first range
    bool fresh = true;
    Results sum;
    sum.clear();
    while (true) {
      if (fresh) begin_tile();
      Results part;
      float scores[kTiles][4][4];
      score(scores);
      change(scores);
      weigh(scores, part);
      add_values(part);
      if (begun) {
        sum.join(part);
      } else {
        store_slot(part, 1 + walk.range - start.range);
      }
      fresh = walk.ends_tile();
      if (fresh && begun) finish(sum);
      if (walk.left == 1) break;
      if (fresh) {
        begun = true;
        sum.clear();
      }
      walk.advance(task);
    }
    if (begun && !fresh) store_slot(sum, 0);
  }
};

template <int kTiles, int kColumns>
__global__ void __launch_bounds__(kSplitThreads, 1)
    attend_split(const __grid_constant__ SplitTask task) {
  extern __shared__ __align__(128) std::byte shared[];
  let_next_start();
  const SplitMemory memory = {task.args.layout.head_dim, kTiles};
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const RingPlace ring = {.barriers = shared_address(shared),
                          .distance = kMostBuffers * 8,
                          .size = static_cast<std::uint32_t>(memory.num_buffers())};
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < ring.size; ++i) {
      barrier_init(ring.barriers + i * 8, 32 * kSplitCopiers);
      barrier_init(ring.barriers + ring.distance + i * 8, kSplitWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  wait_for_previous();
  if (task.plan.starts[blockIdx.x].units == 0) return;
  if (warp >= kSplitWarps) {
    SplitCopier copier = {
        task, memory, shared_address(shared) + memory.buffers(), ring, warp - kSplitWarps, lane};
    copier.run();
    return;
  }
  SplitWorker<kTiles, kColumns> worker = {task, memory, shared, ring, warp, lane};
  worker.run();
}

template <int kTiles, int kColumns>
void launch_split(const Launch& launch, const SplitTask& task) {
  const SplitMemory memory = {task.args.layout.head_dim, kTiles};
  const auto kernel = attend_split<kTiles, kColumns>;
  static_cast<void>(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, memory.bytes()));
  launch_dependent(kernel, dim3(static_cast<unsigned>(task.plan.blocks)), dim3(kSplitThreads),
                   static_cast<std::size_t>(memory.bytes()), launch.stream, task);
}

template <int kTiles>
void launch_tiles(const Launch& launch, const SplitTask& task) {
  const std::int32_t dims = task.args.layout.head_dim;
  if (dims <= 64) {
    launch_split<kTiles, 1>(launch, task);
  } else if (dims <= 128) {
    launch_split<kTiles, 2>(launch, task);
  } else {
    launch_split<kTiles, 4>(launch, task);
  }
}

}  // namespace

void split_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                     const SplitPlan& plan) {
  if (plan.blocks == 0) return;
  const SplitTask task = {.args = args,
                          .inputs = inputs,
                          .plan = plan,
                          .kv = KvPlaces::of(args),
                          .group = args.num_heads / args.layout.num_kv_heads,
                          .slots = reinterpret_cast<float*>(launch.workspace)};
  if (plan.tile_rows == 16) {
    launch_tiles<1>(launch, task);
  } else {
    launch_tiles<kMostSplitRows / 16>(launch, task);
  }
  if (!plan.joins || plan.blocks == 1) return;
  join_split_results(launch, task);
}

}  // namespace quire::cuda
