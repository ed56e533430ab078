// The warps of attention over latents that multiply (attention_latent.h): of each tile of keys one
// of the two warpgroups, by turns, computes scores and weights, and both sum values, 256 of their
// 512 numbers each.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/cuda/attention/attention_latent.cuh"
#include "kernels/cuda/attention/latent_products.cuh"

namespace quire::cuda {

// Where a row's output goes.
struct LatentOutput {
  float* to = nullptr;  // null: there is no such row
  float inverse = 0.0F;

  __device__ static LatentOutput of(const AttentionArgs& args, const AttentionUnit& unit, int row,
                                    const SoftmaxSum& sum) {
    if (row >= unit.rows()) return {};
    return {args.out + (unit.query(row) * args.num_heads + unit.head(row)) * kLatentValueDims,
            __frcp_rn(sum.total)};
  }
  __device__ void store(int column, float x, float y) const {
    if (to == nullptr) return;
    *reinterpret_cast<float2*>(to + column) = {__fmul_rn(x, inverse), __fmul_rn(y, inverse)};
  }
};

// 2^x, 0 where that would be subnormal.
__device__ inline float latent_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

class LatentMultiplier {
 public:
  __device__ LatentMultiplier(const AttentionArgs& args, const AttentionInputs& inputs,
                              const LatentWork& work, LatentShared& shared, int thread)
      : args_(args),
        inputs_(inputs),
        work_(work),
        shared_(shared),
        thread_(thread),
        lane_(thread % 32),
        group_(thread / 128),
        warp_(thread % 128 / 32),
        row_(16 * warp_ + lane_ / 4) {}

  __device__ void run() {
    std::int32_t turn = 0;
    LatentPiece piece;
    while (next_piece(args_, inputs_, work_, turn, piece)) {
      load_queries(piece.unit);
      std::int32_t tile = piece.first_tile();
      for (std::int32_t range = piece.first_range; range < piece.end_range; ++range) {
        const std::int32_t first = tile;
        const std::int32_t end = min((range + 1) * (kRangeKeys / kLatentTile), piece.end_tile());
        for (; tile < end; ++tile)
          add_tile(piece.unit, tile, tile == first, tile + 1 < piece.end_tile());
        end_range(piece, range);
      }
    }
  }

 private:
  // Named barriers of the two warpgroups.
  static constexpr int kWeightsReady = 1;
  static constexpr int kWeightsFree = 2;
  static constexpr int kBoth = 3;
  static constexpr int kFirstOfGroup = 4;  // and one more, of each warpgroup

  __device__ static void synchronize(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kMultiplyThreads) : "memory");
  }
  __device__ static void announce(int barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kMultiplyThreads) : "memory");
  }

  // Rows that are none are zeros.
  __device__ void load_queries(const AttentionUnit& unit) {
    synchronize(kBoth);  // nobody multiplies the last unit's any more
    constexpr int kChunks = kLatentKeyDims / 8;
    for (int i = thread_; i < kLatentRows * kChunks; i += kMultiplyThreads) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      __nv_bfloat162 numbers[4] = {};
      if (row < unit.rows()) {
        const float* const from = args_.q + unit.query(row) * args_.q_stride +
                                  std::int64_t{unit.head(row)} * kLatentKeyDims + 8 * chunk;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          numbers[k] = __floats2bfloat162_rn(from[2 * k], from[2 * k + 1]);
        }
      }
      *reinterpret_cast<uint4*>(shared_.queries + chunk / 8 * kPanelBytes + row * 128 +
                                ((chunk % 8 ^ (row & 7)) << 4)) =
          *reinterpret_cast<const uint4*>(numbers);
    }
    if (thread_ < kLatentRows) shared_.sums[thread_] = {};
    fence_products();
    synchronize(kBoth);
  }

  // `more`: there is another tile of the same queries.
  __device__ void add_tile(const AttentionUnit& unit, std::int32_t tile, bool is_first, bool more) {
    const int stage = static_cast<int>(tiles_ % kTileStages);
    const bool scores_here = tiles_ % 2 == static_cast<std::uint32_t>(group_);
    const std::uint32_t parity = tiles_ / kTileStages % 2;
    ++tiles_;
    if (!scores_here) {
      announce(kWeightsFree);
      // The next tile's scores are computed here, if its keys are there already while the other
      // warpgroup makes weights.
      const int next = static_cast<int>(tiles_ % kTileStages);
      if (more && is_ready(next, tiles_ / kTileStages % 2)) start_scores(next);
    }
    barrier_wait(shared_address(&shared_.full[stage]), parity);
    if (is_first) totals_[0] = totals_[1] = 0.0F;
    if (scores_here) {
      weigh_tile(unit, tile, stage, is_first);
    } else {
      synchronize(kWeightsReady);
      if (!is_first) {
        totals_[0] *= shared_.factors[row_];
        totals_[1] *= shared_.factors[row_ + 8];
      }
    }
    if (!is_first) scale_sums(shared_.factors[row_], shared_.factors[row_ + 8]);
    const std::uint32_t weights = shared_address(shared_.weights);
    const std::uint32_t values = shared_address(shared_.keys[stage]) +
                                 static_cast<std::uint32_t>((1 + 4 * group_) * kPanelBytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kLatentTile / 16; ++i) {
      multiply_values(sums_, swizzled_operand(weights + i * 32),
                      value_operand(values + i * 16 * 128, kPanelBytes), !is_first || i > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    keep_sums(sums_);
    keep_sums(scores_);
    if (lane_ == 0) arrive(shared_.empty[stage]);
  }

  // Whether a stage's keys are there, the same to all threads of the warpgroup.
  __device__ bool is_ready(int stage, std::uint32_t parity) const {
    int ready = 0;
    asm volatile(
        "{.reg .pred here, all; "
        "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 here, [%1], %2; "
        "bar.red.and.pred all, %3, 128, here; "
        "selp.s32 %0, 1, 0, all;}"
        : "=r"(ready)
        : "r"(shared_address(&shared_.full[stage])), "r"(parity), "r"(kFirstOfGroup + group_)
        : "memory");
    return ready != 0;
  }

  __device__ void start_scores(int stage) {
    const std::uint32_t queries = shared_address(shared_.queries);
    const std::uint32_t keys = shared_address(shared_.keys[stage]);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kLatentKeyDims / 16; ++i) {
      const std::uint32_t at = i / 4 * kPanelBytes + i % 4 * 32;
      multiply_keys(scores_, swizzled_operand(queries + at), swizzled_operand(keys + at), i > 0);
    }
    wgmma_commit();
    has_scores_ = true;
  }

  __device__ void scale_sums(float low, float high) {
    if (!__any_sync(0xFFFFFFFFU, low != 1.0F || high != 1.0F)) return;
#pragma unroll
    for (int i = 0; i < 128; i += 4) {
      sums_[i] *= low;
      sums_[i + 1] *= low;
      sums_[i + 2] *= high;
      sums_[i + 3] *= high;
    }
  }

  // Scores of a tile's keys, and what they make of the weights: this warpgroup alone.
  __device__ void weigh_tile(const AttentionUnit& unit, std::int32_t tile, int stage,
                             bool is_first) {
    if (!has_scores_) start_scores(stage);
    has_scores_ = false;
    wgmma_wait<0>();
    keep_sums(scores_);
    hide_scores(unit, tile, stage);

    float largest[2];
    float factors[2];
    float offsets[2];
    const float scale = args_.scale * 1.44269504088896340736F;  // log2(e)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float before = is_first ? -INFINITY : shared_.largest[row_ + 8 * h];
      float x = before;
#pragma unroll
      for (int i = 0; i < 32; i += 4)
        x = fmaxf(x, fmaxf(scores_[i + 2 * h], scores_[i + 2 * h + 1]));
      x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 1));
      x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 2));
      largest[h] = x;
      const float base = x == -INFINITY ? 0.0F : x;
      offsets[h] = -__fmul_rn(base, scale);
      // Exactly 1 where nothing is larger than before: a tile that a row does not see is as none.
      factors[h] = latent_exp2(__fmul_rn(before - base, scale));
      totals_[h] = is_first ? 0.0F : __fmul_rn(totals_[h], factors[h]);
    }
    std::uint32_t weights[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int h = i % 2;
      const float x = latent_exp2(__fmaf_rn(scores_[2 * i], scale, offsets[h]));
      const float y = latent_exp2(__fmaf_rn(scores_[2 * i + 1], scale, offsets[h]));
      const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
      totals_[h] = __fadd_rn(totals_[h], __fadd_rn(__low2float(both), __high2float(both)));
      weights[i] = *reinterpret_cast<const std::uint32_t*>(&both);
    }
    synchronize(kWeightsFree);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = row_ + i % 2 * 8;
      *reinterpret_cast<std::uint32_t*>(shared_.weights + row * 128 + ((i / 2 ^ (row & 7)) << 4) +
                                        lane_ % 4 * 4) = weights[i];
    }
    if (lane_ % 4 == 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        shared_.largest[row_ + 8 * h] = largest[h];
        shared_.factors[row_ + 8 * h] = factors[h];
      }
    }
    fence_products();
    synchronize(kWeightsReady);
  }

  // Of keys that a row does not see, and of those that are not finite.
  __device__ void hide_scores(const AttentionUnit& unit, std::int32_t tile, int stage) {
    const std::int32_t first_key = tile * kLatentTile;
    const bool spoiled = *reinterpret_cast<const std::uint32_t*>(shared_.has_spoiled[stage]) != 0;
    if (!spoiled && first_key + kLatentTile - 1 <= unit.tile.first_position) return;
    const std::int32_t last = unit.last_position();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = row_ + 8 * h;
      const std::int32_t position = row < unit.rows() ? unit.position(row) : last;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int key = i / 2 * 8 + lane_ % 4 * 2 + i % 2;
        float& score = scores_[i / 2 * 4 + 2 * h + i % 2];
        if (spoiled && shared_.spoiled[stage][key] != 0) score = NAN;
        if (first_key + key > position) score = -INFINITY;
      }
    }
  }

  // The range's partial result is done: it joins those before it, or is kept.
  __device__ void end_range(const LatentPiece& piece, std::int32_t range) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = totals_[h];
      total = __fadd_rn(total, __shfl_xor_sync(0xFFFFFFFFU, total, 1));
      total = __fadd_rn(total, __shfl_xor_sync(0xFFFFFFFFU, total, 2));
      if (lane_ % 4 == 0) shared_.totals[group_][row_ + 8 * h] = total;
    }
    synchronize(kBoth);
    const bool joins = piece.first_range == 0;
    const bool is_last = range + 1 == piece.end_range;
    const std::int64_t slot = work_.slot(piece.index, joins ? 0 : range);
    if (thread_ < kLatentRows) {
      const SoftmaxSum part = {__fmul_rn(shared_.largest[thread_], args_.scale),
                               __fadd_rn(shared_.totals[0][thread_], shared_.totals[1][thread_])};
      SoftmaxSum sum = part;
      if (joins) {
        sum = shared_.sums[thread_];
        shared_.joins[thread_] = join(sum, part);
        shared_.sums[thread_] = sum;
      }
      if (!piece.is_whole() && (!joins || is_last)) work_.sums[slot * kLatentRows + thread_] = sum;
    }
    synchronize(kBoth);
    if (16 * warp_ >= piece.unit.rows()) return;

    const std::int64_t mine = (std::int64_t{group_} * work_.warps + warp_) * 1024 + lane_;
    float4* const state = work_.states + blockIdx.x * work_.slot_size() + mine;
    if (joins && range > 0) join_state(state);
    if (joins && is_last && piece.is_whole()) {
      const auto low = LatentOutput::of(args_, piece.unit, row_, shared_.sums[row_]);
      const auto high = LatentOutput::of(args_, piece.unit, row_ + 8, shared_.sums[row_ + 8]);
      const int column = 256 * group_ + lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        low.store(column + 8 * i, sums_[4 * i], sums_[4 * i + 1]);
        high.store(column + 8 * i, sums_[4 * i + 2], sums_[4 * i + 3]);
      }
      return;
    }
    float4* const to = joins && !is_last ? state : work_.values + slot * work_.slot_size() + mine;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      to[i * 32] = {sums_[4 * i], sums_[4 * i + 1], sums_[4 * i + 2], sums_[4 * i + 3]};
    }
  }

  // The sums of the ranges before, and that of the present one, become one in sums_.
  __device__ void join_state(const float4* state) {
    const JoinFactors low = shared_.joins[row_];
    const JoinFactors high = shared_.joins[row_ + 8];
    constexpr int kAtOnce = 8;
#pragma unroll
    for (int i = 0; i < 32; i += kAtOnce) {
      float4 before[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) before[k] = state[(i + k) * 32];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        float* const part = sums_ + (i + k) * 4;
        part[0] = join_values(before[k].x, part[0], low);
        part[1] = join_values(before[k].y, part[1], low);
        part[2] = join_values(before[k].z, part[2], high);
        part[3] = join_values(before[k].w, part[3], high);
      }
    }
  }

  const AttentionArgs& args_;
  const AttentionInputs& inputs_;
  const LatentWork& work_;
  LatentShared& shared_;
  const int thread_;
  const int lane_;
  const int group_;
  const int warp_;
  const int row_;  // of a warpgroup's 64; the thread has that and the eighth after it
  std::uint32_t tiles_ = 0;
  bool has_scores_ = false;  // of the next tile, maybe not done yet
  float scores_[32];         // [8][4], as sums_
  float sums_[128];          // [32][4]: of eight columns two of each row
  float totals_[2] = {};     // of the weights that this thread computed, of the range so far
};

}  // namespace quire::cuda
