// Attention over a vector type V (vec_avx2.h, vec_avx512.h): FlashAttention's schedule over ranges
// of keys at fixed positions (kernels/attention_scratch.h). A task has the rows (queries times
// heads of one KV head) that share keys and values. For each range it computes their scores, panel
// by panel of keys, then their weights, then the weighted sums, some columns of the values at a
// time.
//
// One query reads the cache in place (attention_in_place.inl.h). More queries get panels that were
// made once of what they all see, expanded to what is multiplied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/attention_in_place.inl.h"
#include "kernels/cpu/attention_integers.inl.h"
#include "kernels/cpu/attention_panels.inl.h"
#include "kernels/cpu/attention_tile.inl.h"

namespace quire {

inline constexpr std::int32_t kMostSharedInPlace = 8;  // rows of several sequences
template <class V>
inline constexpr int kRowsPacked = V::kWidth == 16 ? 8 : 6;  // that share loads from a panel
inline constexpr std::int32_t kRowsWeighed = 8;              // whose scores stay in the L1 cache

// The scores of rows of several queries, from panels, or from the cache where its keys are pairs
// that are multiplied as they are.
template <class V, class Rows>
inline void score_packed(const RangeRows& rows, const RangeMemory& memory) {
  constexpr std::int32_t kKeys = 2 * V::kWidth;
  using Keys = typename Rows::Panels;
  constexpr bool kAsTheyAre = Rows::kPerLane == 2 && std::is_same_v<Keys, Rows>;
  const std::int64_t groups = rows.task->args->layout.row_dims() / Keys::kGroup;
  const std::int64_t stride = rows.part.stride;
  for (std::int32_t key = rows.keys.begin / kKeys * kKeys; key < rows.keys.end; key += kKeys) {
    KeyPanel panel;
    if constexpr (kAsTheyAre) {
      panel = find_keys<V, 2>(memory, key);
    } else {
      panel = pack_keys<V, Rows>(rows, memory, key);
    }
    int count = 0;
    for (std::int32_t row = rows.begin; row < rows.end; row += count) {
      count = next_rows(rows.end - row, kRowsPacked<V>);
      if (keys_of_row(rows, row).begin >= key + kKeys) break;  // and so for the rows after it
      if (keys_of_row(rows, row + count - 1).end <= key) continue;
      score_rows<V, Keys, kRowsPacked<V>, 2, Fetch::kNone>(
          count, rows.scratch.queries + row * stride, stride, panel, groups,
          rows.scratch.scores + std::int64_t{row} * kRangeKeys + key);
    }
  }
}

// What becomes of a row's scores, which are for powers of two, before they are weighed.
template <class V>
[[gnu::noinline]] void change_scores(const RangeRows& rows, std::int32_t row, KeySpan keys,
                                     float* scores) {
  constexpr float kLog2E = 0x1.715476p+0F;
  const AttentionTask& task = *rows.task;
  const AttentionArgs& args = *task.args;
  if (args.soft_cap > 0.0F) cap_scores<V>(scores, keys, args.soft_cap * kLog2E);
  if (args.alibi_slopes == nullptr) return;
  const std::int32_t query = row / rows.group;
  const std::int32_t position =
      task.shared_positions == nullptr ? position_of(task, query) : task.shared_positions[query];
  add_distances<V>(scores, keys,
                   args.alibi_slopes[task.kv_head * rows.group + row % rows.group] * kLog2E,
                   rows.key_start - position);
}

// The weights of all rows, some at a time: the largest score of each, then the weights.
template <class V, class Rows>
inline void weigh_rows(const RangeRows& rows) {
  const AttentionScratch& scratch = rows.scratch;
  const AttentionArgs& args = *rows.task->args;
  const bool changed = args.soft_cap > 0.0F || args.alibi_slopes != nullptr;
  for (std::int32_t begin = rows.begin; begin < rows.end; begin += kRowsWeighed) {
    const std::int32_t end = begin + next_rows(rows.end - begin, kRowsWeighed);
    for (std::int32_t row = begin; row < end; ++row) {
      float* const scores = scratch.scores + std::int64_t{row} * kRangeKeys;
      const KeySpan keys = keys_of_row(rows, row);
      if constexpr (Rows::kIntegers) {
        const float step = scratch.queries[(row + 1) * rows.part.stride - 1];
        scale_scores<V>(scores, keys, step, scratch.key_scales);
      }
      if (changed) change_scores<V>(rows, row, keys, scores);
      rows.part.maxima[row] = largest_score<V>(scores, keys);
    }
    for (std::int32_t row = begin; row < end; ++row) {
      float* const scores = scratch.scores + std::int64_t{row} * kRangeKeys;
      const KeySpan keys = keys_of_row(rows, row);
      if constexpr (Rows::kIntegers) {
        rows.part.totals[row] =
            weigh_integers<V>(scores, keys, rows.part.maxima[row], scratch.value_scales);
      } else {
        rows.part.totals[row] = weigh_row<V, Rows>(scores, keys, rows.part.maxima[row]);
      }
    }
  }
}

// The keys of whole lanes of weights among some keys.
template <class Rows>
[[gnu::always_inline]] inline KeySpan whole_lanes(KeySpan keys) {
  constexpr int kLane = Rows::kPerLane;
  return {(keys.begin + kLane - 1) / kLane * kLane, keys.end / kLane * kLane};
}

// Some columns of all rows, from a panel in scratch. Rows that see different keys share what they
// have in common; each has its own before and after that, in the order of the keys.
template <class V, class Panels>
inline void add_packed(const RangeRows& rows, const RangeMemory& packed, std::int64_t column) {
  constexpr std::int64_t kGroupBytes = std::int64_t{Panels::kGroup} * Panels::kBytes;
  const std::int64_t stride = rows.part.stride;
  clear_sums<V>(rows, column, column + 2 * V::kWidth);
  int count = 0;
  for (std::int32_t row = rows.begin; row < rows.end; row += count) {
    count = next_rows(rows.end - row, kRowsPacked<V>);
    const KeySpan common =
        whole_lanes<Panels>({keys_of_row(rows, row + count - 1).begin, keys_of_row(rows, row).end});
    const float* const weights = rows.scratch.scores + std::int64_t{row} * kRangeKeys;
    float* const to = rows.part.sums + row * stride + column;
    const auto panel_of = [&](KeySpan keys) -> ValuePanel {
      return {packed.values, 2 * V::kWidth * kGroupBytes, keys, 0, nullptr, 0};
    };
    const auto add_alone = [&](int r, KeySpan keys) {
      if (keys.begin < keys.end) {
        add_values<V, Panels, 1, 2, Fetch::kNone>(weights + r * std::int64_t{kRangeKeys},
                                                  panel_of(keys), to + r * stride, stride);
      }
    };
    const bool any = common.begin < common.end;
    for (int r = 0; r < count; ++r) {
      const KeySpan keys = keys_of_row(rows, row + r);
      add_alone(r, {keys.begin, any ? common.begin : keys.end});
    }
    if (!any) continue;
    add_rows<V, Panels, kRowsPacked<V>, 2, Fetch::kNone>(count, weights, panel_of(common), to,
                                                         stride);
    for (int r = 0; r < count; ++r) add_alone(r, {common.end, keys_of_row(rows, row + r).end});
  }
}

// The weighted sums of the values.
template <class V, class Rows>
inline void add_range(const RangeRows& rows, RangeMemory& memory, bool same_keys) {
  using Panels = typename Rows::Panels;
  constexpr std::int64_t kColumns = 2 * V::kWidth;
  const std::int64_t dims = rows.task->args->layout.value_row_dims();
  if (same_keys && dims % kColumns == 0) {
    add_in_place<V, Rows>(rows, memory);
    return;
  }
  find_latents<V, Rows>(rows, memory);
  RangeMemory packed;
  for (int v = 0; v < kRangeKeys / V::kWidth; ++v) {
    packed.values[v] = reinterpret_cast<const std::byte*>(rows.scratch.values) +
                       v * V::kWidth * kColumns * Panels::kBytes;
  }
  for (std::int64_t column = 0; column < dims; column += kColumns) {
    pack_values<V, Rows>(rows, memory, column);
    add_packed<V, Panels>(rows, packed, column);
  }
}

// One range of keys, for the rows that see any of it.
template <class V, class Rows>
inline void attend_range(const RangeRows& rows) {
  const AttentionTask& task = *rows.task;
  // Where all rows see the same keys, and not so many pass over them that panels pay.
  const bool same_keys =
      task.query_end - task.query_begin == 1 ||
      (task.shared_queries != nullptr && rows.end - rows.begin <= kMostSharedInPlace);
  const bool few = rows.end - rows.begin <= kFewRows;
  RangeMemory memory;
  find_range<V, Rows>(rows, memory);
  if (!same_keys) {
    score_packed<V, Rows>(rows, memory);
  } else if (few) {
    score_in_place<V, Rows, 4, kFewRows>(rows, memory);
  } else {
    score_in_place<V, Rows, 2, kRowsInPlace<V>>(rows, memory);
  }
  if constexpr (Rows::kIntegers) find_scales<V>(rows);
  weigh_rows<V, Rows>(rows);
  add_range<V, Rows>(rows, memory, same_keys);
  if constexpr (Rows::kIntegers) {
    for (std::int32_t row = rows.begin; row < rows.end; ++row) {
      scale_sums<V>(rows.part.sums + row * rows.part.stride, task.args->layout.value_row_dims(),
                    rows.scratch.scores[std::int64_t{row + 1} * kRangeKeys - 1]);
    }
  }
}

// The task's queries, times the scale of the scores, for powers of two; padded with zeros.
template <class V, class Rows>
inline void load_queries(const AttentionTask& task, std::int32_t group, std::int64_t num_rows,
                         std::int64_t stride, float* to) {
  const AttentionArgs& args = *task.args;
  const std::int32_t head_dim = args.layout.head_dim;
  const float scale = args.scale * 0x1.715476p+0F;  // log2(e)
  for (std::int64_t row = 0; row < num_rows; ++row, to += stride) {
    const auto query = static_cast<std::int32_t>(row / group);
    const float* const from = args.q + query_row(task, query) * args.q_stride +
                              (std::int64_t{task.kv_head} * group + row % group) * head_dim;
    if constexpr (Rows::kIntegers) {
      store_query_integers<V>(from, head_dim, scale, stride, to);
    } else {
      for (std::int32_t i = 0; i < stride; i += V::kWidth) {
        const std::int32_t left = head_dim - i;
        const typename V::F x =
            left >= V::kWidth ? V::load(from + i) : V::load_first(from + i, left > 0 ? left : 0);
        Rows::store_factors(to, i, V::mul(V::set1(scale), x));
      }
    }
  }
}

// The outputs of the first `num_rows` rows of a task.
template <class V>
inline void finish_rows(const AttentionTask& task, std::int32_t group, std::int64_t num_rows,
                        const PartialResults& sum) {
  const AttentionArgs& args = *task.args;
  const std::int32_t dims = args.layout.value_dims();
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t head = std::int64_t{task.kv_head} * group + row % group;
    if (args.sinks != nullptr) join_sink<V>(sum, row, args.sinks[head] * 0x1.715476p+0F);
    finish_row<V>(sum, row, dims,
                  args.out + ((task.query_begin + row / group) * args.num_heads + head) * dims);
  }
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

// kAttendRange: gives the partial results of one range, in `part` of its rows.
template <class V, class Rows, void (*kAttendRange)(const RangeRows& rows) = attend_range<V, Rows>>
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
  load_queries<V, Rows>(task, group, num_rows, padded_head(head_dim), rows.scratch.queries);
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
    const std::int64_t blind =
        first_position_from(args, rows.key_start + kRangeKeys) - task.first_position;
    if (blind < queries) rows.end = static_cast<std::int32_t>(blind) * group;
    rows.keys = {keys_of_row(rows, rows.begin).begin, keys_of_row(rows, rows.end - 1).end};
    rows.part =
        task.partials == nullptr
            ? rows.scratch.part
            : PartialResults::at(task.partials + range * partial_floats, head_dim, num_rows);
    kAttendRange(rows);
    if (task.partials != nullptr) continue;
    // Rows see nothing before this range from some row on, which a window may bring.
    std::int32_t starts = rows.end;
    while (!continues && starts > rows.begin &&
           first_visible_key(args, position_of(task, (starts - 1) / group)) / kRangeKeys == range) {
      starts -= group;
    }
    join_rows<V>(rows.scratch.sum, rows.part, rows.begin, starts);
    copy_rows(rows.part, starts, rows.end - starts, rows.scratch.sum, starts);
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
  finish_rows<V>(task, group, num_rows, rows.scratch.sum);
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
  for (std::int32_t range = task.range_begin + (continues ? 0 : 1); range < task.range_end;
       ++range) {
    join_rows<V>(sum, of_range(range), 0, group);
  }
  finish_rows<V>(task, group, group, sum);
}

}  // namespace quire
