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

// Lines that a loop fetches by the way, some with each step: from memory to the L2 cache, or from
// the L2 cache to the L1 cache.
enum class Fetch : std::uint8_t { kNone, kFar, kNear, kBoth };

inline constexpr bool fetches_far(Fetch fetch) {
  return fetch == Fetch::kFar || fetch == Fetch::kBoth;
}
inline constexpr bool fetches_near(Fetch fetch) {
  return fetch == Fetch::kNear || fetch == Fetch::kBoth;
}

// All lines of kBytes bytes.
template <int kBytes, int kLocality>
[[gnu::always_inline]] inline void fetch_lines(const std::byte* at) {
  QUIRE_UNROLL
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(at + i, 0, kLocality);
}

// Vectors of keys for which lines are fetched in one go: no more keys than a block has as a rule.
template <class V>
inline constexpr int kFetchVectors = 16 / V::kWidth;

// What is fetched with one step of a loop: of values, as much as so many vectors of keys have in a
// step, and of keys, as much as NV vectors of columns have in two values.
template <class V, class Rows>
inline constexpr int kKeyStepBytes = kFetchVectors<V>* V::kWidth* Rows::kGroup* Rows::kBytes;
template <class V, class Rows, int NV>
inline constexpr int kValueStepBytes = 2 * NV* V::kWidth* Rows::kBytes;

// Some vectors of neighbouring keys.
struct KeyPanel {
  const std::byte* vectors[kMaxPanelVectors];
  std::int64_t step;  // bytes from one group of dimensions to the next
  // For every kFetchVectors: what to fetch from memory, a step after the other, and the keys to
  // fetch from the L2 cache.
  const std::byte* far[kMaxPanelVectors];
  const std::byte* near[kMaxPanelVectors];
};

// scores[r][key] = queries[r] . key, for R rows and NV vectors of keys.
template <class V, class Rows, int R, int NV, Fetch kFetch>
[[gnu::noinline]] void score_panel(const float* queries, std::int64_t stride, const KeyPanel& panel,
                                   std::int64_t groups, float* scores) {
  using F = typename V::F;
  constexpr int kGroup = kGroupVectors<Rows>;
  F sums[R][NV];
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) sums[r][v] = V::zero();
  }
  const std::byte* from[NV];
  QUIRE_UNROLL
  for (int v = 0; v < NV; ++v) from[v] = panel.vectors[v];
  constexpr int kFetches = NV / kFetchVectors<V>;
  constexpr int kStepBytes = kKeyStepBytes<V, Rows>;
  const std::byte* far[kFetches];
  const std::byte* near[kFetches];
  QUIRE_UNROLL
  for (int i = 0; i < kFetches; ++i) {
    far[i] = panel.far[i];
    near[i] = panel.near[i];
  }
  const std::int64_t end = groups * panel.step;
  for (std::int64_t at = 0; at < end; at += panel.step) {
    QUIRE_UNROLL
    for (int i = 0; i < kFetches; ++i) {
      if constexpr (fetches_far(kFetch)) {
        fetch_lines<kStepBytes, 2>(far[i]);
        far[i] += kStepBytes;
      }
      if constexpr (fetches_near(kFetch)) fetch_lines<kStepBytes, 3>(near[i] + at);
    }
    F x[NV][kGroup];
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) Rows::load(from[v] + at, x[v]);
    QUIRE_UNROLL
    for (int d = 0; d < kGroup; ++d) {
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const F query = V::set1(queries[r * stride + d]);
        QUIRE_UNROLL
        for (int v = 0; v < NV; ++v) sums[r][v] = Rows::add_product(query, x[v][d], sums[r][v]);
      }
    }
    queries += kGroup;
  }
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) V::store(scores + r * kRangeKeys + v * V::kWidth, sums[r][v]);
  }
}

// The largest score of the keys that a row sees; those of other keys in the same vectors become
// lowest.
template <class V>
inline float largest_score(float* scores, KeySpan keys) {
  using F = typename V::F;
  const F lowest = V::set1(-__builtin_inff());
  const int begin = keys.begin / V::kWidth * V::kWidth;
  const int end = (keys.end + V::kWidth - 1) / V::kWidth * V::kWidth;
  V::store(scores + begin, V::keep_first(lowest, keys.begin - begin, V::load(scores + begin)));
  const int last = end - V::kWidth;
  V::store(scores + last, V::keep_first(V::load(scores + last), keys.end - last, lowest));
  F largest[2] = {lowest, lowest};
  int i = begin;
  for (; i + V::kWidth < end; i += 2 * V::kWidth) {
    largest[0] = V::max(V::load(scores + i), largest[0]);
    largest[1] = V::max(V::load(scores + i + V::kWidth), largest[1]);
  }
  if (i < end) largest[0] = V::max(V::load(scores + i), largest[0]);
  return V::largest(V::max(largest[0], largest[1]));
}

// cap * tanh(score / cap).
template <class V>
inline void cap_scores(float* scores, KeySpan keys, float cap) {
  const typename V::F most = V::set1(cap);
  const typename V::F scale = V::set1(1.0F / cap);
  for (int i = keys.begin / V::kWidth * V::kWidth; i < keys.end; i += V::kWidth) {
    V::store(scores + i, V::mul(most, vec_tanh<V>(V::mul(V::load(scores + i), scale))));
  }
}

// Adds slope times how far each key is from the query, `first` being that of the range's first key.
template <class V>
inline void add_distances(float* scores, KeySpan keys, float slope, std::int32_t first) {
  alignas(64) constexpr float kLanes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const typename V::F lanes = V::load(kLanes);
  for (int i = keys.begin / V::kWidth * V::kWidth; i < keys.end; i += V::kWidth) {
    const typename V::F distance = V::add(lanes, V::set1(static_cast<float>(first + i)));
    V::store(scores + i, V::fma(distance, V::set1(slope), V::load(scores + i)));
  }
}

// Turns scores into weights relative to the largest, and gives their sum. store(at, x) stores the
// kWidth weights from key `at` on, and gives what of them is summed.
template <class V, typename Store>
[[gnu::always_inline]] inline float weigh_each(const float* scores, KeySpan keys, float largest,
                                               const Store& store) {
  using F = typename V::F;
  const int begin = keys.begin / V::kWidth * V::kWidth;
  const int end = (keys.end + V::kWidth - 1) / V::kWidth * V::kWidth;
  const F base = V::set1(largest);
  const auto weigh = [&](int at, auto& x, F* sums) __attribute__((always_inline)) {
    constexpr int kCount = sizeof(x) / sizeof(F);
    QUIRE_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] = V::sub(V::load(scores + at + i * V::kWidth), base);
    vec_exp2<V>(x);
    QUIRE_UNROLL
    for (int i = 0; i < kCount; ++i) sums[i] = V::add(sums[i], store(at + i * V::kWidth, x[i]));
  };
  F sums[2] = {V::zero(), V::zero()};
  int at = begin;
  for (F x[2]; at + V::kWidth < end; at += 2 * V::kWidth) weigh(at, x, sums);
  if (F x[1]; at < end) weigh(at, x, sums);
  return V::sum(V::add(sums[0], sums[1]));
}

template <class V, class Rows>
inline float weigh_row(float* scores, KeySpan keys, float largest) {
  return weigh_each<V>(
      scores, keys, largest, [&](int at, typename V::F x) __attribute__((always_inline)) {
        return Rows::store_factors(scores, at, x);
      });
}

// Some columns of the values of neighbouring keys.
struct ValuePanel {
  const std::byte* const* vectors;  // the first value of each kWidth of the range
  std::int64_t group_bytes;         // from one group of keys to the next
  KeySpan keys;
  std::int64_t column;  // byte of a group at which the columns begin
  // What each kWidth of the keys fetches from memory, a step after the other, and the byte of a
  // group from which on they fetch from the L2 cache.
  const std::byte* const* far;
  std::int64_t near_column;
};

// sums[r] += weights[r][key] * value[key] for the panel's keys, in their order, for NV vectors of
// columns. Keys that share a lane of the weights are added in one step, in which one that is not of
// the panel counts as zero.
template <class V, class Rows, int R, int NV, Fetch kFetch>
[[gnu::noinline]] void add_values(const float* weights, const ValuePanel& values, float* to,
                                  std::int64_t stride) {
  using F = typename V::F;
  constexpr int kGroup = Rows::kGroup;
  constexpr int kVectors = kGroupVectors<Rows>;
  F sums[R][NV];
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) sums[r][v] = V::load(to + r * stride + v * V::kWidth);
  }
  const auto load = [](const std::byte* from, F(&x)[NV][kVectors]) __attribute__((always_inline)) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) Rows::load(from + v * V::kWidth * kGroup * Rows::kBytes, x[v]);
  };
  const auto add = [&](const F(&x)[NV][kVectors], int i, const float* weight_of)
      __attribute__((always_inline)) {
    // One weight at a time: more would not stay in registers.
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      const F weight = V::set1(weight_of[r * kRangeKeys]);
      QUIRE_UNROLL
      for (int v = 0; v < NV; ++v) sums[r][v] = Rows::add_product(weight, x[v][i], sums[r][v]);
    }
  };
  const auto add_group = [&](const std::byte* from, const float* weight_of)
      __attribute__((always_inline)) {
    F x[NV][kVectors];
    load(from, x);
    QUIRE_UNROLL
    for (int i = 0; i < kVectors; ++i) add(x, i, weight_of + i);
  };
  const auto group_at = [&](int key) __attribute__((always_inline)) {
    return values.vectors[key / V::kWidth] + values.column +
           key % V::kWidth / kGroup * values.group_bytes;
  };
  // A key that is alone in its group.
  const auto add_one = [&](int key) __attribute__((always_inline)) {
    F x[NV][kVectors];
    load(group_at(key), x);
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) {
      if constexpr (Rows::kPerLane == 2) {
        x[v][0] = Rows::keep_one(x[v][0], key % 2);
      } else {
        if (key % kGroup != 0) x[v][0] = x[v][kVectors - 1];
      }
    }
    add(x, 0, weights + key / Rows::kPerLane);
  };
  const auto add_each = [&](int key, int end) __attribute__((always_inline)) {
    if (key % kGroup != 0) add_one(key++);
    for (; key + kGroup <= end; key += kGroup) {
      add_group(group_at(key), weights + key / Rows::kPerLane);
    }
    if (key < end) add_one(key);
  };
  const std::int64_t near_step = values.near_column - values.column;
  int key = values.keys.begin;
  const int end = values.keys.end / V::kWidth * V::kWidth;
  if (key % V::kWidth != 0) {
    const int next = (key / V::kWidth + 1) * V::kWidth;
    add_each(key, next < values.keys.end ? next : values.keys.end);
    key = next;
  }
  for (; key < end; key += V::kWidth) {
    const std::byte* from = group_at(key);
    const std::byte* far = nullptr;
    if constexpr (fetches_far(kFetch)) far = values.far[key / V::kWidth];
    const float* weight_of = weights + key / Rows::kPerLane;
    for (int i = 0; i < V::kWidth; i += 2) {
      if constexpr (fetches_far(kFetch)) {
        fetch_lines<kValueStepBytes<V, Rows, NV>, 2>(far);
        far += kValueStepBytes<V, Rows, NV>;
      }
      QUIRE_UNROLL
      for (int k = 0; k < 2; k += kGroup) {
        if constexpr (fetches_near(kFetch)) {
          fetch_lines<NV * V::kWidth * kGroup * Rows::kBytes, 3>(from + near_step);
        }
        add_group(from, weight_of);
        from += values.group_bytes;
        weight_of += kVectors;
      }
    }
  }
  if (key < values.keys.end) add_each(key, values.keys.end);
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < NV; ++v) V::store(to + r * stride + v * V::kWidth, sums[r][v]);
  }
}

[[gnu::always_inline]] inline int next_rows(std::int32_t left, int most) {
  return left < most ? static_cast<int>(left) : most;
}

// Adds a range's partial results of rows [begin, end) to those of the ranges before it; what rows
// are multiplied by comes a row a lane.
template <class V>
inline void join_rows(const PartialResults& sum, const PartialResults& part, std::int32_t begin,
                      std::int32_t end) {
  using F = typename V::F;
  for (; begin < end; begin += V::kWidth) {
    const int count = next_rows(end - begin, V::kWidth);
    const F before = V::load_first(sum.maxima + begin, count);
    const F now = V::load_first(part.maxima + begin, count);
    const F maximum = V::max(before, now);
    F factors[2] = {V::sub(before, maximum), V::sub(now, maximum)};
    vec_exp2<V>(factors);
    const F added_total = V::mul(V::load_first(part.totals + begin, count), factors[1]);
    V::store_first(sum.totals + begin,
                   V::fma(V::load_first(sum.totals + begin, count), factors[0], added_total),
                   count);
    V::store_first(sum.maxima + begin, maximum, count);
    float keep[V::kWidth];
    float add[V::kWidth];
    V::store(keep, factors[0]);
    V::store(add, factors[1]);
    for (int r = 0; r < count; ++r) {
      float* const to = sum.sums + (begin + r) * sum.stride;
      const float* const from = part.sums + (begin + r) * part.stride;
      const F kept = V::set1(keep[r]);
      const F added = V::set1(add[r]);
      for (std::int64_t i = 0; i < sum.stride; i += V::kWidth) {
        V::store(to + i, V::fma(V::load(to + i), kept, V::mul(V::load(from + i), added)));
      }
    }
  }
}

// Adds the weight of one more key, whose value is zero, to a row's sums. `score` is for powers of
// two.
template <class V>
inline void join_sink(const PartialResults& sum, std::int64_t row, float score) {
  using F = typename V::F;
  const F before = V::set1(sum.maxima[row]);
  const F sink = V::set1(score);
  const F maximum = V::max(sink, before);
  F factors[2] = {V::sub(before, maximum), V::sub(sink, maximum)};
  vec_exp2<V>(factors);
  V::store_first(sum.totals + row, V::fma(V::set1(sum.totals[row]), factors[0], factors[1]), 1);
  V::store_first(sum.maxima + row, maximum, 1);
  float* const to = sum.sums + row * sum.stride;
  for (std::int64_t i = 0; i < sum.stride; i += V::kWidth) {
    V::store(to + i, V::mul(V::load(to + i), factors[0]));
  }
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
