// Queries and weights as 16-bit integers times a step for each row, over a vector type V, for
// caches of 8-bit integers (Rows::kIntegers): sums of their products are exact in 32 bits, and two
// of these take one instruction. A row's step depends on the row alone, so its bits do not depend
// on what is worked on beside it.
//
// A row's integers take half of its floats; its step is the last of them.
#pragma once

#include <cstdint>

#include "kernels/attention_scratch.h"
#include "kernels/cpu/attention_tile.inl.h"
#include "kernels/cpu/kv_rows.inl.h"

namespace quire {

inline constexpr float kMostWeight = 32767.0F;  // 127 of them times 256 keys are below 2^31

// The largest integer of a query: 127 of them times so many dimensions are below 2^31.
[[gnu::always_inline]] inline float most_in_query(std::int32_t dims) {
  const std::int32_t most = (1 << 24) / dims;
  return most < 32767 ? static_cast<float>(most) : 32767.0F;
}

// A query of `dims` numbers, times `scale`, padded with zeros to `row_floats` lanes of pairs.
template <class V>
inline void store_query_integers(const float* query, std::int32_t dims, float scale,
                                 std::int64_t row_floats, float* to) {
  const RowScale steps = row_scale<V>(query, dims, most_in_query(dims));
  const typename V::F inverse = V::set1(steps.inverse);
  auto* const integers = reinterpret_cast<std::int16_t*>(to);
  for (std::int32_t i = 0; i < row_floats; i += V::kWidth) {
    const std::int32_t left = dims - i;
    const typename V::F x =
        left >= V::kWidth ? V::load(query + i) : V::load_first(query + i, left > 0 ? left : 0);
    V::store_int16(integers + i, steps.inverse == 0.0F ? V::zero() : V::mul(x, inverse));
  }
  to[row_floats - 1] = steps.scale * scale;
}

// The scores of a row from their integers, its query's step and the scales of the keys.
template <class V>
inline void scale_scores(float* scores, KeySpan keys, float step, const float* key_scales) {
  const typename V::F steps = V::set1(step);
  for (int i = keys.begin / V::kWidth * V::kWidth; i < keys.end; i += V::kWidth) {
    const typename V::F score = V::mul(V::from_ints(V::load(scores + i)), steps);
    V::store(scores + i, V::mul(score, V::load(key_scales + i)));
  }
}

// Turns a row's scores into weights relative to the largest, times the scales of the values, as
// integers, zero for keys that the row does not see; gives the sum of the weights without scales.
template <class V>
inline float weigh_integers(float* scores, KeySpan keys, float largest, const float* value_scales) {
  using F = typename V::F;
  F most = V::zero();
  F nan = V::zero();
  const float total = weigh_each<V>(
      scores, keys, largest, [&](int at, F x) __attribute__((always_inline)) {
        F factor = V::mul(x, V::load(value_scales + at));
        if (at < keys.begin) factor = V::keep_first(V::zero(), keys.begin - at, factor);
        if (at + V::kWidth > keys.end) factor = V::keep_first(factor, keys.end - at, V::zero());
        most = V::max(factor, most);
        nan = V::add(nan, V::sub(factor, factor));
        V::store(scores + at, factor);
        return x;
      });
  const float not_finite = V::sum(nan);
  const float most_of_all = V::largest(most);
  // The inverse of anything smaller would overflow.
  const bool any = not_finite == 0.0F && most_of_all >= kMostWeight * 0x1p-126F;
  const F inverse = V::set1(any ? kMostWeight / most_of_all : 0.0F);
  auto* const integers = reinterpret_cast<std::int16_t*>(scores);
  for (int i = keys.begin / V::kWidth * V::kWidth; i < keys.end; i += V::kWidth) {
    V::store_int16(integers + i, any ? V::mul(V::load(scores + i), inverse) : V::zero());
  }
  scores[kRangeKeys - 1] = any ? most_of_all / kMostWeight : not_finite;
  return total;
}

// A row's weighted sums from their integers and its weights' step.
template <class V>
inline void scale_sums(float* sums, std::int64_t dims, float step) {
  const typename V::F steps = V::set1(step);
  for (std::int64_t i = 0; i < dims; i += V::kWidth) {
    V::store(sums + i, V::mul(V::from_ints(V::load(sums + i)), steps));
  }
}

}  // namespace quire
