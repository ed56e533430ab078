// Sizes that the attention kernels, their plan and the memory plan agree on.
//
// Keys are seen in ranges at fixed absolute positions [0, 256), [256, 512), ... A range gives each
// row (a query of one head) a partial result: the largest score, the sum of the weights relative to
// it, and the weighted sum of the values. The partial results of a row are joined in the order of
// the ranges, whether one worker computed them all or many did, so that a query's bits depend on
// its position and on the cache alone.
#pragma once

#include <cstdint>

namespace quire {

inline constexpr std::int32_t kRangeKeys = 256;

// Most rows of a work item, where a query has fewer heads for each KV head: enough to amortise the
// conversion of keys and values, few enough that queries, scores and sums stay in the L2 cache.
inline constexpr std::int32_t kMaxRowsPerWork = 96;

[[gnu::always_inline]] inline std::int32_t queries_per_work(std::int32_t heads_per_kv_head) {
  const std::int32_t queries = kMaxRowsPerWork / heads_per_kv_head;
  return queries > 0 ? queries : 1;
}

// Floats of a head, padded to whole pairs of 16-float vectors.
[[gnu::always_inline]] inline std::int64_t padded_head(std::int64_t head_dim) {
  return (head_dim + 31) / 32 * 32;
}

// Partial results of some rows:
//   sums [rows][stride] | maxima [rows, padded] | totals [rows, padded]
struct PartialResults {
  std::int64_t stride;
  float* sums;
  float* maxima;
  float* totals;

  [[gnu::always_inline]] static std::int64_t padded_rows(std::int64_t rows) {
    return (rows + 15) / 16 * 16;
  }
  [[gnu::always_inline]] static std::int64_t floats(std::int64_t head_dim, std::int64_t rows) {
    return rows * padded_head(head_dim) + 2 * padded_rows(rows);
  }
  [[gnu::always_inline]] static PartialResults at(float* memory, std::int64_t head_dim,
                                                  std::int64_t rows) {
    const std::int64_t stride = padded_head(head_dim);
    float* const maxima = memory + rows * stride;
    return {stride, memory, maxima, maxima + padded_rows(rows)};
  }
};

// The scratch memory of one worker, as floats, each part 64-byte aligned.
struct AttentionScratch {
  static constexpr std::int64_t kPanelColumns = 32;  // most keys, or columns of values, of a panel

  float* queries;       // [rows][stride], times the scale of the scores
  PartialResults sum;   // of the ranges so far
  PartialResults part;  // of the present range
  float* scores;        // [rows][kRangeKeys]: scores, then weights
  float* key_scales;    // [kRangeKeys]
  float* value_scales;  // [kRangeKeys]
  float* raw_keys;      // [kRangeKeys * stride]: gathered from blocks that are no whole vectors
  float* raw_values;    // [kRangeKeys * stride]
  float* keys;          // [stride][kPanelColumns]: a panel of keys
  float* values;        // [kRangeKeys][kPanelColumns]: a panel of some columns of a range's values

  [[gnu::always_inline]] static std::int64_t floats(std::int64_t head_dim, std::int64_t rows) {
    const std::int64_t stride = padded_head(head_dim);
    return rows * stride + 2 * PartialResults::floats(head_dim, rows) + rows * kRangeKeys +
           2 * std::int64_t{kRangeKeys} + stride * (2 * std::int64_t{kRangeKeys} + kPanelColumns) +
           kRangeKeys * kPanelColumns;
  }
  [[gnu::always_inline]] static AttentionScratch at(float* memory, std::int64_t head_dim,
                                                    std::int64_t rows) {
    const std::int64_t stride = padded_head(head_dim);
    const std::int64_t partial = PartialResults::floats(head_dim, rows);
    AttentionScratch scratch;
    scratch.queries = memory;
    scratch.sum = PartialResults::at(scratch.queries + rows * stride, head_dim, rows);
    scratch.part = PartialResults::at(scratch.sum.sums + partial, head_dim, rows);
    scratch.scores = scratch.part.sums + partial;
    scratch.key_scales = scratch.scores + rows * kRangeKeys;
    scratch.value_scales = scratch.key_scales + kRangeKeys;
    scratch.raw_keys = scratch.value_scales + kRangeKeys;
    scratch.raw_values = scratch.raw_keys + kRangeKeys * stride;
    scratch.keys = scratch.raw_values + kRangeKeys * stride;
    scratch.values = scratch.keys + stride * kPanelColumns;
    return scratch;
  }
};

}  // namespace quire
