// Attention over a vector type V (vec_avx2.h, vec_avx512.h): FlashAttention's schedule over ranges
// of keys at fixed positions (kernels/attention_scratch.h). A task has the rows (queries times
// heads of one KV head) that share keys and values. For each range it computes their scores, panel
// by panel of keys, then their weights, then the weighted sums, some columns of the values at a
// time.
//
// One query reads the cache in place, each range's values fetched while its keys are worked on and
// the next range's keys while its values are. More queries get each panel as floats, made once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_panels.inl.h"
#include "kernels/cpu/attention_tile.inl.h"

namespace quire {

inline constexpr int kRowsInPlace = 4;                 // that share loads from the cache
inline constexpr int kFewRows = 2;                     // that share four vectors of them
inline constexpr std::int32_t kMostSharedInPlace = 8;  // rows of several sequences
inline constexpr int kRowsPacked = 6;                  // that share loads from a panel of floats
// Of values that all rows and columns pass over before the next: a quarter of the first cache.
inline constexpr std::int64_t kPieceBytes = 8192;

// Scores of `count` <= kMax rows; kMax bounds what is instantiated.
template <class V, class Rows, int kMax, int NV, bool kPrefetch>
inline void score_rows(int count, const float* queries, std::int64_t stride, const KeyPanel& panel,
                       std::int64_t groups, float* scores) {
  if constexpr (kMax > 1) {
    if (count < kMax) {
      score_rows<V, Rows, kMax - 1, NV, kPrefetch>(count, queries, stride, panel, groups, scores);
      return;
    }
  }
  score_panel<V, Rows, kMax, NV, kPrefetch>(queries, stride, panel, groups, scores);
}

template <class V, class Rows, int kMax, int NV, bool kPrefetch>
inline void add_rows(int count, const float* weights, const ValueSegments& values, KeySpan keys,
                     std::int64_t column, float* to, std::int64_t stride) {
  if constexpr (kMax > 1) {
    if (count < kMax) {
      add_rows<V, Rows, kMax - 1, NV, kPrefetch>(count, weights, values, keys, column, to, stride);
      return;
    }
  }
  add_values<V, Rows, kMax, NV, kPrefetch>(weights, values, keys, column, to, stride);
}

[[gnu::always_inline]] inline int next_rows(std::int32_t left, int most) {
  return left < most ? static_cast<int>(left) : most;
}

// The scores of all rows, which see the same keys, from the cache in place.
template <class V, class Rows, int NV, int kMax>
inline void score_in_place(const RangeRows& rows) {
  constexpr std::int32_t kKeys = NV * V::kWidth;
  const std::int64_t groups = rows.task->args->layout.row_dims() / Rows::kKeyGroup;
  const std::int64_t stride = rows.part.stride;
  for (std::int32_t key = rows.keys.begin / kKeys * kKeys; key < rows.keys.end; key += kKeys) {
    KeyPanel panel = find_keys<V, Rows, NV>(rows, key);
    fetch_values<V, NV>(rows, key, groups, panel);
    for (std::int32_t row = rows.begin; row < rows.end; row += kMax) {
      score_rows<V, Rows, kMax, NV, true>(
          next_rows(rows.end - row, kMax), rows.scratch.queries + row * stride, stride, panel,
          groups, rows.scratch.scores + std::int64_t{row} * kRangeKeys + key);
      panel.prefetch_step = 0;
    }
  }
}

// The same for rows of several queries, from panels of floats.
template <class V, class Rows>
inline void score_packed(const RangeRows& rows) {
  constexpr std::int32_t kKeys = 2 * V::kWidth;
  const std::int64_t dims = rows.task->args->layout.row_dims();
  const std::int64_t stride = rows.part.stride;
  for (std::int32_t key = rows.keys.begin / kKeys * kKeys; key < rows.keys.end; key += kKeys) {
    const KeyPanel panel = pack_keys<V, Rows>(rows, key);
    int count = 0;
    for (std::int32_t row = rows.begin; row < rows.end; row += count) {
      count = next_rows(rows.end - row, kRowsPacked);
      if (keys_of_row(rows, row).begin >= key + kKeys) break;  // and so for the rows after it
      if (keys_of_row(rows, row + count - 1).end <= key) continue;
      score_rows<V, F32Rows<V>, kRowsPacked, 2, false>(
          count, rows.scratch.queries + row * stride, stride, panel, dims,
          rows.scratch.scores + std::int64_t{row} * kRangeKeys + key);
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

template <class V, class Rows, int NV, int kMax>
inline void add_columns(const RangeRows& rows, ValueSegments values, std::int64_t column) {
  const std::int64_t stride = rows.part.stride;
  const std::int64_t bytes = column * Rows::kBytes;
  values.prefetch_offset = bytes * rows.task->args->layout.block_size;
  values.prefetch_step = std::int64_t{NV} * V::kWidth * Rows::kBytes;
  for (std::int32_t row = rows.begin; row < rows.end; row += kMax) {
    add_rows<V, Rows, kMax, NV, true>(
        next_rows(rows.end - row, kMax), rows.scratch.scores + std::int64_t{row} * kRangeKeys,
        values, rows.keys, bytes, rows.part.sums + row * stride + column, stride);
    values.prefetch_step = 0;
  }
}

// All columns of all rows, which see the same keys, from the cache in place: as many blocks at a
// time as the first cache holds while columns and rows pass over them.
template <class V, class Rows>
inline void add_in_place(const RangeRows& rows, const ValueSegments& values) {
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  const std::int64_t dims = rows.task->args->layout.row_dims();
  clear_sums<V>(rows, 0, dims);
  ValueSegments piece = values;
  for (std::int32_t first = 0; first < values.count; first += piece.count) {
    piece.segments = values.segments + first;
    piece.count = 1;
    while (first + piece.count < values.count &&
           (piece.segments[piece.count].end - piece.segments[0].begin) * values.row_bytes <=
               kPieceBytes) {
      ++piece.count;
    }
    std::int64_t column = 0;
    if (rows.end - rows.begin <= kFewRows) {  // more columns, to have sums enough
      for (; column + 2 * kColumns <= dims; column += 2 * kColumns) {
        add_columns<V, Rows, 4, kFewRows>(rows, piece, column);
      }
    }
    for (; column < dims; column += kColumns) {
      add_columns<V, Rows, 2, kRowsInPlace>(rows, piece, column);
    }
  }
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    float* const sums = rows.part.sums + row * rows.part.stride;
    for (std::int64_t i = 0; i < dims; i += kColumns) {
      typename V::F a = V::load(sums + i);
      typename V::F b = V::load(sums + i + V::kWidth);
      Rows::order(a, b);
      V::store(sums + i, a);
      V::store(sums + i + V::kWidth, b);
    }
  }
}

// Some columns of all rows, from a panel of floats. Rows that see different keys share what they
// have in common; each has its own before and after that, in the order of the keys.
template <class V>
inline void add_packed(const RangeRows& rows, const ValueSegments& values, std::int64_t column) {
  const std::int64_t stride = rows.part.stride;
  clear_sums<V>(rows, column, column + 2 * V::kWidth);
  int count = 0;
  for (std::int32_t row = rows.begin; row < rows.end; row += count) {
    count = next_rows(rows.end - row, kRowsPacked);
    const KeySpan common = {keys_of_row(rows, row + count - 1).begin, keys_of_row(rows, row).end};
    const float* const weights = rows.scratch.scores + std::int64_t{row} * kRangeKeys;
    float* const to = rows.part.sums + row * stride + column;
    const auto add_alone = [&](int r, KeySpan keys) {
      if (keys.begin < keys.end) {
        add_values<V, F32Rows<V>, 1, 2, false>(weights + r * std::int64_t{kRangeKeys}, values, keys,
                                               0, to + r * stride, stride);
      }
    };
    const bool any = common.begin < common.end;
    for (int r = 0; r < count; ++r) {
      const KeySpan keys = keys_of_row(rows, row + r);
      add_alone(r, {keys.begin, any ? common.begin : keys.end});
    }
    if (!any) continue;
    add_rows<V, F32Rows<V>, kRowsPacked, 2, false>(count, weights, values, common, 0, to, stride);
    for (int r = 0; r < count; ++r) add_alone(r, {common.end, keys_of_row(rows, row + r).end});
  }
}

// The weighted sums of the values.
template <class V, class Rows>
inline void add_range(const RangeRows& rows, const ValueSegments& values, bool in_place) {
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  const std::int64_t dims = rows.task->args->layout.row_dims();
  if (in_place && dims % kColumns == 0) {
    add_in_place<V, Rows>(rows, values);
    return;
  }
  for (std::int64_t column = 0; column < dims; column += kColumns) {
    const ValueSegment packed = pack_values<V, Rows>(rows, values, column);
    add_packed<V>(rows, {&packed, 1, kColumns * 4, 0, 0}, column);
  }
}

// One range of keys, for the rows that see any of it.
template <class V, class Rows>
inline void attend_range(const RangeRows& rows) {
  const AttentionTask& task = *rows.task;
  // Where all rows see the same keys, and not so many pass over them that panels of floats pay.
  const bool in_place =
      task.query_end - task.query_begin == 1 ||
      (task.shared_queries != nullptr && rows.end - rows.begin <= kMostSharedInPlace);
  ValueSegment segments[kRangeKeys];
  const ValueSegments values = find_values(rows, segments);
  if (!in_place) {
    score_packed<V, Rows>(rows);
  } else if (rows.end - rows.begin <= kFewRows) {
    score_in_place<V, Rows, 4, kFewRows>(rows);
  } else {
    score_in_place<V, Rows, 2, kRowsInPlace>(rows);
  }
  const bool scaled = task.args->layout.has_scales();
  if (scaled) find_scales(rows, values);
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    float* const scores = rows.scratch.scores + std::int64_t{row} * kRangeKeys;
    const KeySpan keys = keys_of_row(rows, row);
    if (scaled) {
      weigh_row<V, true>(scores, keys, rows.scratch.key_scales, rows.scratch.value_scales,
                         rows.part.maxima[row], rows.part.totals[row]);
    } else {
      weigh_row<V, false>(scores, keys, nullptr, nullptr, rows.part.maxima[row],
                          rows.part.totals[row]);
    }
  }
  add_range<V, Rows>(rows, values, in_place);
}

// The task's queries, times the scale of the scores, for powers of two; padded with zeros.
template <class V>
inline void load_queries(const AttentionTask& task, std::int32_t group, std::int64_t num_rows,
                         std::int64_t stride, float* to) {
  const AttentionArgs& args = *task.args;
  const std::int32_t head_dim = args.layout.head_dim;
  const typename V::F scale = V::set1(args.scale * 0x1.715476p+0F);  // log2(e)
  for (std::int64_t row = 0; row < num_rows; ++row, to += stride) {
    const auto query = static_cast<std::int32_t>(row / group);
    const float* const from = args.q + query_row(task, query) * args.q_stride +
                              (std::int64_t{task.kv_head} * group + row % group) * head_dim;
    for (std::int32_t i = 0; i < stride; i += V::kWidth) {
      const std::int32_t left = head_dim - i;
      V::store(to + i,
               V::mul(scale, left >= V::kWidth ? V::load(from + i)
                                               : V::load_first(from + i, left > 0 ? left : 0)));
    }
  }
}

[[gnu::always_inline]] inline float* output_row(const AttentionTask& task, std::int32_t group,
                                                std::int64_t row) {
  const AttentionArgs& args = *task.args;
  return args.out + ((task.query_begin + row / group) * args.num_heads +
                     std::int64_t{task.kv_head} * group + row % group) *
                        args.layout.head_dim;
}

[[gnu::always_inline]] inline void copy_rows(const PartialResults& from, std::int64_t from_row,
                                             std::int64_t count, const PartialResults& to,
                                             std::int64_t to_row) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  __builtin_memcpy(to.sums + to_row * to.stride, from.sums + from_row * from.stride,
                   bytes * static_cast<std::size_t>(from.stride));
  __builtin_memcpy(to.maxima + to_row, from.maxima + from_row, bytes);
  __builtin_memcpy(to.totals + to_row, from.totals + from_row, bytes);
}

template <class V, class Rows>
inline void attend(const AttentionTask& task) {
  const AttentionArgs& args = *task.args;
  const std::int32_t head_dim = args.layout.head_dim;
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  const std::int32_t queries = task.query_end - task.query_begin;
  const std::int32_t num_rows = queries * group;
  const bool shared = task.shared_queries != nullptr;
  RangeRows rows;
  rows.task = &task;
  rows.scratch = AttentionScratch::at(task.scratch, head_dim, num_rows);
  rows.group = group;
  load_queries<V>(task, group, num_rows, padded_head(head_dim), rows.scratch.queries);
  const bool continues = !shared && task.state != nullptr;
  if (continues) {
    copy_rows(PartialResults::at(task.state, head_dim, group), 0, num_rows, rows.scratch.sum, 0);
  }
  const std::int64_t partial_floats = PartialResults::floats(head_dim, num_rows);
  for (std::int32_t range = task.range_begin; range < task.range_end; ++range) {
    rows.key_start = range * kRangeKeys;
    const std::int32_t behind = rows.key_start - task.first_position;
    rows.begin = behind > 0 ? behind * group : 0;
    rows.end = num_rows;
    if (args.window > 0 && behind + kRangeKeys + args.window - 1 < queries) {
      rows.end = (behind + kRangeKeys + args.window - 1) * group;
    }
    rows.keys = {keys_of_row(rows, rows.begin).begin, keys_of_row(rows, rows.end - 1).end};
    rows.part =
        task.partials == nullptr
            ? rows.scratch.part
            : PartialResults::at(task.partials + range * partial_floats, head_dim, num_rows);
    attend_range<V, Rows>(rows);
    if (task.partials != nullptr) continue;
    for (std::int32_t row = rows.begin; row < rows.end; ++row) {
      const std::int32_t first =
          continues ? -1
                    : first_visible_key(args.window, position_of(task, row / group)) / kRangeKeys;
      join_row<V>(rows.scratch.sum, rows.part, row, range == first);
    }
  }
  if (task.partials != nullptr) return;
  if (shared) {
    for (std::int32_t query = 0; query < queries; ++query) {
      const PartialResults state =
          PartialResults::at(task.state + query * task.state_stride, head_dim, group);
      copy_rows(rows.scratch.sum, std::int64_t{query} * group, group, state, 0);
    }
    return;
  }
  for (std::int32_t row = 0; row < num_rows; ++row) {
    finish_row<V>(rows.scratch.sum, row, head_dim, output_row(task, group, row));
  }
}

template <class V>
inline void vec_attention(const AttentionTask& task) {
  switch (task.args->layout.dtype) {
    case DType::kBF16:
      attend<V, Bf16Rows<V>>(task);
      return;
    case DType::kF8E4M3:
      attend<V, Fp8Rows<V>>(task);
      return;
    case DType::kI8:
      attend<V, CodeRows<V>>(task);
      return;
    default:
      attend<V, F32Rows<V>>(task);
  }
}

// One query's: its rows have all ranges in common.
template <class V>
inline void vec_merge_attention(const AttentionTask& task) {
  const AttentionArgs& args = *task.args;
  const std::int32_t head_dim = args.layout.head_dim;
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  const std::int64_t floats = PartialResults::floats(head_dim, group);
  const auto of_range = [&](std::int32_t range) {
    return PartialResults::at(task.partials + range * floats, head_dim, group);
  };
  const bool continues = task.state != nullptr;
  const PartialResults sum =
      continues ? PartialResults::at(task.state, head_dim, group) : of_range(task.range_begin);
  for (std::int32_t row = 0; row < group; ++row) {
    for (std::int32_t range = task.range_begin + (continues ? 0 : 1); range < task.range_end;
         ++range) {
      join_row<V>(sum, of_range(range), row, false);
    }
    finish_row<V>(sum, row, head_dim, output_row(task, group, row));
  }
}

}  // namespace quire
