// Attention over a vector type V (vec_avx2.h, vec_avx512.h).
//
// The arithmetic for one query and head is a function of its position and of the values alone:
// tiles of keys at fixed absolute positions; a score sums its products in lanes, which are then
// folded in one order; keys behind the query's position or before its window take no part, and
// tiles that it sees nothing of are skipped; weighted values are added in the order of the keys.
// Rows (a query of one head) are worked on in blocks of up to three that share loads of keys and
// values, which leaves every row's own order as it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_scratch.h"
#include "kernels/cpu/exp.inl.h"
#include "kernels/cpu/unroll.h"
#include "kernels/row_kernels.h"

namespace quire {

// kBF16: rows of bfloat16 in the cache. Otherwise rows of floats, in the cache or in scratch.
enum class KvRows { kF32, kBF16 };

// Rows up to which bfloat16 is widened in registers, again for each block of rows.
inline constexpr std::int64_t kMaxRowsInPlace = 4;

template <class V, KvRows kRows>
inline typename V::F load_kv(const std::byte* row, std::int64_t i) {
  if constexpr (kRows == KvRows::kBF16) {
    return V::load_bf16(row + i * 2);
  } else {
    return V::load(reinterpret_cast<const float*>(row) + i);
  }
}

// Where the keys and values of a tile lie: those in [begin, end) exist, and keys are readable from
// the multiple of four before `begin` to the one after `end`.
struct KvTile {
  const std::byte* keys[kAttentionTileKeys];
  const std::byte* values[kAttentionTileKeys];
  std::int32_t begin;
  std::int32_t end;
};

// The keys of a tile that a row sees: [first, end), counted from the tile's start.
struct KeyRange {
  std::int32_t first;
  std::int32_t end;
};

[[gnu::always_inline]] inline bool operator==(const KeyRange& a, const KeyRange& b) {
  return a.first == b.first && a.end == b.end;
}

struct AttentionRows {
  std::int64_t stride;
  std::int64_t padded_dim;  // head_dim, to whole vectors
  float scale;
  float* queries;  // [rows][stride]
  float* sums;     // [rows][stride]: weighted values
  float* maxima;   // [rows]
  float* totals;   // [rows]: of the weights
  float* weights;  // [kBlockRows][kAttentionTileKeys]: scores, then weights, of a block of rows
};

inline constexpr int kBlockRows = 3;
inline constexpr std::int64_t kTileStride = kAttentionTileKeys;  // of a row of weights

// scores[r][key] = queries[r] . keys[key] for the keys of `range`, widened to multiples of 4.
template <class V, KvRows kRows, int R>
inline void score_rows(const AttentionRows& rows, std::int64_t first, const KvTile& tile,
                       KeyRange range, float* scores) {
  using F = typename V::F;
  const float* const queries = rows.queries + first * rows.stride;
  for (std::int32_t key = range.first / 4 * 4; key < range.end; key += 4) {
    F sums[R][4];
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      QUIRE_UNROLL
      for (int k = 0; k < 4; ++k) sums[r][k] = V::zero();
    }
    for (std::int64_t i = 0; i < rows.padded_dim; i += V::kWidth) {
      F query[R];
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) query[r] = V::load(queries + r * rows.stride + i);
      QUIRE_UNROLL
      for (int k = 0; k < 4; ++k) {
        const F x = load_kv<V, kRows>(tile.keys[key + k], i);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) sums[r][k] = V::fma(query[r], x, sums[r][k]);
      }
    }
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      V::sum4(sums[r][0], sums[r][1], sums[r][2], sums[r][3], scores + r * kTileStride + key);
    }
  }
}

// Turns a row's scores into weights, relative to the largest score so far, and brings what has been
// summed to the same base.
template <class V>
inline void weigh_scores(const AttentionRows& rows, std::int64_t row, KeyRange range,
                         float* scores) {
  using F = typename V::F;
  constexpr int kVectors = kAttentionTileKeys / V::kWidth;
  const F lowest = V::set1(-__builtin_inff());
  const F scale = V::set1(rows.scale);
  F x[kVectors];
  F largest = lowest;
  QUIRE_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const F scaled = V::mul(V::load(scores + i * V::kWidth), scale);
    x[i] = V::keep_first(scaled, range.end - i * V::kWidth, lowest);
    x[i] = V::keep_first(lowest, range.first - i * V::kWidth, x[i]);
    largest = V::max(x[i], largest);
  }
  const float tile_maximum = V::largest(largest);
  const float before = rows.maxima[row];
  float total = rows.totals[row];
  if (tile_maximum > before) {
    const F correction = vec_exp<V>(V::set1(before - tile_maximum));
    float* const sums = rows.sums + row * rows.stride;
    for (std::int64_t i = 0; i < rows.padded_dim; i += V::kWidth) {
      V::store(sums + i, V::mul(V::load(sums + i), correction));
    }
    float lanes[V::kWidth];
    V::store(lanes, correction);
    total *= lanes[0];
    rows.maxima[row] = tile_maximum;
  }
  const F base = V::set1(rows.maxima[row]);
  F sum = V::zero();
  QUIRE_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    x[i] = vec_exp<V>(V::sub(x[i], base));
    V::store(scores + i * V::kWidth, x[i]);
    sum = V::add(sum, x[i]);
  }
  rows.totals[row] = total + V::sum(sum);
}

// sums[r] += weights[r][key] * values[key], key by key, for kVectors vectors from column i.
template <class V, KvRows kRows, int R, int kVectors>
inline void add_columns(const AttentionRows& rows, std::int64_t first, const KvTile& tile,
                        KeyRange range, const float* weights, std::int64_t i) {
  using F = typename V::F;
  float* const to = rows.sums + first * rows.stride + i;
  F sums[R][kVectors];
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = V::load(to + r * rows.stride + v * V::kWidth);
  }
  for (std::int32_t key = range.first; key < range.end; ++key) {
    F weight[R];
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) weight[r] = V::set1(weights[r * kTileStride + key]);
    QUIRE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const F x = load_kv<V, kRows>(tile.values[key], i + v * V::kWidth);
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) sums[r][v] = V::fma(weight[r], x, sums[r][v]);
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int v = 0; v < kVectors; ++v) V::store(to + r * rows.stride + v * V::kWidth, sums[r][v]);
  }
}

// A tile of keys for R rows that see the same of them.
template <class V, KvRows kRows, int R>
inline void attend_block(const AttentionRows& rows, std::int64_t first, const KvTile& tile,
                         KeyRange range) {
  static_assert(R <= kBlockRows);
  float* const scores = rows.weights;
  score_rows<V, kRows, R>(rows, first, tile, range, scores);
  for (int r = 0; r < R; ++r) {
    weigh_scores<V>(rows, first + r, range, scores + r * kTileStride);
  }
  std::int64_t i = 0;
  for (; i + 4 * V::kWidth <= rows.padded_dim; i += 4 * V::kWidth) {
    add_columns<V, kRows, R, 4>(rows, first, tile, range, scores, i);
  }
  for (; i < rows.padded_dim; i += V::kWidth) {
    add_columns<V, kRows, R, 1>(rows, first, tile, range, scores, i);
  }
}

// All rows of the task, `group` rows a query, that see keys of the tile starting at `tile_begin`.
template <class V, KvRows kRows>
inline void attend_tile(const AttentionRows& rows, const AttentionTask& task, std::int32_t group,
                        const KvTile& tile, std::int32_t tile_begin) {
  const std::int32_t window = task.args->window;
  const auto range_of = [&](std::int32_t row) {
    const std::int32_t position = task.first_position + row / group;
    const std::int32_t first = first_visible_key(window, position) - tile_begin;
    const std::int32_t end = position - tile_begin + 1;
    return KeyRange{first > 0 ? first : 0, end < kAttentionTileKeys ? end : kAttentionTileKeys};
  };
  std::int32_t end = (task.query_end - task.query_begin) * group;
  if (window > 0) {  // without the queries whose window starts behind the tile
    const std::int64_t queries =
        std::int64_t{tile_begin} + kAttentionTileKeys + window - 1 - task.first_position;
    if (queries * group < end) end = static_cast<std::int32_t>(queries * group);
  }
  const std::int32_t hidden = tile_begin - task.first_position;  // queries before the tile
  std::int32_t row = hidden > 0 ? hidden * group : 0;
  while (row < end) {
    const KeyRange range = range_of(row);
    std::int32_t block = end - row == 4 ? 2 : (end - row < kBlockRows ? end - row : kBlockRows);
    while (!(range_of(row + block - 1) == range)) --block;
    if (block == 3) {
      attend_block<V, kRows, 3>(rows, row, tile, range);
    } else if (block == 2) {
      attend_block<V, kRows, 2>(rows, row, tile, range);
    } else {
      attend_block<V, kRows, 1>(rows, row, tile, range);
    }
    row += block;
  }
}

// Makes what is read beyond [begin, end) readable; no arithmetic uses it.
inline __attribute__((always_inline)) void pad_tile(KvTile& tile) {
  for (std::int32_t key = tile.begin; key % 4 != 0;) tile.keys[--key] = tile.keys[tile.begin];
  for (std::int32_t key = tile.end; key % 4 != 0; ++key) tile.keys[key] = tile.keys[tile.end - 1];
}

// Points `tile` at its keys [begin, end) in the cache.
inline __attribute__((always_inline)) void find_tile(const AttentionTask& task,
                                                     std::int32_t tile_begin, std::int32_t begin,
                                                     std::int32_t end, KvTile& tile) {
  const KvLayout& layout = task.args->layout;
  const std::uint64_t row_bytes = layout.row_bytes();
  std::int32_t index = (tile_begin + begin) / layout.block_size;
  std::int32_t slot = (tile_begin + begin) % layout.block_size;
  tile.begin = begin;
  tile.end = end;
  for (std::int32_t key = begin; key < end; ++index, slot = 0) {
    const BlockId block = task.block_table[index];
    const std::byte* k = task.args->kv + layout.key_offset(block, task.kv_head, slot);
    const std::byte* v = task.args->kv + layout.value_offset(block, task.kv_head, slot);
    for (; slot < layout.block_size && key < end; ++slot, ++key) {
      tile.keys[key] = k;
      tile.values[key] = v;
      k += row_bytes;
      v += row_bytes;
    }
  }
  pad_tile(tile);
}

// One head as floats, padded with zeros to whole vectors.
template <class V, KvRows kRows>
inline void widen_head(const std::byte* from, std::int32_t head_dim, float* to) {
  std::int32_t i = 0;
  for (; i + V::kWidth <= head_dim; i += V::kWidth) V::store(to + i, load_kv<V, kRows>(from, i));
  const std::int32_t rest = head_dim - i;
  if (rest == 0) return;
  if constexpr (kRows == KvRows::kBF16) {
    std::uint16_t bits[V::kWidth] = {};
    __builtin_memcpy(bits, from + std::int64_t{i} * 2, static_cast<std::size_t>(rest) * 2);
    V::store(to + i, V::load_bf16(bits));
  } else {
    V::store(to + i, V::load_first(reinterpret_cast<const float*>(from) + i, rest));
  }
}

// Copies the tile to scratch as floats and points it there.
template <class V, KvRows kRows>
inline void widen_tile(std::int32_t head_dim, std::int64_t stride, float* scratch, KvTile& tile) {
  float* key_rows = scratch;
  float* value_rows = scratch + kAttentionTileKeys * stride;
  for (std::int32_t key = tile.begin; key < tile.end; ++key) {
    widen_head<V, kRows>(tile.keys[key], head_dim, key_rows);
    widen_head<V, kRows>(tile.values[key], head_dim, value_rows);
    tile.keys[key] = reinterpret_cast<const std::byte*>(key_rows);
    tile.values[key] = reinterpret_cast<const std::byte*>(value_rows);
    key_rows += stride;
    value_rows += stride;
  }
  pad_tile(tile);
}

template <class V, KvRows kRows>
inline void attend(const AttentionTask& task) {
  const AttentionArgs& args = *task.args;
  const std::int32_t head_dim = args.layout.head_dim;
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  const std::int64_t queries = task.query_end - task.query_begin;
  const std::int64_t num_rows = queries * group;
  const AttentionScratch layout(head_dim, num_rows);
  AttentionRows rows;
  rows.stride = layout.stride;
  rows.padded_dim = (head_dim + V::kWidth - 1) / V::kWidth * V::kWidth;
  rows.scale = args.scale;
  rows.queries = task.scratch;
  rows.sums = rows.queries + num_rows * layout.stride;
  rows.maxima = rows.sums + num_rows * layout.stride;
  rows.totals = rows.maxima + layout.row_values;
  float* const tile_scratch = rows.totals + layout.row_values;

  float weights[kBlockRows * kAttentionTileKeys] = {};
  rows.weights = weights;

  const std::int64_t first_head = std::int64_t{task.kv_head} * group * head_dim;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* const query = args.q + (task.query_begin + row / group) * args.q_stride +
                               first_head + row % group * head_dim;
    widen_head<V, KvRows::kF32>(reinterpret_cast<const std::byte*>(query), head_dim,
                                rows.queries + row * layout.stride);
    for (std::int64_t i = 0; i < rows.padded_dim; i += V::kWidth) {
      V::store(rows.sums + row * layout.stride + i, V::zero());
    }
    rows.maxima[row] = -__builtin_inff();
    rows.totals[row] = 0.0F;
  }

  // Whole vectors can be read in place; bfloat16 is widened once where enough rows share it.
  const bool in_place =
      head_dim % V::kWidth == 0 && (kRows == KvRows::kF32 || num_rows <= kMaxRowsInPlace);
  const std::int32_t first = first_visible_key(args.window, task.first_position);
  const auto end = static_cast<std::int32_t>(task.first_position + queries);
  for (std::int32_t begin = first / kAttentionTileKeys * kAttentionTileKeys; begin < end;
       begin += kAttentionTileKeys) {
    KvTile tile;
    find_tile(task, begin, first > begin ? first - begin : 0,
              end - begin < kAttentionTileKeys ? end - begin : kAttentionTileKeys, tile);
    if (in_place) {
      attend_tile<V, kRows>(rows, task, group, tile, begin);
    } else {
      widen_tile<V, kRows>(head_dim, layout.stride, tile_scratch, tile);
      attend_tile<V, KvRows::kF32>(rows, task, group, tile, begin);
    }
  }

  for (std::int64_t row = 0; row < num_rows; ++row) {
    float* const out = args.out + ((task.query_begin + row / group) * args.num_heads) * head_dim +
                       first_head + row % group * head_dim;
    const float* const sums = rows.sums + row * layout.stride;
    const typename V::F total = V::set1(rows.totals[row]);
    std::int32_t i = 0;
    for (; i + V::kWidth <= head_dim; i += V::kWidth) {
      V::store(out + i, V::div(V::load(sums + i), total));
    }
    if (i < head_dim) {
      V::store_first(out + i, V::div(V::load(sums + i), total), head_dim - i);
    }
  }
}

template <class V>
inline void vec_attention(const AttentionTask& task) {
  if (task.args->layout.dtype == DType::kBF16) {
    attend<V, KvRows::kBF16>(task);
  } else {
    attend<V, KvRows::kF32>(task);
  }
}

}  // namespace quire
