// Attention of rows that see the same keys, from the cache in place, over a vector type V: as many
// rows and vectors at a time as leave their sums in registers.
//
// While a range's keys are worked on, its values are fetched from memory to the L2 cache, and
// the next range's keys while its values are. Rows after the first ones fetch what comes next from
// there to the L1 cache. The loops do that a line at a time: a burst of lines delays them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_panels.inl.h"
#include "kernels/cpu/attention_tile.inl.h"

namespace quire {

template <class V>
inline constexpr int kRowsInPlace = V::kWidth == 16 ? 8 : 4;  // that share loads from the cache
inline constexpr int kFewRows = 2;                            // that share four vectors of them
// Keys whose values all rows and columns pass over before the next: so many that loading and
// storing the sums of a row does not count, so few that they stay in the L1 cache (64 dimensions
// in two bytes) or the L2 cache (latents).
inline constexpr std::int32_t kPieceKeys = 64;

// Scores of `count` <= kMax rows; kMax bounds what is instantiated.
template <class V, class Rows, int kMax, int NV, Fetch kFetch>
inline void score_rows(int count, const float* queries, std::int64_t stride, const KeyPanel& panel,
                       std::int64_t groups, float* scores) {
  if constexpr (kMax > 1) {
    if (count < kMax) {
      score_rows<V, Rows, kMax - 1, NV, kFetch>(count, queries, stride, panel, groups, scores);
      return;
    }
  }
  score_panel<V, Rows, kMax, NV, kFetch>(queries, stride, panel, groups, scores);
}

template <class V, class Rows, int kMax, int NV, Fetch kFetch>
inline void add_rows(int count, const float* weights, const ValuePanel& values, float* to,
                     std::int64_t stride) {
  if constexpr (kMax > 1) {
    if (count < kMax) {
      add_rows<V, Rows, kMax - 1, NV, kFetch>(count, weights, values, to, stride);
      return;
    }
  }
  add_values<V, Rows, kMax, NV, kFetch>(weights, values, to, stride);
}

// Fetches the vectors of some keys in one burst.
template <class V>
inline void fetch_keys(const RangeMemory& memory, KeySpan keys, std::int64_t groups,
                       std::int64_t step) {
  for (std::int32_t key = keys.begin; key < keys.end; key += kFetchVectors<V> * V::kWidth) {
    const std::byte* at = memory.keys[key / V::kWidth];
    for (std::int64_t g = 0; g < groups; ++g, at += step) __builtin_prefetch(at, 0, 2);
  }
}

// The scores of all rows, which see the same keys, from the cache in place. The first rows fetch
// the values of the same keys from memory, those after them the keys that come next. The keys of a
// task's first range nobody fetched before: those of the next panel are while this one is computed.
template <class V, class Rows, int NV, int kMax>
inline void score_in_place(const RangeRows& rows, const RangeMemory& memory) {
  constexpr std::int32_t kKeys = NV * V::kWidth;
  const KvLayout& layout = rows.task->args->layout;
  const std::int64_t groups = layout.row_dims() / Rows::kGroup;
  const std::int64_t stride = rows.part.stride;
  const auto queries_of = [&](std::int32_t row) { return rows.scratch.queries + row * stride; };
  const bool is_first = rows.key_start == rows.task->range_begin * kRangeKeys;
  KeyPanel panel;
  const auto fetch = [&](const std::byte* const* from, std::int32_t key) {
    for (int v = 0; v < NV; v += kFetchVectors<V>) {
      panel.fetch[v / kFetchVectors<V>] = from[key / V::kWidth + v];
    }
  };
  for (std::int32_t key = rows.keys.begin / kKeys * kKeys; key < rows.keys.end; key += kKeys) {
    float* const scores = rows.scratch.scores + key;
    panel = find_keys<V, NV>(memory, key);
    fetch(memory.values, key);
    if (is_first) {
      const std::int32_t end = key + 2 * kKeys < rows.keys.end ? key + 2 * kKeys : rows.keys.end;
      fetch_keys<V>(memory, {key + kKeys, end}, groups, panel.step);
    }
    panel.fetch_step = kKeyStepBytes<V, Rows>;
    std::int32_t row = rows.begin;
    score_rows<V, Rows, kMax, NV, Fetch::kFar>(next_rows(rows.end - row, kMax), queries_of(row),
                                               stride, panel, groups,
                                               scores + std::int64_t{row} * kRangeKeys);
    const std::int32_t next = key + kKeys < rows.keys.end ? key + kKeys : key;
    fetch(memory.keys, next);
    panel.fetch_step = panel.step;
    for (row += kMax; row < rows.end; row += kMax) {
      score_rows<V, Rows, kMax, NV, Fetch::kNear>(next_rows(rows.end - row, kMax), queries_of(row),
                                                  stride, panel, groups,
                                                  scores + std::int64_t{row} * kRangeKeys);
    }
  }
}

// All sums of `rows` start at zero.
template <class V>
inline void clear_sums(const RangeRows& rows, std::int64_t begin, std::int64_t end) {
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    float* const to = rows.part.sums + row * rows.part.stride;
    for (std::int64_t i = begin; i < end; i += V::kWidth) V::store(to + i, V::zero());
  }
}

// Some columns of all rows for the keys of `keys`; `next`: those that come after them. The first
// rows fetch the next range's keys from memory, those after them the values that come next.
template <class V, class Rows, int NV, int kMax>
inline void add_columns(const RangeRows& rows, const RangeMemory& memory, KeySpan keys,
                        KeySpan next, std::int64_t column) {
  const std::int64_t stride = rows.part.stride;
  const auto row_bytes = static_cast<std::int64_t>(rows.task->args->layout.value_row_bytes());
  const auto weights_of = [&](std::int32_t row) {
    return rows.scratch.scores + std::int64_t{row} * kRangeKeys;
  };
  const auto sums_of = [&](std::int32_t row) { return rows.part.sums + row * stride + column; };
  ValuePanel values;
  values.vectors = memory.values;
  values.group_bytes = Rows::kGroup * row_bytes;
  values.keys = keys;
  values.column = column * Rows::kGroup * Rows::kBytes;
  // Neighbouring bytes of each block of keys, as many as these columns have in it.
  values.fetch = memory.next_keys;
  values.fetch_column = rows.task->args->layout.block_size * column * Rows::kBytes;
  values.fetch_step = kValueStepBytes<V, Rows, NV>;
  std::int32_t row = rows.begin;
  add_rows<V, Rows, kMax, NV, Fetch::kFar>(next_rows(rows.end - row, kMax), weights_of(row), values,
                                           sums_of(row), stride);
  const bool more = next.end - next.begin == keys.end - keys.begin;
  values.fetch = memory.values + (more ? (next.begin - keys.begin) / V::kWidth : 0);
  values.fetch_column = values.column;
  values.fetch_step = 2 * row_bytes;
  for (row += kMax; row < rows.end; row += kMax) {
    add_rows<V, Rows, kMax, NV, Fetch::kNear>(next_rows(rows.end - row, kMax), weights_of(row),
                                              values, sums_of(row), stride);
  }
}

// All columns of all rows, which see the same keys, from the cache in place: some keys at a time,
// which stay in a cache while columns and rows pass over them.
template <class V, class Rows>
inline void add_in_place(const RangeRows& rows, const RangeMemory& memory) {
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  const KvLayout& layout = rows.task->args->layout;
  const std::int64_t dims = layout.value_row_dims();
  clear_sums<V>(rows, 0, dims);
  const auto piece_from = [&](std::int32_t begin) -> KeySpan {
    const std::int32_t end = begin / V::kWidth * V::kWidth + kPieceKeys;
    return {begin, end < rows.keys.end ? end : rows.keys.end};
  };
  for (KeySpan keys = piece_from(rows.keys.begin); keys.begin < rows.keys.end;) {
    const KeySpan next = piece_from(keys.end);
    std::int64_t column = 0;
    if (rows.end - rows.begin <= kFewRows) {  // more columns, to have sums enough
      for (; column + 2 * kColumns <= dims; column += 2 * kColumns) {
        add_columns<V, Rows, 4, kFewRows>(rows, memory, keys, next, column);
      }
    }
    for (; column < dims; column += kColumns) {
      add_columns<V, Rows, 2, kRowsInPlace<V>>(rows, memory, keys, next, column);
    }
    keys = next;
  }
}

}  // namespace quire
