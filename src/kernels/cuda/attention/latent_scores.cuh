// The warps of attention over latents that make weights (attention_latent.cuh). A warp has 16 keys
// of each tile; lane (g, t) = (lane / 4, lane % 4) has keys 4t to 4t + 3 of them, of rows g and
// g + 8 of each 16.
//
// Within a range weights are relative to the largest score of its tiles so far, and sums are
// brought there tile by tile (Milakov and Gimelshein 2018). A lane adds its own weights, before
// they are rounded, in the order of the keys, then the lanes of a warp are added, then the warps.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/cuda/attention/attention_latent.cuh"

namespace quire::cuda {

template <int kTiles>
struct LatentScorer {
  using Scores = float[kTiles][2][4];  // [1]: of keys 4t + 2 and 4t + 3
  static constexpr int kScoring = 1;   // a named barrier

  const SplitTask& task;
  LatentShared<kTiles>& shared;
  RingPlace keys;
  RingPlace weights;
  int warp;
  int lane;
  SplitWalk walk;
  std::uint32_t tiles;  // so far
  float largest[kTiles][2];
  float totals[kTiles][2];
  // Of the ranges so far, of the row that is the lane; of the first warp alone.
  float joined_largest;
  float joined_total;

  __device__ static void meet() { paged_meet(kScoring, 32 * kScoreWarps); }
  __device__ int row_of(int tile, int half) const { return 16 * tile + 8 * half + lane / 4; }
  __device__ std::int32_t head_of(std::int32_t row) const {
    return (walk.tile.first_row + row) % task.group;
  }
  __device__ std::int32_t query_of(std::int32_t row) const {
    return (walk.tile.first_row + row) / task.group;
  }

  // Where a row's numbers begin; a row that there is not is read as the first.
  __device__ const float* query_at(std::int32_t row) const {
    const std::int32_t known = row < walk.tile.num_rows ? row : 0;
    return task.args.q +
           std::int64_t{walk.rows.query_begin + query_of(known)} * task.args.q_stride +
           std::int64_t{head_of(known)} * kLatentKeyDims + lane % 4 * 2;
  }

  // All have done with the queries before: they have met since.
  __device__ void load_queries() const {
    const int tile = warp % kTiles;
    const int row = 16 * tile + lane / 4;
    const float* const from[2] = {query_at(row), query_at(row + 8)};
    const float scale = task.args.scale * kLog2E;
    // Loads are not a matter of which rows there are, so that they are on their way together.
    const float scales[2] = {row < walk.tile.num_rows ? scale : 0.0F,
                             row + 8 < walk.tile.num_rows ? scale : 0.0F};
    constexpr int kAtOnce = 3;
    for (int i = 0; i < kLatentSteps * kTiles / kScoreWarps; i += kAtOnce) {
      float2 numbers[kAtOnce][4];
#pragma unroll
      for (int j = 0; j < kAtOnce * 4; ++j) {
        const int step = (warp + (i + j / 4) * kScoreWarps) / kTiles;
        const float* const at = from[j % 2] + 16 * step + j / 2 % 2 * 8;
        numbers[j / 4][j % 4] = make_float2(at[0], at[1]);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const float2(&n)[4] = numbers[j];
        const auto pair = [&](int k) {
          const std::uint32_t words = scaled_queries(n[k], scales[k % 2]);
          return scales[k % 2] == 0.0F ? 0U : words;
        };
        shared.queries[(warp + (i + j) * kScoreWarps) / kTiles][tile][lane] =
            make_uint4(pair(0), pair(1), pair(2), pair(3));
      }
    }
    meet();
  }

  // Of the warp's 16 keys. Numbers of keys that are not finite become zeros in shared memory, so
  // that rows that do not see them stay as they are, and scores of such keys NaN.
  __device__ void score(Scores& scores) {
    RingPlace place = keys;
    place.advance(warp);
    place.wait_full();
    const int t = lane % 4;
    const int flip = t / 2 * 2;
    // Column g of eight is key 4 (g / 2) + g % 2, or two on. Lanes that use the same banks load the
    // two the other way round.
    const int first = lane / 8 * 4 + lane / 4 % 2;
    auto* const buffer = reinterpret_cast<std::uint32_t*>(shared.keys[place.index]);
    const std::uint32_t* x = buffer + t * kBufferKeys16 + (first ^ flip);
    const std::uint32_t* y = buffer + t * kBufferKeys16 + (first ^ flip ^ 2);
    const __nv_bfloat162 zero = __float2bfloat162_rn(0.0F);
    __nv_bfloat162 spoiled[2] = {zero, zero};
    const auto check = [&](std::uint32_t pair, __nv_bfloat162& into) {
      into = __hfma2(*reinterpret_cast<const __nv_bfloat162*>(&pair), zero, into);
    };
    // Operands are loaded three steps ahead of their products, which a barrier of the warp keeps a
    // compiler from putting off. Behind those of the last step lies other shared memory, which is
    // not used.
    constexpr int kSets = 4;
    static_assert(kLatentSteps % kSets == 0);
    struct Operands {
      std::uint32_t x[2];
      std::uint32_t y[2];
      uint4 queries[kTiles];
    } sets[kSets];
    const uint4* queries = &shared.queries[0][0][lane];
    const auto load = [&](int step, Operands& to) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        to.x[i] = x[(2 * step + i) * 4 * kBufferKeys16];
        to.y[i] = y[(2 * step + i) * 4 * kBufferKeys16];
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        to.queries[tile] = queries[(step * kTiles + tile) * 32];
      }
    };
#pragma unroll
    for (int i = 0; i < kSets - 1; ++i) load(i, sets[i]);
#pragma unroll 1
    for (int step = 0; step < kLatentSteps; step += kSets) {
#pragma unroll
      for (int i = 0; i < kSets; ++i) {
        load(i + kSets - 1, sets[(i + kSets - 1) % kSets]);
        __syncwarp();
        const Operands& now = sets[i];
        std::uint32_t low[2];
        std::uint32_t high[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          low[j] = flip == 0 ? now.x[j] : now.y[j];
          high[j] = flip == 0 ? now.y[j] : now.x[j];
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          paged_mma(scores[tile][0], now.queries[tile], low[0], low[1]);
          paged_mma(scores[tile][1], now.queries[tile], high[0], high[1]);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          check(now.x[j], spoiled[0]);
          check(now.y[j], spoiled[1]);
        }
      }
      x += kSets * 8 * kBufferKeys16;
      y += kSets * 8 * kBufferKeys16;
      queries += kSets * kTiles * 32;
    }
    const auto is_spoiled = [](const __nv_bfloat162& found) {
      return (*reinterpret_cast<const std::uint32_t*>(&found) & 0x7FFF7FFFU) != 0;
    };
    const bool one = is_spoiled(spoiled[0]);
    const bool other = is_spoiled(spoiled[1]);
    if (__any_sync(~0U, one || other)) {
      clear_spoiled(buffer + first, flip == 0 ? one : other, flip == 0 ? other : one, scores);
    }
  }

  // `low`, `high`: whether the lane has found that `keys`, or the key two on, is not finite.
  __device__ void clear_spoiled(std::uint32_t* key, bool low, bool high, Scores& scores) const {
    const unsigned quad = 0xFU << (lane / 4 * 4);
    const unsigned which[2] = {__ballot_sync(~0U, low), __ballot_sync(~0U, high)};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if ((which[i] & quad) != 0) {
        for (int pair = lane % 4; pair < kLatentKeyDims / 2; pair += 4) {
          key[pair * kBufferKeys16 + 2 * i] = 0;
        }
      }
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        if ((which[i] >> (lane % 4 * 2 + column) * 4 & 0xFU) == 0) continue;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          scores[tile][i][column] = scores[tile][i][column + 2] = NAN;
        }
      }
    }
    fence_shared_writes();
  }

  // Of keys that a row does not see.
  __device__ void hide(std::int32_t first_key, Scores& scores) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const std::int32_t position = walk.rows.first_position + query_of(row_of(tile, i % 4 / 2));
        const std::int32_t key = first_key + lane % 4 * 4 + i / 4 * 2 + i % 2;
        if (key > position) scores[tile][i / 4][i % 4] = -INFINITY;
      }
    }
  }

  // Weights of the tile, and what they make of the range's sums. `has_keys`: the warp has some.
  __device__ void weigh(Scores& scores, bool has_keys) {
    auto& maxima = shared.maxima[tiles % 2];
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const float(&s)[2][4] = scores[i / 2];
      const int c = i % 2 * 2;
      const float most =
          largest_of_quad(fmaxf(fmaxf(s[0][c], s[0][c + 1]), fmaxf(s[1][c], s[1][c + 1])));
      if (lane % 4 == 0) maxima[row_of(i / 2, i % 2)][warp] = most;
    }
    meet();
    weights.wait_empty();
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i / 2, i % 2);
      const float4 each = *reinterpret_cast<const float4*>(maxima[row]);
      float& before = largest[i / 2][i % 2];
      const float most = fmaxf(before, fmaxf(fmaxf(each.x, each.y), fmaxf(each.z, each.w)));
      const float reference = reference_of(most);
      const float factor = weight_of(before, reference);
      before = most;
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& s = scores[i / 2][j / 2][i % 2 * 2 + j % 2];
        s = weight_of(s, reference);
        sum = __fadd_rn(sum, s);
      }
      totals[i / 2][i % 2] = __fmaf_rn(totals[i / 2][i % 2], factor, sum);
      if (warp == 0 && lane % 4 == 0) shared.factors[weights.index][row] = factor;
    }
    if (!has_keys) return;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float(&s)[2][4] = scores[tile];
      shared.weights[weights.index][warp][tile][lane] =
          make_uint4(two_bf16(s[0][0], s[0][1]), two_bf16(s[0][2], s[0][3]),
                     two_bf16(s[1][0], s[1][1]), two_bf16(s[1][2], s[1][3]));
    }
  }

  // What the range makes of the ranges so far. `slot`: of the range's result, or null where it
  // joins those before; `last_slot`: of the result of the ranges so far, or null.
  __device__ void end_range(float* slot, float* last_slot) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i / 2, i % 2);
      const float total = sum_of_quad(totals[i / 2][i % 2]);
      if (lane % 4 == 0) shared.totals[row][warp] = total;
      if (lane % 4 == 0 && warp == 0) shared.largest[row] = largest[i / 2][i % 2];
    }
    meet();
    if (warp != 0 || lane >= walk.tile.num_rows) return;
    const float part_largest = shared.largest[lane];
    const float4 each = *reinterpret_cast<const float4*>(shared.totals[lane]);
    const float part_total = __fadd_rn(__fadd_rn(each.x, each.y), __fadd_rn(each.z, each.w));
    const auto store = [&](float* to, float most, float total) {
      float* const maxima = to + std::int64_t{task.form.slot_rows} * kLatentValueDims + lane;
      maxima[0] = most;
      maxima[task.form.slot_rows] = total;
    };
    if (slot != nullptr) return store(slot, part_largest, part_total);
    const PagedJoin both = PagedJoin::of(joined_largest, part_largest);
    joined_total = both(joined_total, part_total);
    shared.joins[weights.index][lane] = both;
    shared.finals[weights.index][lane] =
        final_factor(joined_largest, joined_total, nullptr, head_of(lane));
    if (last_slot != nullptr) store(last_slot, joined_largest, joined_total);
  }

  __device__ void run() {
    const SplitStart& start = task.plan->starts[blockIdx.x];
    const auto block = static_cast<std::int32_t>(blockIdx.x);
    walk = SplitWalk::of(task, start);
    bool begun = walk.begins_tile();
    bool fresh = true;
    tiles = 0;
    wait_for_previous();
    while (true) {
      if (fresh) {
        load_queries();
        joined_largest = -INFINITY;
        joined_total = 0.0F;
      }
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        largest[i / 2][i % 2] = -INFINITY;
        totals[i / 2][i % 2] = 0.0F;
      }
      const std::int32_t range_keys = keys_of_range(walk);
      const bool whole = walk.tile.sees_all_of(walk.range);
      fresh = walk.ends_tile();
      for (int tile = 0; tile * kLatentTileKeys < range_keys; ++tile) {
        const std::int32_t buffers = buffers_of_tile(range_keys, tile);
        const std::int32_t first_key =
            walk.range * kRangeKeys + tile * kLatentTileKeys + warp * kBufferKeys16;
        Scores scores;
#pragma unroll
        for (int i = 0; i < 8 * kTiles; ++i) {
          scores[i / 8][i / 4 % 2][i % 4] = warp < buffers ? 0.0F : -INFINITY;
        }
        if (warp < buffers) score(scores);
        if (!whole) hide(first_key, scores);
        weigh(scores, warp < buffers);
        if ((tile + 1) * kLatentTileKeys >= range_keys) {
          end_range(begun ? nullptr : task.slot(block, 1 + walk.range - start.range),
                    begun && !fresh && walk.left == 1 ? task.slot(block, 0) : nullptr);
        }
        __syncwarp();
        if (lane == 0) paged_arrive(weights.full());
        weights.advance();
        keys.advance(static_cast<std::uint32_t>(buffers));
        ++tiles;
      }
      if (walk.left == 1) return;
      if (fresh) begun = true;
      walk.advance(task);
    }
  }
};

}  // namespace quire::cuda
