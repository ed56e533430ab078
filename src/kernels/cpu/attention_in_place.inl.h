// Attention of rows that see the same keys, from the cache in place, over a vector type V: as many
// rows and vectors at a time as leave their sums in registers.
//
// While a range's keys are worked on, its values are fetched from memory to the L2 cache, and
// the next range's keys while its values are; or, where fetches_ahead(), half of the next range's
// blocks, and the other half. Rows after the first ones, and many rows that take one pass, fetch
// what comes next from there to the L1 cache. The loops do that some lines at a time: a burst of
// lines delays them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_panels.inl.h"
#include "kernels/cpu/attention_tile.inl.h"

namespace quire {

template <class V>
inline constexpr int kRowsInPlace = V::kWidth == 16 ? 8 : 4;  // that share loads from the cache
inline constexpr int kFewRows = 2;                            // that share four vectors of them
inline constexpr int kManyRows = 5;                           // so many that arithmetic bounds
// Fewer rows pass over so many keys at a time, with 16 lanes: so few that what the processor
// fetched by itself beside the first columns is still in the L1 cache.
inline constexpr std::int32_t kPieceKeys = 64;

// Whether many rows, if they take one pass, also fetch what comes next from the L2 cache. Products
// of pairs take too little time for that.
template <class Rows, int kMax>
inline constexpr bool kFetchesBoth = Rows::kPerLane == 1 && kMax >= kManyRows;
template <Fetch kFetch>
inline constexpr int kLeastRows = kFetch == Fetch::kBoth ? kManyRows : 1;

// Scores of `count` rows, which are kLeastRows to kMax: what is instantiated.
template <class V, class Rows, int kMax, int NV, Fetch kFetch>
inline void score_rows(int count, const float* queries, std::int64_t stride, const KeyPanel& panel,
                       std::int64_t groups, float* scores) {
  if constexpr (kMax > kLeastRows<kFetch>) {
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
  if constexpr (kMax > kLeastRows<kFetch>) {
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

// Whether all rows take one pass, and are many.
template <int kMax>
[[gnu::always_inline]] inline bool many_in_one_pass(const RangeRows& rows) {
  return rows.end - rows.begin >= kManyRows && rows.end - rows.begin <= kMax;
}

// Whether no range of the task comes before this one, so that nobody fetched any of it.
[[gnu::always_inline]] inline bool is_first_range(const RangeRows& rows) {
  return rows.key_start == rows.task->range_begin * kRangeKeys;
}

// What loops fetch of the next range, in the order in which it lies in memory.
struct NextRange {
  const std::byte* const* block;
  std::int64_t block_bytes;  // of a block that are fetched
  std::int64_t at = 0;

  [[gnu::always_inline]] void skip(std::int64_t bytes) {
    for (at += bytes; at >= block_bytes; at -= block_bytes) ++block;
  }
  [[gnu::always_inline]] const std::byte* take(std::int64_t bytes) {
    const std::byte* const from = *block + at;
    skip(bytes);
    return from;
  }
};

// Whether the loops fetch the next range's keys and values, each block's as one piece: worth it for
// many rows of bfloat16 pairs, whose products take about as long as memory (measured: fewer rows,
// fp8 and float32 products are up to a tenth slower with it).
template <class Rows>
[[gnu::always_inline]] inline bool fetches_ahead(const RangeRows& rows) {
  constexpr bool kBf16Pairs = Rows::kPerLane == 2 && Rows::kBytes == 2;
  return kBf16Pairs && rows.end - rows.begin >= kManyRows && rows.task->args->layout.has_values();
}

// The next range's blocks: their keys, and values where they are fetched with them.
template <class Rows>
[[gnu::always_inline]] inline NextRange next_range(const RangeRows& rows,
                                                   const RangeMemory& memory) {
  const std::int64_t keys =
      std::int64_t{rows.task->args->layout.value_row_dims()} * memory.block_size * Rows::kBytes;
  return {memory.next_keys, fetches_ahead<Rows>(rows) ? 2 * keys : keys};
}

// What the scores of a panel fetch from memory. In a task's first range: its own values, and in one
// burst what the panel would have fetched of the next range, if there is one.
template <class V, class Rows, int NV>
inline void find_far(const RangeRows& rows, const RangeMemory& memory, std::int32_t key,
                     NextRange& next, KeyPanel& panel) {
  const bool is_first = is_first_range(rows);
  const bool is_last = rows.key_start / kRangeKeys + 1 == rows.task->range_end;
  const std::int64_t share =
      rows.task->args->layout.row_dims() / Rows::kGroup * kKeyStepBytes<V, Rows>;
  for (int v = 0; v < NV; v += kFetchVectors<V>) {
    const std::byte*& far = panel.far[v / kFetchVectors<V>];
    far = memory.values[key / V::kWidth + v];
    if (!fetches_ahead<Rows>(rows)) continue;
    const std::byte* const ahead = next.take(share);
    if (!is_first) {
      far = ahead;
    } else if (!is_last) {
      for (std::int64_t i = 0; i < share; i += 64) __builtin_prefetch(ahead + i, 0, 2);
    }
  }
}

// The scores of all rows, which see the same keys, from the cache in place. The first rows fetch
// from memory, those after them the keys that come next. In a task's first range the next panel's
// keys are fetched from memory, too.
template <class V, class Rows, int NV, int kMax>
inline void score_in_place(const RangeRows& rows, const RangeMemory& memory) {
  constexpr std::int32_t kKeys = NV * V::kWidth;
  const KvLayout& layout = rows.task->args->layout;
  const std::int64_t groups = layout.row_dims() / Rows::kGroup;
  const std::int64_t stride = rows.part.stride;
  const auto queries_of = [&](std::int32_t row) { return rows.scratch.queries + row * stride; };
  const bool is_first = is_first_range(rows);
  NextRange ahead = next_range<Rows>(rows, memory);
  KeyPanel panel;
  for (std::int32_t key = rows.keys.begin / kKeys * kKeys; key < rows.keys.end; key += kKeys) {
    float* const scores = rows.scratch.scores + key;
    panel = find_keys<V, NV>(memory, key);
    const std::int32_t next = key + kKeys < rows.keys.end ? key + kKeys : key;
    find_far<V, Rows, NV>(rows, memory, key, ahead, panel);
    for (int v = 0; v < NV; v += kFetchVectors<V>) {
      panel.near[v / kFetchVectors<V>] = memory.keys[next / V::kWidth + v];
    }
    if (is_first) {
      const std::int32_t end = key + 2 * kKeys < rows.keys.end ? key + 2 * kKeys : rows.keys.end;
      fetch_keys<V>(memory, {key + kKeys, end}, groups, panel.step);
    }
    std::int32_t row = rows.begin;
    if constexpr (kFetchesBoth<Rows, kMax>) {
      if (layout.has_values() && many_in_one_pass<kMax>(rows)) {
        score_rows<V, Rows, kMax, NV, Fetch::kBoth>(rows.end - row, queries_of(row), stride, panel,
                                                    groups,
                                                    scores + std::int64_t{row} * kRangeKeys);
        continue;
      }
    }
    if (layout.has_values()) {
      score_rows<V, Rows, kMax, NV, Fetch::kFar>(next_rows(rows.end - row, kMax), queries_of(row),
                                                 stride, panel, groups,
                                                 scores + std::int64_t{row} * kRangeKeys);
      row += kMax;
    }
    for (; row < rows.end; row += kMax) {
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

// What each vector of `keys` fetches of the next range while NV vectors of columns are added.
template <class V, class Rows, int NV>
inline void find_far(KeySpan keys, NextRange& ahead, const std::byte** far) {
  constexpr std::int64_t kShare = std::int64_t{NV} * V::kWidth * V::kWidth * Rows::kBytes;
  const int end = (keys.end + V::kWidth - 1) / V::kWidth;
  for (int v = keys.begin / V::kWidth; v < end; ++v) far[v] = ahead.take(kShare);
}

// NV vectors of columns of all rows, kMax rows at a time. The first ones fetch from memory, those
// after them as kLater says.
template <class V, class Rows, int NV, int kMax, Fetch kLater>
inline void add_passes(const RangeRows& rows, const ValuePanel& values, std::int64_t column) {
  const std::int64_t stride = rows.part.stride;
  const auto weights_of = [&](std::int32_t row) {
    return rows.scratch.scores + std::int64_t{row} * kRangeKeys;
  };
  const auto sums_of = [&](std::int32_t row) { return rows.part.sums + row * stride + column; };
  std::int32_t row = rows.begin;
  if constexpr (kFetchesBoth<Rows, kMax> && kLater == Fetch::kNear) {
    if (many_in_one_pass<kMax>(rows)) {
      add_rows<V, Rows, kMax, NV, Fetch::kBoth>(rows.end - row, weights_of(row), values,
                                                sums_of(row), stride);
      return;
    }
  }
  add_rows<V, Rows, kMax, NV, Fetch::kFar>(next_rows(rows.end - row, kMax), weights_of(row), values,
                                           sums_of(row), stride);
  for (row += kMax; row < rows.end; row += kMax) {
    add_rows<V, Rows, kMax, NV, kLater>(next_rows(rows.end - row, kMax), weights_of(row), values,
                                        sums_of(row), stride);
  }
}

// Some columns of all rows for some keys. The first rows fetch from memory, those after them the
// columns that come next.
template <class V, class Rows, int NV, int kMax>
inline void add_columns(const RangeRows& rows, const RangeMemory& memory, KeySpan keys,
                        std::int64_t column, NextRange& ahead) {
  const KvLayout& layout = rows.task->args->layout;
  const auto row_bytes = static_cast<std::int64_t>(layout.value_row_bytes());
  const std::byte* far[RangeMemory::kVectors];
  find_far<V, Rows, NV>(keys, ahead, far);
  ValuePanel values;
  values.vectors = memory.values;
  values.group_bytes = Rows::kGroup * row_bytes;
  values.keys = keys;
  values.column = column * Rows::kGroup * Rows::kBytes;
  values.far = far;
  const std::int64_t next =
      column + 2 * NV * V::kWidth <= layout.value_row_dims() ? column + NV * V::kWidth : column;
  values.near_column = next * Rows::kGroup * Rows::kBytes;
  add_passes<V, Rows, NV, kMax, Fetch::kNear>(rows, values, column);
}

// The same of latents, which are laid as values that are apart first.
template <class V, class Rows>
inline void add_latent_columns(const RangeRows& rows, const RangeMemory& memory,
                               std::int64_t column, NextRange& ahead) {
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  const std::byte* vectors[RangeMemory::kVectors];
  transpose_latents<V, Rows>(rows, memory, column, kColumns, rows.scratch.values, vectors);
  const std::byte* far[RangeMemory::kVectors];
  find_far<V, Rows, 2>(rows.keys, ahead, far);
  ValuePanel values;
  values.vectors = vectors;
  values.group_bytes = kColumns * Rows::kGroup * Rows::kBytes;
  values.keys = rows.keys;
  values.column = 0;
  values.far = far;
  add_passes<V, Rows, 2, kRowsInPlace<V>, Fetch::kNone>(rows, values, column);
}

// All columns of all rows, which see the same keys, from the cache in place.
template <class V, class Rows>
inline void add_in_place(const RangeRows& rows, const RangeMemory& memory) {
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  const KvLayout& layout = rows.task->args->layout;
  const std::int64_t dims = layout.value_row_dims();
  NextRange ahead = next_range<Rows>(rows, memory);
  if (fetches_ahead<Rows>(rows)) ahead.skip(dims * kRangeKeys * Rows::kBytes);
  clear_sums<V>(rows, 0, dims);
  if (!layout.has_values()) {
    for (std::int64_t column = 0; column < dims; column += kColumns) {
      add_latent_columns<V, Rows>(rows, memory, column, ahead);
    }
    return;
  }
  const std::int32_t num_rows = rows.end - rows.begin;
  const bool in_pieces = V::kWidth == 16 && num_rows < kManyRows;
  for (KeySpan keys = rows.keys; keys.begin < rows.keys.end; keys.begin = keys.end) {
    const std::int32_t piece_end = (keys.begin / kPieceKeys + 1) * kPieceKeys;
    keys.end = in_pieces && piece_end < rows.keys.end ? piece_end : rows.keys.end;
    std::int64_t column = 0;
    if (num_rows <= kFewRows) {  // more columns, to have sums enough
      for (; column + 2 * kColumns <= dims; column += 2 * kColumns) {
        add_columns<V, Rows, 4, kFewRows>(rows, memory, keys, column, ahead);
      }
    }
    for (; column < dims; column += kColumns) {
      add_columns<V, Rows, 2, kRowsInPlace<V>>(rows, memory, keys, column, ahead);
    }
  }
}

}  // namespace quire
