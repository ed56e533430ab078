// The warps of attention over latents that sum values (attention_latent.cuh), 64 numbers each: of
// 16 numbers, lane (g, t) = (lane / 4, lane % 4) has 4t to 4t + 3, of rows g and g + 8 of each 16.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_latent.cuh"

namespace quire::cuda {

template <int kTiles>
struct LatentSummer {
  static constexpr int kColumns = kLatentValueDims / kValueWarps / 16;
  // [column][1]: of the second and the fourth of a lane's numbers, which are operands of their own.
  using Sums = float[kTiles][kColumns][2][4];

  const SplitTask& task;
  LatentShared<kTiles>& shared;
  RingPlace keys;
  RingPlace weights;
  int warp;
  int lane;
  SplitWalk walk;

  __device__ int row_of(int tile, int half) const { return 16 * tile + 8 * half + lane / 4; }
  __device__ bool has_tile(int tile) const { return kTiles == 1 || 16 * tile < walk.tile.num_rows; }

  // Calls fn(sum, row's tile, row's half, sum of `others` at the same place).
  template <typename F>
  __device__ static void for_each(Sums& sums, Sums& others, const F& fn) {
#pragma unroll
    for (int i = 0; i < kTiles * kColumns * 8; ++i) {
      const int tile = i / (kColumns * 8);
      fn(sums[tile][i / 8 % kColumns][i / 4 % 2][i % 4], tile, i % 4 / 2,
         others[tile][i / 8 % kColumns][i / 4 % 2][i % 4]);
    }
  }

  // Sums of the range so far are made relative to another score.
  __device__ void scale(Sums& part) const {
    float factors[kTiles][2];
    bool changes = false;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      factors[i / 2][i % 2] = shared.factors[weights.index][row_of(i / 2, i % 2)];
      changes = changes || factors[i / 2][i % 2] != 1.0F;
    }
    if (!__any_sync(~0U, changes)) return;
    for_each(part, part, [&](float& sum, int tile, int half, float) {
      sum = __fmul_rn(sum, factors[tile][half]);
    });
  }

  // The weights of `buffer` of the tile times its values.
  __device__ void add_buffer(int buffer, Sums& part) {
    keys.wait_full();
    // A row of the buffer has a pair of numbers of 16 keys; lane (g, t) reads those of four keys.
    const int first_pair = (kLatentKeyDims - kLatentValueDims) / 2 + warp * 8 * kColumns + lane / 4;
    const auto* const values = reinterpret_cast<const uint4*>(shared.keys[keys.index]) +
                               first_pair * (kBufferKeys16 / 4) + lane % 4;
    uint4 weight[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      weight[tile] = shared.weights[weights.index][buffer][tile][lane];
    }
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const uint4 pairs = values[column * 8 * (kBufferKeys16 / 4)];
      const std::uint32_t low[2] = {__byte_perm(pairs.x, pairs.y, 0x5410),
                                    __byte_perm(pairs.z, pairs.w, 0x5410)};
      const std::uint32_t high[2] = {__byte_perm(pairs.x, pairs.y, 0x7632),
                                     __byte_perm(pairs.z, pairs.w, 0x7632)};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        if (has_tile(tile)) {
          paged_mma(part[tile][column][0], weight[tile], low[0], low[1]);
          paged_mma(part[tile][column][1], weight[tile], high[0], high[1]);
        }
      }
    }
    __syncwarp();
    if (lane == 0) paged_arrive(keys.empty());
    keys.advance();
  }

  __device__ static float4 numbers_of(const float (&sums)[2][4], int half) {
    return make_float4(sums[0][2 * half], sums[1][2 * half], sums[0][2 * half + 1],
                       sums[1][2 * half + 1]);
  }
  // Calls fn(row, the first of four numbers, these) for what the lane has of rows that exist.
  template <typename F>
  __device__ void for_each_four(const Sums& sums, const F& fn) const {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i / 2, i % 2);
      if (row >= walk.tile.num_rows) continue;
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        fn(row, 16 * (warp * kColumns + column) + lane % 4 * 4,
           numbers_of(sums[i / 2][column], i % 2));
      }
    }
  }
  __device__ void store_slot(const Sums& sums, std::int32_t index) const {
    float* const slot = task.slot(static_cast<std::int32_t>(blockIdx.x), index);
    for_each_four(sums, [&](int row, int dim, const float4& numbers) {
      *reinterpret_cast<float4*>(slot + row * kLatentValueDims + dim) = numbers;
    });
  }
  __device__ void finish(const Sums& sums) const {
    for_each_four(sums, [&](int row, int dim, const float4& numbers) {
      const std::int32_t tile_row = walk.tile.first_row + row;
      const std::int64_t query = walk.rows.query_begin + tile_row / task.group;
      const float factor = shared.finals[weights.index][row];
      float* const to = task.args.out +
                        (query * task.args.num_heads + tile_row % task.group) * kLatentValueDims +
                        dim;
      *reinterpret_cast<float4*>(to) =
          make_float4(__fmul_rn(numbers.x, factor), __fmul_rn(numbers.y, factor),
                      __fmul_rn(numbers.z, factor), __fmul_rn(numbers.w, factor));
    });
  }

  // What the range makes of the ranges so far.
  __device__ void join(Sums& sums, Sums& part) const {
    PagedJoin both[kTiles][2];
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      both[i / 2][i % 2] = shared.joins[weights.index][row_of(i / 2, i % 2)];
    }
    for_each(sums, part, [&](float& sum, int tile, int half, float of_range) {
      sum = both[tile][half](sum, of_range);
    });
  }

  __device__ void release_weights() {
    __syncwarp();
    if (lane == 0) paged_arrive(weights.empty());
    weights.advance();
  }

  __device__ void run() {
    const SplitStart& start = task.plan->starts[blockIdx.x];
    walk = SplitWalk::of(task, start);
    bool begun = walk.begins_tile();
    bool fresh = true;
    wait_for_previous();
    Sums sums;
    while (true) {
      if (fresh) {
        for_each(sums, sums, [](float& sum, int, int, float) { sum = 0.0F; });
      }
      fresh = walk.ends_tile();
      Sums part;
      for_each(part, part, [](float& sum, int, int, float) { sum = 0.0F; });
      const std::int32_t range_keys = keys_of_range(walk);
      for (int tile = 0; tile * kLatentTileKeys < range_keys; ++tile) {
        weights.wait_full();
        if (tile > 0) scale(part);
        const std::int32_t buffers = buffers_of_tile(range_keys, tile);
        for (int buffer = 0; buffer < buffers; ++buffer) add_buffer(buffer, part);
        if ((tile + 1) * kLatentTileKeys < range_keys) {
          release_weights();
        } else if (begun) {
          join(sums, part);
          if (fresh) finish(sums);
          release_weights();
        } else {
          release_weights();
          store_slot(part, 1 + walk.range - start.range);
        }
      }
      if (walk.left == 1) break;
      if (fresh) begun = true;
      walk.advance(task);
    }
    if (begun && !fresh) store_slot(sums, 0);
  }
};

}  // namespace quire::cuda
