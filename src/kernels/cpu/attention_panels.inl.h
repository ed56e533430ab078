// Where the keys and values of a range lie in the paged cache, and their panels, over a vector type
// V.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_tile.inl.h"
#include "kernels/cpu/latent_values.inl.h"
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
  const std::int32_t begin = first_visible_key(*rows.task->args, position) - rows.key_start;
  const std::int32_t end = position + 1 - rows.key_start;
  return {begin > 0 ? begin : 0, end < kRangeKeys ? end : kRangeKeys};
}

// Calls visit(key, end, index, slot) for the pieces that lie in one block each, of the keys that
// some row sees: [key, end) of the range, in the sequence's block `index` from `slot` on.
template <typename Visit>
[[gnu::always_inline]] inline void for_each_block(const RangeRows& rows, const Visit& visit) {
  const std::int32_t block_size = rows.task->args->layout.block_size;
  const std::int32_t first = rows.key_start + rows.keys.begin;
  std::int32_t index = first / block_size;
  std::int32_t slot = first % block_size;
  for (std::int32_t key = rows.keys.begin; key < rows.keys.end; ++index, slot = 0) {
    std::int32_t end = key + block_size - slot;
    if (end > rows.keys.end) end = rows.keys.end;
    visit(key, end, index, slot);
    key = end;
  }
}

// Where the keys and values of a range lie. For each vector of keys that some row sees anything of,
// and for the whole of the panels that it is in:
struct RangeMemory {
  static constexpr int kVectors = kRangeKeys / 8;

  const std::byte* keys[kVectors];
  const std::byte* values[kVectors];     // of the first of these keys
  const std::byte* next_keys[kVectors];  // of each block of the next range, the first key
  std::int32_t block_size;               // of these blocks
  std::int64_t key_step;                 // bytes from one group of dimensions to the next
};

// Panels reach beyond the vectors that some row sees, where no block may be: repeats the outermost.
template <class V>
inline void fill_panels(const RangeRows& rows, RangeMemory& memory) {
  const auto copy = [&](int to, int from) {
    memory.keys[to] = memory.keys[from];
    memory.values[to] = memory.values[from];
  };
  const int begin = rows.keys.begin / V::kWidth;
  const int end = (rows.keys.end + V::kWidth - 1) / V::kWidth;
  for (int i = begin; i % kMaxPanelVectors != 0; --i) copy(i - 1, begin);
  for (int i = end; i % kMaxPanelVectors != 0; ++i) copy(i, end - 1);
}

// In the cache, whose blocks are whole vectors of keys.
template <class V, class Rows>
inline void find_in_cache(const RangeRows& rows, RangeMemory& memory) {
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  const BlockId* const blocks = task.block_table;
  const std::byte* const keys = task.args->kv + layout.keys_offset(0, task.kv_head);
  const std::byte* const values = task.args->kv + layout.values_offset(0, task.kv_head);
  const auto block_stride = static_cast<std::int64_t>(layout.block_stride());
  const auto key_bytes = static_cast<std::int64_t>(layout.key_element_offset(0, V::kWidth));
  const auto value_bytes = V::kWidth * static_cast<std::int64_t>(layout.row_bytes());
  for_each_block(rows,
                 [&](std::int32_t key, std::int32_t end, std::int32_t index, std::int32_t slot) {
                   const std::int64_t offset = blocks[index] * block_stride;
                   std::int64_t lane = slot / V::kWidth;
                   for (std::int32_t v = key / V::kWidth; v * V::kWidth < end; ++v, ++lane) {
                     memory.keys[v] = keys + offset + lane * key_bytes;
                     memory.values[v] = values + offset + lane * value_bytes;
                   }
                 });
  memory.block_size = layout.block_size;
  std::int32_t next = (rows.key_start + kRangeKeys) / layout.block_size;
  const std::int32_t last =
      position_of(task, task.query_end - task.query_begin - 1) / layout.block_size;
  for (std::int32_t i = 0; i * layout.block_size < kRangeKeys; ++i, ++next) {
    memory.next_keys[i] = keys + blocks[next < last ? next : last] * block_stride;
  }
  memory.key_step = std::int64_t{layout.block_size} * Rows::kGroup * Rows::kBytes;
  fill_panels<V>(rows, memory);
}

// Copies the range's keys and values to scratch, from a cache whose blocks are no whole vectors, as
// a block of all keys of a range would hold them. What lies outside of the range's keys holds
// anything.
template <class V, class Rows>
inline void gather_range(const RangeRows& rows, RangeMemory& memory) {
  constexpr int kPiece = Rows::kGroup * Rows::kBytes;
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  KvLayout range_layout = layout;
  range_layout.block_size = kRangeKeys;
  const std::int32_t dims = layout.row_dims();
  auto* const keys_to = reinterpret_cast<std::byte*>(rows.scratch.raw_keys);
  auto* const values_to = reinterpret_cast<std::byte*>(rows.scratch.raw_values);
  const bool same_groups = layout.value_group() == Rows::kGroup;
  for_each_block(
      rows, [&](std::int32_t key, std::int32_t end, std::int32_t index, std::int32_t slot) {
        const std::byte* const keys =
            task.args->kv + layout.keys_offset(task.block_table[index], task.kv_head);
        const std::byte* const values =
            task.args->kv + layout.values_offset(task.block_table[index], task.kv_head);
        for (; key < end; ++key, ++slot) {
          for (std::int32_t dim = 0; dim < dims; dim += Rows::kGroup) {
            __builtin_memcpy(keys_to + range_layout.key_element_offset(dim, key),
                             keys + layout.key_element_offset(dim, slot), kPiece);
          }
          if (!layout.has_values()) continue;
          if (!same_groups) {
            for (std::int32_t dim = 0; dim < dims; ++dim) {
              __builtin_memcpy(values_to + range_layout.value_element_offset(dim, key),
                               values + layout.value_element_offset(dim, slot), Rows::kBytes);
            }
          } else if (slot % Rows::kGroup == 0 || key == rows.keys.begin) {
            __builtin_memcpy(values_to + range_layout.value_element_offset(0, key) -
                                 std::int64_t{slot % Rows::kGroup} * Rows::kBytes,
                             values + layout.value_element_offset(0, slot - slot % Rows::kGroup),
                             static_cast<std::size_t>(dims) * kPiece);
          }
        }
      });
  const auto value_bytes = V::kWidth * static_cast<std::int64_t>(layout.row_bytes());
  const int vectors_end = (rows.keys.end + V::kWidth - 1) / V::kWidth;
  for (int v = rows.keys.begin / V::kWidth; v < vectors_end; ++v) {
    memory.keys[v] = keys_to + std::int64_t{v} * V::kWidth * kPiece;
    memory.values[v] = values_to + v * value_bytes;
  }
  memory.next_keys[0] = keys_to;
  memory.block_size = kRangeKeys;
  memory.key_step = std::int64_t{kRangeKeys} * kPiece;
  fill_panels<V>(rows, memory);
}

// Copies columns [column, column + dims) of the values that are parts of the range's keys
// to `to`, as values lie that are apart: [keys / kGroup][dims][kGroup]. Gives where the values of
// each vector of keys are.
template <class V, class Rows>
inline void transpose_latents(const RangeRows& rows, const RangeMemory& memory, std::int64_t column,
                              std::int64_t dims, float* to, const std::byte** vectors) {
  const KvLayout& layout = rows.task->args->layout;
  const std::int64_t first =
      (layout.head_dim - layout.latent_dims + column) / Rows::kGroup * memory.key_step;
  auto* values = reinterpret_cast<std::byte*>(to);
  const int end = (rows.keys.end + V::kWidth - 1) / V::kWidth;
  for (int v = rows.keys.begin / V::kWidth; v < end; ++v) {
    vectors[v] = values;
    transpose_latent_keys<Rows, V::kWidth>(memory.keys[v] + first, memory.key_step, dims, values);
    values += V::kWidth * dims * Rows::kBytes;
  }
}

template <class V, class Rows>
inline void find_range(const RangeRows& rows, RangeMemory& memory) {
  if (rows.task->args->layout.block_size % V::kWidth == 0) {
    find_in_cache<V, Rows>(rows, memory);
  } else {
    gather_range<V, Rows>(rows, memory);
  }
}

// Values that are parts of the keys get a place of their own, in scratch.
template <class V, class Rows>
inline void find_latents(const RangeRows& rows, RangeMemory& memory) {
  const KvLayout& layout = rows.task->args->layout;
  if (layout.has_values()) return;
  transpose_latents<V, Rows>(rows, memory, 0, layout.value_row_dims(), rows.scratch.raw_values,
                             memory.values);
  fill_panels<V>(rows, memory);
}

// Copies the scales of the range's keys and values to scratch.
template <class V>
inline void find_scales(const RangeRows& rows) {
  const AttentionTask& task = *rows.task;
  const KvLayout& layout = task.args->layout;
  for_each_block(rows, [&](std::int32_t key, std::int32_t end, std::int32_t index,
                           std::int32_t slot) {
    const BlockId block = task.block_table[index];
    const auto bytes = static_cast<std::size_t>(end - key) * sizeof(float);
    __builtin_memcpy(rows.scratch.key_scales + key,
                     task.args->kv + layout.key_scale_offset(block, task.kv_head, slot), bytes);
    __builtin_memcpy(rows.scratch.value_scales + key,
                     task.args->kv + layout.value_scale_offset(block, task.kv_head, slot), bytes);
  });
}

// NV vectors of keys from `first` on. Lanes outside of the range's keys are undefined.
template <class V, int NV>
[[gnu::always_inline]] inline KeyPanel find_keys(const RangeMemory& memory, std::int32_t first) {
  KeyPanel panel;
  for (int v = 0; v < NV; ++v) panel.vectors[v] = memory.keys[first / V::kWidth + v];
  panel.step = memory.key_step;
  return panel;
}

// Two vectors of keys from `first` on, as Rows::Panels reads them, in scratch.
template <class V, class Rows>
inline KeyPanel pack_keys(const RangeRows& rows, const RangeMemory& memory, std::int32_t first) {
  constexpr std::int64_t kKeys = 2 * V::kWidth;
  constexpr int kVectors = kGroupVectors<Rows>;
  const KeyPanel raw = find_keys<V, 2>(memory, first);
  const std::int64_t groups = rows.task->args->layout.row_dims() / Rows::kGroup;
  float* to = rows.scratch.keys;
  for (std::int64_t g = 0; g < groups; ++g, to += kVectors * kKeys) {
    for (int v = 0; v < 2; ++v) {
      typename V::F x[kVectors];
      Rows::load(raw.vectors[v] + g * raw.step, x);
      for (int i = 0; i < kVectors; ++i) V::store(to + i * kKeys + v * V::kWidth, x[i]);
    }
  }
  KeyPanel panel = {};
  panel.vectors[0] = reinterpret_cast<const std::byte*>(rows.scratch.keys);
  panel.vectors[1] = reinterpret_cast<const std::byte*>(rows.scratch.keys + V::kWidth);
  panel.step = kKeys * 4;
  return panel;
}

// Two vectors of columns of the range's values in scratch, as Rows::Panels reads them:
// [kRangeKeys / Panels::kGroup] groups of them. Columns that the values lack are zeros.
template <class V, class Rows>
inline void pack_values(const RangeRows& rows, const RangeMemory& memory, std::int64_t column) {
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  constexpr int kGroup = Rows::kGroup;
  constexpr std::int64_t kLaneBytes = std::int64_t{kGroup} * Rows::kBytes;
  const std::int64_t dims = rows.task->args->layout.value_row_dims();
  const std::int64_t columns = dims - column < kColumns ? dims - column : kColumns;
  alignas(64) std::byte padded[kColumns * kLaneBytes] = {};
  for (std::int32_t key = rows.keys.begin / kGroup * kGroup; key < rows.keys.end; key += kGroup) {
    const std::byte* from =
        memory.values[key / V::kWidth] + (key % V::kWidth / kGroup * dims + column) * kLaneBytes;
    if (columns < kColumns) {
      __builtin_memcpy(padded, from, static_cast<std::size_t>(columns * kLaneBytes));
      from = padded;
    }
    float* to = rows.scratch.values + key / Rows::kPerLane * kColumns;
    for (int v = 0; v < 2; ++v, to += V::kWidth) {
      typename V::F x[kGroupVectors<Rows>];
      Rows::load(from + v * V::kWidth * kLaneBytes, x);
      for (int i = 0; i < kGroupVectors<Rows>; ++i) V::store(to + i * kColumns, x[i]);
    }
  }
}

}  // namespace quire
