// The inner loops of attention over a vector type V: scores of a panel of keys, weights of a row,
// weighted sums of some columns of the values. A row's arithmetic depends neither on the rows that
// are worked on beside it nor on how keys and columns are cut into panels: a score adds its
// products in the order of the dimensions, a sum its values in the order of the keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_scratch.h"
#include "kernels/cpu/exp.inl.h"
#include "kernels/cpu/kv_rows.inl.h"
#include "kernels/cpu/unroll.h"

namespace quire {

// Keys of a range, counted from its start.
struct KeySpan {
  std::int32_t begin;
  std::int32_t end;
};

inline constexpr int kMaxPanelVectors = 4;

// Some vectors of neighbouring keys.
struct KeyPanel {
  const std::byte* vectors[kMaxPanelVectors];
  std::int64_t step;  // bytes from one group of dimensions to the next
  // What is read next from memory, a piece with each group of dimensions; where there is nothing to
  // fetch, anything readable with step 0.
  const std::byte* prefetch[kMaxPanelVectors / 2];
  std::int64_t prefetch_step;
};

// scores[r][key] = queries[r] . key, for R rows and NV vectors of keys.
template <class V, class Rows, int R, int NV, bool kPrefetch>
[[gnu::noinline]] void score_panel(const float* queries, std::int64_t stride, const KeyPanel& panel,
                                   std::int64_t groups, float* scores) {
  using F = typename V::F;
  constexpr int kGroup = Rows::kKeyGroup;
  F sums[R][NV];
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) sums[r][v] = V::zero();
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    if constexpr (kPrefetch) {
      QUIRE_UNROLL
      for (int v = 0; v < NV / 2; ++v) {
        __builtin_prefetch(panel.prefetch[v] + g * panel.prefetch_step, 0, 2);
      }
    }
    F x[NV][kGroup];
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) Rows::load_keys(panel.vectors[v] + g * panel.step, x[v]);
    QUIRE_UNROLL
    for (int d = 0; d < kGroup; ++d) {
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const F query = V::set1(queries[r * stride + g * kGroup + d]);
        QUIRE_UNROLL
        for (int v = 0; v < NV; ++v) sums[r][v] = V::fma(query, x[v][d], sums[r][v]);
      }
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) V::store(scores + r * kRangeKeys + v * V::kWidth, sums[r][v]);
  }
}

// Turns the scores of the keys that a row sees into weights relative to the largest, times the
// scales of the values where there are any. Gives that largest score and the sum of the weights.
template <class V, bool kScaled>
inline void weigh_row(float* scores, KeySpan keys, const float* key_scales,
                      const float* value_scales, float& maximum, float& total) {
  using F = typename V::F;
  const F lowest = V::set1(-__builtin_inff());
  const int begin = keys.begin / V::kWidth * V::kWidth;
  const int end = (keys.end + V::kWidth - 1) / V::kWidth * V::kWidth;
  if constexpr (kScaled) {
    for (int i = begin; i < end; i += V::kWidth) {
      V::store(scores + i, V::mul(V::load(scores + i), V::load(key_scales + i)));
    }
  }
  V::store(scores + begin, V::keep_first(lowest, keys.begin - begin, V::load(scores + begin)));
  const int last = end - V::kWidth;
  V::store(scores + last, V::keep_first(V::load(scores + last), keys.end - last, lowest));

  F largest[2] = {lowest, lowest};
  for (int i = begin; i < end; i += V::kWidth) {
    F& lane = largest[0];
    lane = V::max(V::load(scores + i), lane);
    if ((i += V::kWidth) < end) largest[1] = V::max(V::load(scores + i), largest[1]);
  }
  maximum = V::largest(V::max(largest[0], largest[1]));

  const F base = V::set1(maximum);
  const auto weigh = [&](int i) {
    const F weight = vec_exp2<V>(V::sub(V::load(scores + i), base));
    if constexpr (kScaled) {
      V::store(scores + i, V::mul(weight, V::load(value_scales + i)));
    } else {
      V::store(scores + i, weight);
    }
    return weight;
  };
  // Which vector goes into which sum depends on its place in the range alone.
  F sums[2] = {V::zero(), V::zero()};
  int i = begin;
  if (i % (2 * V::kWidth) != 0) {
    sums[1] = weigh(i);
    i += V::kWidth;
  }
  for (; i + V::kWidth < end; i += 2 * V::kWidth) {
    sums[0] = V::add(sums[0], weigh(i));
    sums[1] = V::add(sums[1], weigh(i + V::kWidth));
  }
  if (i < end) sums[0] = V::add(sums[0], weigh(i));
  total = V::sum(V::add(sums[0], sums[1]));
}

// Values of neighbouring keys, a fixed number of bytes apart.
struct ValueSegment {
  const std::byte* rows;      // of key `begin`
  const std::byte* prefetch;  // as in KeyPanel, a piece with each key
  std::int32_t begin;
  std::int32_t end;
};

struct ValueSegments {
  const ValueSegment* segments;
  std::int32_t count;
  std::int64_t row_bytes;
  std::int64_t prefetch_step;
  std::int64_t prefetch_offset;
};

// sums[r] += weights[r][key] * value[key] for the keys of `keys`, in their order, for NV vectors of
// columns that begin at byte `column` of a row.
template <class V, class Rows, int R, int NV, bool kPrefetch>
[[gnu::noinline]] void add_values(const float* weights, const ValueSegments& values, KeySpan keys,
                                  std::int64_t column, float* to, std::int64_t stride) {
  using F = typename V::F;
  F sums[R][NV];
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) sums[r][v] = V::load(to + r * stride + v * V::kWidth);
  }
  for (std::int32_t s = 0; s < values.count; ++s) {
    const ValueSegment& segment = values.segments[s];
    const std::int32_t begin = segment.begin > keys.begin ? segment.begin : keys.begin;
    const std::int32_t end = segment.end < keys.end ? segment.end : keys.end;
    const std::byte* from = segment.rows + (begin - segment.begin) * values.row_bytes + column;
    const std::byte* prefetch = segment.prefetch + values.prefetch_offset;
    for (std::int32_t key = begin; key < end; ++key, from += values.row_bytes) {
      if constexpr (kPrefetch) {
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += values.prefetch_step;
      }
      F x[NV];
      QUIRE_UNROLL
      for (int v = 0; v < NV; v += 2) {
        Rows::load_values(from + std::int64_t{v} * V::kWidth * Rows::kBytes, x[v], x[v + 1]);
      }
      // One weight at a time: more would not stay in registers.
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const F weight = V::set1(weights[r * kRangeKeys + key]);
        QUIRE_UNROLL
        for (int v = 0; v < NV; ++v) sums[r][v] = V::fma(weight, x[v], sums[r][v]);
      }
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) V::store(to + r * stride + v * V::kWidth, sums[r][v]);
  }
}

// Adds a range's partial result of one row to that of the ranges before it.
template <class V>
inline void join_row(const PartialResults& sum, const PartialResults& part, std::int64_t row,
                     bool first) {
  using F = typename V::F;
  float* const to = sum.sums + row * sum.stride;
  const float* const from = part.sums + row * part.stride;
  if (first) {
    for (std::int64_t i = 0; i < sum.stride; i += V::kWidth) V::store(to + i, V::load(from + i));
    sum.maxima[row] = part.maxima[row];
    sum.totals[row] = part.totals[row];
    return;
  }
  const F before = V::set1(sum.maxima[row]);
  const F now = V::set1(part.maxima[row]);
  const F maximum = V::max(before, now);
  const F keep = vec_exp2<V>(V::sub(before, maximum));
  const F add = vec_exp2<V>(V::sub(now, maximum));
  for (std::int64_t i = 0; i < sum.stride; i += V::kWidth) {
    V::store(to + i, V::fma(V::load(to + i), keep, V::mul(V::load(from + i), add)));
  }
  const F total = V::fma(V::set1(sum.totals[row]), keep, V::mul(V::set1(part.totals[row]), add));
  float lanes[V::kWidth];
  V::store(lanes, maximum);
  sum.maxima[row] = lanes[0];
  V::store(lanes, total);
  sum.totals[row] = lanes[0];
}

// A row's output: what is summed over the weights' total.
template <class V>
inline void finish_row(const PartialResults& sum, std::int64_t row, std::int64_t head_dim,
                       float* out) {
  const float* const sums = sum.sums + row * sum.stride;
  const typename V::F total = V::set1(sum.totals[row]);
  std::int64_t i = 0;
  for (; i + V::kWidth <= head_dim; i += V::kWidth) {
    V::store(out + i, V::div(V::load(sums + i), total));
  }
  if (i < head_dim) {
    V::store_first(out + i, V::div(V::load(sums + i), total), static_cast<int>(head_dim - i));
  }
}

}  // namespace quire
