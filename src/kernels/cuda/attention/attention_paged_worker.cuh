// The warps of attention_paged_split.cuh that compute, and the kernel of one type of cache.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_split.cuh"
#include "kernels/cuda/dynamic_shared.h"

namespace quire::cuda {

// The computing warps of a block.
template <DType kDType, int kTiles, int kColumns>
struct SplitWorker {
  using Numbers = PagedNumbers<kDType>;
  using Results = SplitResults<kTiles, kColumns>;
  static constexpr int kMeeting = 1;  // a named barrier
  // Operands of queries that a thread loads for a tile.
  static constexpr int kOperands = kTiles * (kColumns == 4 ? 2 : 1);
  // Those of the next tile are on their way while the last range is computed: where tiles are
  // small, sequences may be short.
  static constexpr bool kAhead = kTiles == 1;
  struct Queries {
    float2 numbers[kOperands][4];
  };

  const SplitTask& task;
  const SplitMemory<kDType>& memory;
  std::byte* shared;
  RingPlace ring;
  int warp;
  int lane;
  // Of the present tile.
  SplitWalk walk;
  std::int32_t positions[kTiles][2];
  float slopes[kTiles][2];
  float4 value_scales[2];  // of the warp's keys, where there are scales

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
    return reinterpret_cast<uint4*>(shared + SplitMemory<kDType>::queries());
  }
  __device__ uint4* weights() const { return reinterpret_cast<uint4*>(shared + memory.weights()); }
  __device__ float* maxima() const { return reinterpret_cast<float*>(shared + memory.maxima()); }
  __device__ float* totals() const { return reinterpret_cast<float*>(shared + memory.totals()); }
  __device__ const std::byte* buffer(std::uint32_t index) const {
    return shared + memory.buffers() + index * memory.buffer_bytes();
  }

  // What the thread loads of a tile's queries: anything where it has no such row.
  __device__ void load_queries(const SplitWalk& of, Queries& to) const {
    const AttentionArgs& args = task.args;
    const std::int32_t head_dim = args.layout.head_dim;
#pragma unroll
    for (int i = 0; i < kOperands; ++i) {
      const std::int32_t at = static_cast<std::int32_t>(threadIdx.x) + i * 32 * kSplitWarps;
      const std::int32_t dim = at / 32 / kTiles * 16 + at % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int32_t row = at / 32 % kTiles * 16 + at % 32 / 4 + 8 * half;
        // Loads are not a matter of what there is, so that they are on their way together.
        const bool is_there = row < of.tile.num_rows && dim < head_dim;
        const std::int32_t tile_row = of.tile.first_row + (is_there ? row : 0);
        const float* const from =
            args.q + std::int64_t{of.rows.query_begin + tile_row / task.group} * args.q_stride +
            std::int64_t{of.kv_head * task.group + tile_row % task.group} * head_dim +
            (is_there ? dim : 0);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          to.numbers[i][half + 2 * j] = make_float2(from[8 * j], from[8 * j + 1]);
        }
      }
    }
  }

  // All have computed the scores of the tile before.
  __device__ void begin_tile(const Queries& loaded) {
    const float scale = task.args.scale * kLog2E;
#pragma unroll
    for (int i = 0; i < kOperands; ++i) {
      const std::int32_t at = static_cast<std::int32_t>(threadIdx.x) + i * 32 * kSplitWarps;
      if (at >= memory.dims / 16 * kTiles * 32) break;
      const std::int32_t row = at / 32 % kTiles * 16 + at % 32 / 4;
      const auto pair = [&](int j) {
        const std::uint32_t words = Numbers::query_pair(loaded.numbers[i][j], scale);
        return row + j % 2 * 8 < walk.tile.num_rows ? words : 0U;
      };
      queries()[at] = make_uint4(pair(0), pair(1), pair(2), pair(3));
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

  // Of score `column` of an eight of keys, among those of codes.
  __device__ static float scale_of(const float4 (&scales)[2], int eight, int column) {
    const float4& four = scales[eight / 2];
    return column == 0 ? (eight % 2 == 0 ? four.x : four.y) : (eight % 2 == 0 ? four.z : four.w);
  }

  // Products of the queries with the warp's group of keys.
  __device__ void score(float (&scores)[kTiles][4][4]) {
#pragma unroll
    for (int i = 0; i < 16 * kTiles; ++i) scores[i / 16][i / 4 % 4][i % 4] = 0.0F;
    RingPlace place = ring;
    place.advance(warp / 2);
    place.wait_full();
    const std::byte* const keys = buffer(place.index);
    typename Numbers::Keys reader(keys, memory.dims, warp % 2, lane);
    const uint4* a = queries() + lane;
#pragma unroll 4
    for (int step = 0; step < memory.dims / 16; ++step) {
      std::uint32_t b[4][2];
      reader.next(b);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        if (has_tile(tile)) {
          const uint4 query = a[tile * 32];
#pragma unroll
          for (int i = 0; i < 4; ++i) Numbers::multiply(scores[tile][i], query, b[i][0], b[i][1]);
        }
      }
      a += kTiles * 32;
    }
    if constexpr (Numbers::kHasScales) {
      float4 of_keys[2];
      Numbers::load_scales(keys, memory.dims, warp % 2, lane, of_keys, value_scales);
#pragma unroll
      for (int i = 0; i < 16 * kTiles; ++i) {
        float& score = scores[i / 16][i / 4 % 4][i % 4];
        score = __fmul_rn(score, scale_of(of_keys, i / 4 % 4, i % 2));
      }
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
    const std::int32_t first_key = walk.range * kRangeKeys + warp * kGroupKeys;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        fn(scores[tile][i / 4][i % 4], tile, i % 4 / 2,
           first_key + Numbers::key_of(i / 4, i % 2, lane));
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
      std::int32_t first[kTiles][2];
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        first[i / 2][i % 2] = first_visible_key(args, positions[i / 2][i % 2]);
      }
      for_each_score(scores, [&](float& score, int tile, int half, std::int32_t key) {
        if (key > positions[tile][half] || key < first[tile][half]) score = -INFINITY;
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
    if constexpr (Numbers::kHasScales) {
      // A key that a row does not see has no weight, whatever its scale is.
#pragma unroll
      for (int i = 0; i < 16 * kTiles; ++i) {
        float& weight = scores[i / 16][i / 4 % 4][i % 4];
        const float scale = scale_of(value_scales, i / 4 % 4, i % 2);
        weight = weight == 0.0F ? 0.0F : __fmul_rn(weight, scale);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const float(&s)[4][4] = scores[i / 2];
      const int step = i % 2;
      weights()[((2 * warp + step) * kTiles + i / 2) * 32 + lane] =
          Numbers::operand(s[2 * step], s[2 * step + 1]);
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

  __device__ void add_values(Results& part) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4 * kColumns; ++i) part.sums[tile][i / 4][i % 4] = 0.0F;
    }
    const bool whole = walk.tile.sees_all_of(walk.range);
    const bool has_dims = warp * 8 * kColumns < memory.dims;
    const int first = warp * 8 * kColumns + lane / 4 * kColumns;
    const uint4* a = weights() + lane;
#pragma unroll 1
    for (int piece = 0; piece < kRangeBuffers; ++piece) {
      ring.wait_full();
      if (has_dims) {
        const std::int32_t before = walk.range * kRangeKeys + piece * kBufferKeys;
        typename Numbers::template Values<kColumns> reader(buffer(ring.index), memory.dims, first,
                                                           lane);
#pragma unroll
        for (int step = 0; step < kBufferKeys / 16; ++step) {
          std::uint32_t b[2][kColumns];
          reader.next(b);
          if (Numbers::kHasNan && !whole) {
            reader.hide(lane,
                        make_int2(walk.tile.key_begin - before - step * 16,
                                  walk.tile.key_end - before - step * 16),
                        b);
          }
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            if (has_tile(tile)) {
              const uint4 weight = a[(step * kTiles + tile) * 32];
#pragma unroll
              for (int c = 0; c < kColumns; ++c) {
                Numbers::multiply(part.sums[tile][c], weight, b[0][c], b[1][c]);
              }
            }
          }
        }
      }
      a += kBufferKeys / 16 * kTiles * 32;
      __syncwarp();
      if (lane == 0) paged_arrive(ring.empty());
      ring.advance();
    }
  }

  __device__ void store_slot(const Results& results, std::int32_t index) const {
    float* const slot = task.slot(static_cast<std::int32_t>(blockIdx.x), index);
    float* const maxima = slot + std::int64_t{task.form.slot_rows} * memory.dims;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i / 2, i % 2);
      if (row >= walk.tile.num_rows) continue;
      if (first_dim() < memory.dims) {
        results.store(i / 2, i % 2, 1.0F, slot + row * memory.dims + first_dim());
      }
      if (warp == 0 && lane % 4 == 0) {
        maxima[row] = results.largest[i / 2][i % 2];
        maxima[task.form.slot_rows + row] = results.totals[i / 2][i % 2];
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
    const SplitStart& start = task.plan->starts[blockIdx.x];
    walk = SplitWalk::of(task, start);
    bool begun = walk.begins_tile();  // whether this block has the tile's first range
    wait_for_previous();
    Queries loaded;
    load_queries(walk, loaded);
    begin_tile(loaded);
    Results sum;
    sum.clear();
    while (true) {
      Results part;
      float scores[kTiles][4][4];
      score(scores);
      change(scores);
      const bool ends = walk.ends_tile();
      const bool more = walk.left > 1;
      SplitWalk next = walk;
      if (kAhead && more) {
        next.advance(task);
        if (ends) load_queries(next, loaded);
      }
      weigh(scores, part);
      add_values(part);
      if (begun) {
        sum.join(part);
      } else {
        store_slot(part, 1 + walk.range - start.range);
      }
      if (ends && begun) finish(sum);
      if (!more) {
        if (begun && !ends) store_slot(sum, 0);
        return;
      }
      if constexpr (kAhead) {
        walk = next;
      } else {
        walk.advance(task);
      }
      if (ends) {
        if (!kAhead) load_queries(walk, loaded);
        begun = true;
        sum.clear();
        begin_tile(loaded);
      }
    }
  }
};

template <DType kDType, int kTiles, int kColumns>
__global__ void __launch_bounds__(kSplitThreads, SplitMemory<kDType>::blocks_each(kTiles, kColumns))
    attend_split(const __grid_constant__ SplitTask task) {
  extern __shared__ __align__(128) std::byte shared[];
  let_next_start();
  const SplitMemory<kDType> memory = {task.args.layout.head_dim, kTiles,
                                      SplitMemory<kDType>::blocks_each(kTiles, kColumns)};
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
  if (task.plan->starts[blockIdx.x].units == 0) return wait_for_previous();
  // Of many rows, warps that compute have registers of those that copy.
  constexpr bool kShifts = kTiles > 1;
  if (warp >= kSplitWarps) {
    if constexpr (kShifts) asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    SplitCopier<kDType> copier = {
        task, memory, shared_address(shared) + memory.buffers(), ring, warp - kSplitWarps, lane};
    copier.run();
    return;
  }
  if constexpr (kShifts) asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
  SplitWorker<kDType, kTiles, kColumns> worker = {task, memory, shared, ring, warp, lane};
  worker.run();
}

template <DType kDType, int kTiles, int kColumns>
void launch_split(const Launch& launch, const SplitTask& task) {
  const SplitMemory<kDType> memory = {task.args.layout.head_dim, kTiles,
                                      SplitMemory<kDType>::blocks_each(kTiles, kColumns)};
  launch_with_shared(attend_split<kDType, kTiles, kColumns>,
                     dim3(static_cast<unsigned>(task.form.grid)), dim3(kSplitThreads),
                     memory.bytes(), launch.stream, task);
}

template <DType kDType, int kTiles>
void launch_tiles(const Launch& launch, const SplitTask& task) {
  const std::int32_t dims = task.args.layout.head_dim;
  if (dims <= 64) {
    launch_split<kDType, kTiles, 1>(launch, task);
  } else if (dims <= 128) {
    launch_split<kDType, kTiles, 2>(launch, task);
  } else {
    launch_split<kDType, kTiles, 4>(launch, task);
  }
}

template <DType kDType>
void launch_type(const Launch& launch, const SplitTask& task) {
  if (task.form.tile_rows == 16) {
    launch_tiles<kDType, 1>(launch, task);
  } else {
    launch_tiles<kDType, kMostSplitRows / 16>(launch, task);
  }
}

}  // namespace quire::cuda
