// One range of keys for some rows, in float32: a block's thread has a key while scores are summed,
// and a number of the values while these are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_partials.cuh"
#include "kernels/cuda/attention/kv_numbers.cuh"

namespace quire::cuda {

inline constexpr int kGenericThreads = kRangeKeys;
// A weight of a key that its row does not see, which has to be left out: its value may be NaN.
inline constexpr float kUnseen = -1.0F;

struct GenericWork {
  UnitShape shape;
  std::int32_t columns = 32;  // of values, that a block sums at a time
  std::int32_t first_unit = 0;
};

// Where a range's keys and values lie, and the scales of the values: of key i of the range.
struct RangePlaces {
  std::int64_t values[kRangeKeys];  // bytes from the start of the KV memory
  float value_scales[kRangeKeys];
};

// Scores of the thread's key. q: [kRows][stride], zero behind a head's numbers.
template <DType kDType, int kRows>
__device__ void sum_scores(const KvLayout& layout, const std::byte* key, const float* q, int stride,
                           float (&scores)[kRows]) {
  using Number = KvNumber<kDType>;
  const int dims = layout.row_dims();
  const std::int64_t step =
      std::int64_t{layout.block_size} * static_cast<std::int64_t>(sizeof(typename Number::Pair));
  const auto load = [&](int dim) -> float2 {
    if constexpr (Number::kKeyGroup == 2) {
      return Number::to_floats(
          *reinterpret_cast<const typename Number::Pair*>(key + dim / 2 * step));
    } else {
      const std::byte* const from = key + dim * (step / 2);
      return {*reinterpret_cast<const float*>(from),
              dim + 1 < dims ? *reinterpret_cast<const float*>(from + step / 2) : 0.0F};
    }
  };
#pragma unroll
  for (int r = 0; r < kRows; ++r) scores[r] = 0.0F;
  int dim = 0;
  for (; dim + 16 <= dims; dim += 16) {
    float2 k[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) k[i] = load(dim + 2 * i);
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float4 x = *reinterpret_cast<const float4*>(q + r * stride + dim + 2 * i);
        scores[r] = __fmaf_rn(x.x, k[i].x, scores[r]);
        scores[r] = __fmaf_rn(x.y, k[i].y, scores[r]);
        scores[r] = __fmaf_rn(x.z, k[i + 1].x, scores[r]);
        scores[r] = __fmaf_rn(x.w, k[i + 1].y, scores[r]);
      }
    }
  }
  for (; dim < dims; dim += 2) {
    const float2 k = load(dim);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      scores[r] = __fmaf_rn(q[r * stride + dim], k.x, scores[r]);
      scores[r] = __fmaf_rn(q[r * stride + dim + 1], k.y, scores[r]);
    }
  }
}

// Scores as they go into the softmax.
__device__ inline float finish_score(const AttentionArgs& args, float score, std::int32_t head,
                                     std::int32_t distance) {
  score = __fmul_rn(score, args.scale);
  if (args.soft_cap > 0.0F) {
    score = __fmul_rn(args.soft_cap, tanhf(__fdiv_rn(score, args.soft_cap)));
  }
  if (args.alibi_slopes != nullptr) {
    score = __fmaf_rn(args.alibi_slopes[head], static_cast<float>(distance), score);
  }
  return score;
}

// A warp makes weights of a row's scores of a range, those of keys [first, last] of it: relative to
// the largest, times the scales of their values.
__device__ inline SoftmaxSum weigh(float* scores, int first, int last, bool has_scales,
                                   const float* value_scales, int lane) {
  constexpr unsigned kAll = 0xFFFFFFFFU;
  constexpr int kEach = kRangeKeys / 32;
  float x[kEach];
  SoftmaxSum sum;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int key = lane + 32 * i;
    x[i] = scores[key];
    if (key >= first && key <= last) sum.largest = fmaxf(sum.largest, x[i]);
  }
  for (int step = 16; step > 0; step /= 2) {
    sum.largest = fmaxf(sum.largest, __shfl_xor_sync(kAll, sum.largest, step));
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int key = lane + 32 * i;
    float weight = kUnseen;
    if (key >= first && key <= last) {
      weight = expf(x[i] - sum.largest);
      sum.total = __fadd_rn(sum.total, weight);
      if (has_scales) weight = __fmul_rn(weight, value_scales[key]);
    }
    scores[key] = weight;
  }
  for (int step = 16; step > 0; step /= 2) {
    sum.total = __fadd_rn(sum.total, __shfl_xor_sync(kAll, sum.total, step));
  }
  return sum;
}

// Adds keys [begin, end) of the range to a thread's sums, where rows see them; all rows see
// [all_begin, all_end). `value`: byte offset of the thread's number from where a key's value lies.
template <DType kDType, int kRows>
__device__ void sum_values(const std::byte* kv, const RangePlaces& places, bool paired,
                           std::int64_t value, const float* weights, int begin, int end,
                           int all_begin, int all_end, float (&sums)[kRows]) {
  using Number = KvNumber<kDType>;
  const auto load = [&](int key) {
    return Number::to_float(
        *reinterpret_cast<const typename Number::Bits*>(kv + places.values[key] + value));
  };
#pragma unroll 2
  for (int key = begin / 4 * 4; key < end; key += 4) {
    float v[4];
    if (key >= begin && key + 4 <= end) {
      if (paired) {
        if constexpr (Number::kKeyGroup == 2) {
#pragma unroll
          for (int i = 0; i < 4; i += 2) {
            const float2 two = Number::to_floats(*reinterpret_cast<const typename Number::Pair*>(
                kv + places.values[key + i] + value));
            v[i] = two.x;
            v[i + 1] = two.y;
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = load(key + i);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        v[i] = key + i >= begin && key + i < end ? load(key + i) : 0.0F;
      }
    }
    const bool all = key >= all_begin && key + 4 <= all_end;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 w = *reinterpret_cast<const float4*>(weights + r * kRangeKeys + key);
      const float each[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (all || each[i] != kUnseen) sums[r] = __fmaf_rn(each[i], v[i], sums[r]);
      }
    }
  }
}

}  // namespace quire::cuda
