// Where the keys and values of a range lie in the paged cache, and their panels of floats, over a
// vector type V.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_tile.inl.h"
#include "kernels/row_kernels.h"

namespace quire {

// The rows of a task in one range of keys.
struct RangeRows {
  const AttentionTask* task;
  AttentionScratch scratch;
  PartialResults part;
  std::int32_t group;  // heads of a query
  std::int32_t begin;  // rows that see keys of the range
  std::int32_t end;
  std::int32_t key_start;  // position of the range's first key
  KeySpan keys;            // that some row sees
};

// The row of the step, and the position in its sequence, of query `i` of a task.
[[gnu::always_inline]] inline std::int32_t query_row(const AttentionTask& task, std::int32_t i) {
  return task.shared_queries == nullptr ? task.query_begin + i : task.shared_queries[i];
}
[[gnu::always_inline]] inline std::int32_t position_of(const AttentionTask& task, std::int32_t i) {
  return task.first_position + (task.shared_queries == nullptr ? i : 0);
}

// The keys of the range that a row sees.
[[gnu::always_inline]] inline KeySpan keys_of_row(const RangeRows& rows, std::int32_t row) {
  const std::int32_t position = position_of(*rows.task, row / rows.group);
  const std::int32_t begin = first_visible_key(rows.task->args->window, position) - rows.key_start;
  const std::int32_t end = position + 1 - rows.key_start;
  return {begin > 0 ? begin : 0, end < kRangeKeys ? end : kRangeKeys};
}

// The keys' values in the cache, in pieces of a block. With each goes the block that far into the
// next range, whose keys are fetched meanwhile, or the sequence's last.
[[gnu::always_inline]] inline ValueSegments find_values(const RangeRows& rows,
                                                        ValueSegment* segments) {
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  const std::byte* const kv = task.args->kv;
  ValueSegments values = {segments, 0, static_cast<std::int64_t>(layout.row_bytes()), 0, 0};
  const std::int32_t first = rows.key_start + rows.keys.begin;
  std::int32_t index = first / layout.block_size;
  std::int32_t slot = first % layout.block_size;
  const std::int32_t ahead = kRangeKeys / layout.block_size;
  const std::int32_t last =
      position_of(task, task.query_end - task.query_begin - 1) / layout.block_size;
  for (std::int32_t key = rows.keys.begin; key < rows.keys.end; ++index, slot = 0) {
    ValueSegment& segment = segments[values.count++];
    segment.rows = kv + layout.value_offset(task.block_table[index], task.kv_head, slot);
    const std::int32_t next = index + ahead < last ? index + ahead : last;
    segment.prefetch = kv + layout.keys_offset(task.block_table[next], task.kv_head);
    segment.begin = key;
    key += layout.block_size - slot;
    if (key > rows.keys.end) key = rows.keys.end;
    segment.end = key;
  }
  return values;
}

// Copies the scales of the range's keys and values to scratch.
[[gnu::always_inline]] inline void find_scales(const RangeRows& rows, const ValueSegments& values) {
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  for (std::int32_t s = 0; s < values.count; ++s) {
    const ValueSegment& segment = values.segments[s];
    const std::int32_t position = rows.key_start + segment.begin;
    const BlockId block = task.block_table[position / layout.block_size];
    const std::int32_t slot = position % layout.block_size;
    const auto bytes = static_cast<std::size_t>(segment.end - segment.begin) * sizeof(float);
    __builtin_memcpy(rows.scratch.key_scales + segment.begin,
                     task.args->kv + layout.key_scale_offset(block, task.kv_head, slot), bytes);
    __builtin_memcpy(rows.scratch.value_scales + segment.begin,
                     task.args->kv + layout.value_scale_offset(block, task.kv_head, slot), bytes);
  }
}

// Keys of blocks that are no whole vectors, side by side in scratch. What lies outside of the
// range's keys holds anything.
template <class V, class Rows, int NV>
inline KeyPanel gather_keys(const RangeRows& rows, std::int32_t first) {
  constexpr int kPiece = Rows::kKeyGroup * Rows::kBytes;
  constexpr std::int32_t kKeys = NV * V::kWidth;
  static_assert(kKeys <= AttentionScratch::kPanelKeys);
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  const std::int32_t groups = layout.row_dims() / Rows::kKeyGroup;
  const std::int64_t step = std::int64_t{layout.block_size} * kPiece;
  auto* const to = reinterpret_cast<std::byte*>(rows.scratch.raw_keys);
  const std::int32_t begin = first > rows.keys.begin ? first : rows.keys.begin;
  const std::int32_t end = first + kKeys < rows.keys.end ? first + kKeys : rows.keys.end;
  for (std::int32_t key = begin; key < end; ++key) {
    const std::int32_t position = rows.key_start + key;
    const std::byte* from =
        task.args->kv +
        layout.keys_offset(task.block_table[position / layout.block_size], task.kv_head) +
        layout.key_element_offset(0, position % layout.block_size);
    std::byte* lane = to + std::int64_t{key - first} * kPiece;
    for (std::int32_t g = 0; g < groups; ++g, from += step, lane += kKeys * kPiece) {
      __builtin_memcpy(lane, from, kPiece);
    }
  }
  KeyPanel panel = {};
  for (int v = 0; v < NV; ++v) panel.vectors[v] = to + std::int64_t{v} * V::kWidth * kPiece;
  panel.step = std::int64_t{kKeys} * kPiece;
  return panel;
}

// NV vectors of keys from `first` on, in the cache where its blocks are whole vectors. Lanes
// outside of the range's keys hold anything.
template <class V, class Rows, int NV>
inline KeyPanel find_keys(const RangeRows& rows, std::int32_t first) {
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  if (layout.block_size % V::kWidth != 0) return gather_keys<V, Rows, NV>(rows, first);
  const std::int32_t lowest = rows.keys.begin / V::kWidth * V::kWidth;
  const std::int32_t highest = (rows.keys.end - 1) / V::kWidth * V::kWidth;
  KeyPanel panel = {};
  for (int v = 0; v < NV; ++v) {
    std::int32_t key = first + v * V::kWidth;
    key = key < lowest ? lowest : (key > highest ? highest : key);
    const std::int32_t position = rows.key_start + key;
    panel.vectors[v] =
        task.args->kv +
        layout.keys_offset(task.block_table[position / layout.block_size], task.kv_head) +
        layout.key_element_offset(0, position % layout.block_size);
  }
  panel.step = std::int64_t{layout.block_size} * Rows::kKeyGroup * Rows::kBytes;
  return panel;
}

// Lets the panel's scores fetch the values of the same keys.
template <class V, int NV>
inline void fetch_values(const RangeRows& rows, std::int32_t first, std::int64_t groups,
                         KeyPanel& panel) {
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  for (int v = 0; v < NV / 2; ++v) {
    std::int32_t key = first + 2 * v * V::kWidth;
    if (key < rows.keys.begin) key = rows.keys.begin;
    if (key >= rows.keys.end) key = rows.keys.end - 1;
    const std::int32_t position = rows.key_start + key;
    panel.prefetch[v] =
        task.args->kv + layout.value_offset(task.block_table[position / layout.block_size],
                                            task.kv_head, position % layout.block_size);
  }
  panel.prefetch_step = 2 * V::kWidth * static_cast<std::int64_t>(layout.row_bytes()) / groups;
}

// Two vectors of keys from `first` on, as floats in scratch.
template <class V, class Rows>
inline KeyPanel pack_keys(const RangeRows& rows, std::int32_t first) {
  constexpr std::int64_t kKeys = 2 * V::kWidth;
  constexpr int kGroup = Rows::kKeyGroup;
  const KeyPanel raw = find_keys<V, Rows, 2>(rows, first);
  const std::int64_t groups = rows.task->args->layout.row_dims() / kGroup;
  float* to = rows.scratch.keys;
  for (std::int64_t g = 0; g < groups; ++g, to += kGroup * kKeys) {
    for (int v = 0; v < 2; ++v) {
      typename V::F x[kGroup];
      Rows::load_keys(raw.vectors[v] + g * raw.step, x);
      for (int d = 0; d < kGroup; ++d) V::store(to + d * kKeys + v * V::kWidth, x[d]);
    }
  }
  KeyPanel panel = {};
  panel.vectors[0] = reinterpret_cast<const std::byte*>(rows.scratch.keys);
  panel.vectors[1] = reinterpret_cast<const std::byte*>(rows.scratch.keys + V::kWidth);
  panel.step = kKeys * 4;
  return panel;
}

// Two vectors of columns of the range's values, as floats in scratch; beyond the row zeros.
template <class V, class Rows>
inline ValueSegment pack_values(const RangeRows& rows, const ValueSegments& values,
                                std::int64_t column) {
  using F = typename V::F;
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  const std::int64_t left = rows.task->args->layout.row_dims() - column;
  for (std::int32_t s = 0; s < values.count; ++s) {
    const ValueSegment& segment = values.segments[s];
    const std::byte* from = segment.rows + column * Rows::kBytes;
    float* to = rows.scratch.values + segment.begin * kColumns;
    for (std::int32_t key = segment.begin; key < segment.end; ++key) {
      F a;
      F b;
      if (left >= kColumns) {
        Rows::load_values(from, a, b);
      } else {
        std::byte padded[kColumns * Rows::kBytes] = {};
        __builtin_memcpy(padded, from, static_cast<std::size_t>(left * Rows::kBytes));
        Rows::load_values(padded, a, b);
      }
      Rows::order(a, b);
      V::store(to, a);
      V::store(to + V::kWidth, b);
      from += values.row_bytes;
      to += kColumns;
    }
  }
  return {reinterpret_cast<const std::byte*>(rows.scratch.values + rows.keys.begin * kColumns),
          nullptr, rows.keys.begin, rows.keys.end};
}

}  // namespace quire
