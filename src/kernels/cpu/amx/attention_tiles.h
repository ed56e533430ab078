// A range of keys of a bfloat16 cache on tiles (tdpbf16ps): scores of 16 rows by 16 keys,
// dimensions in steps of 32, and weighted sums of 16 rows by 16 columns, keys in steps of 32 from
// the range's start. A tile's rows do not meet and steps begin at fixed places, so a row has the
// same bits however many rows there are and whatever keys these see.
//
// Every row of a tile meets every key of a step. A key that a row does not see has a score that
// nobody reads and a weight of zero; its value has to be finite, then, as zero times anything else
// is no zero. Where one is not, queries follow in turn, each with values of which it sees all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/bf16_pairs.inl.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

inline constexpr std::int32_t kStep = kTileRowBytes / 2;  // dimensions, or keys, of a step
inline constexpr std::int32_t kRowsOnTiles = 2 * kTileRows;

// The factors of some steps. Left: rows, each step 64 bytes further. Right: two tiles' columns, a
// step kTileRows pairs further.
struct TileFactors {
  const void* left;
  std::int64_t left_stride;  // bytes from one row to the next
  const std::byte* right[2];
  std::int64_t right_stride;  // bytes from one pair to the next
};

// Tiles 0 to 3 are sums: two of the first 16 rows, two of the others; 4 and 5 left factors, 6 and
// 7 right ones.
inline void configure_rows(int rows) {
  const int first = next_rows(rows, kTileRows);
  TileConfig config;
  for (const int tile : {0, 1, 4}) config.set(tile, first, kTileRowBytes);
  if (rows > first) {
    for (const int tile : {2, 3, 5}) config.set(tile, rows - first, kTileRowBytes);
  }
  for (const int tile : {6, 7}) config.set(tile, kTileRows, kTileRowBytes);
  tile_configure(config);
}

template <bool kOthers>
void zero_sums() {
  tile_zero<0>();
  tile_zero<1>();
  if constexpr (kOthers) {
    tile_zero<2>();
    tile_zero<3>();
  }
}

template <bool kOthers>
void add_steps(const TileFactors& factors, std::int64_t count) {
  const auto* left = static_cast<const std::byte*>(factors.left);
  const std::byte* a = factors.right[0];
  const std::byte* b = factors.right[1];
  const std::int64_t right_step = kTileRows * factors.right_stride;
  for (std::int64_t step = 0; step < count; ++step) {
    tile_load<4>(left, factors.left_stride);
    tile_load<6>(a, factors.right_stride);
    tile_dot_bf16<0, 4, 6>();
    tile_load<7>(b, factors.right_stride);
    tile_dot_bf16<1, 4, 7>();
    if constexpr (kOthers) {
      tile_load<5>(left + kTileRows * factors.left_stride, factors.left_stride);
      tile_dot_bf16<2, 5, 6>();
      tile_dot_bf16<3, 5, 7>();
    }
    left += kTileRowBytes;
    a += right_step;
    b += right_step;
  }
}

// `stride`: floats from one row to the next.
template <bool kOthers>
void store_sums(float* to, std::int64_t stride) {
  const std::int64_t bytes = stride * 4;
  tile_store<0>(to, bytes);
  tile_store<1>(to + kTileRows, bytes);
  if constexpr (kOthers) {
    float* const others = to + kTileRows * stride;
    tile_store<2>(others, bytes);
    tile_store<3>(others + kTileRows, bytes);
  }
}

// Calls visit(row, count, keys) for blocks of at most kRowsOnTiles rows, configured for them, with
// what their rows see of the range, in whole steps.
template <typename Visit>
void for_each_rows(const RangeRows& rows, const Visit& visit) {
  int configured = 0;
  int count = 0;
  for (std::int32_t row = rows.begin; row < rows.end; row += count) {
    count = next_rows(rows.end - row, kRowsOnTiles);
    if (count != configured) configure_rows(count);
    configured = count;
    const std::int32_t end = keys_of_row(rows, row + count - 1).end;
    visit(row, count,
          KeySpan{keys_of_row(rows, row).begin / kStep * kStep, (end + kStep - 1) / kStep * kStep});
  }
  tile_release();
}

// The last dimensions of a vector of keys, fewer than a step, with zeros behind.
inline void copy_rest(const std::byte* from, std::int64_t stride, std::int64_t pairs,
                      std::byte* to) {
  for (int pair = 0; pair < kTileRows; ++pair, from += stride, to += kTileRowBytes) {
    if (pair < pairs) {
      __builtin_memcpy(to, from, kTileRowBytes);
    } else {
      __builtin_memset(to, 0, kTileRowBytes);
    }
  }
}

template <bool kOthers>
void score_rows_on_tiles(const RangeRows& rows, const RangeMemory& memory, std::int32_t row,
                         KeySpan keys) {
  const std::int64_t stride = rows.part.stride;
  const std::int64_t dims = rows.task->args->layout.row_dims();
  const std::int64_t steps = dims / kStep;
  const std::int64_t rest_pairs = dims % kStep / 2;
  const float* const queries = rows.scratch.queries + row * stride;  // bfloat16, zeros behind dims
  float* const scores = rows.scratch.scores + std::int64_t{row} * kRangeKeys;
  for (std::int32_t key = keys.begin; key < keys.end; key += kStep) {
    const std::byte* const* const vectors = memory.keys + key / Vec16::kWidth;
    TileFactors factors = {queries, stride * 4, {vectors[0], vectors[1]}, memory.key_step};
    zero_sums<kOthers>();
    add_steps<kOthers>(factors, steps);
    if (rest_pairs > 0) {
      alignas(64) std::byte rest[2][kTileRows * kTileRowBytes];
      const std::int64_t done = steps * kTileRows;  // pairs
      for (int v = 0; v < 2; ++v) {
        copy_rest(vectors[v] + done * memory.key_step, memory.key_step, rest_pairs, rest[v]);
      }
      factors = {queries + done, stride * 4, {rest[0], rest[1]}, kTileRowBytes};
      add_steps<kOthers>(factors, 1);
    }
    store_sums<kOthers>(scores + key, kRangeKeys);
  }
}

// Columns [column, column + 2 kTileRows) of the weighted sums, by the panel of values in scratch.
template <bool kOthers>
void sum_rows_on_tiles(const RangeRows& rows, std::int32_t row, KeySpan keys, std::int64_t column) {
  constexpr std::int64_t kPairBytes = 2 * kTileRowBytes;
  const float* const weights = rows.scratch.scores + std::int64_t{row} * kRangeKeys;
  const auto* const values =
      reinterpret_cast<const std::byte*>(rows.scratch.values) + keys.begin / 2 * kPairBytes;
  zero_sums<kOthers>();
  add_steps<kOthers>({weights + keys.begin / 2,
                      std::int64_t{kRangeKeys} * 4,
                      {values, values + kTileRowBytes},
                      kPairBytes},
                     (keys.end - keys.begin) / kStep);
  store_sums<kOthers>(rows.part.sums + row * rows.part.stride + column, rows.part.stride);
}

// Zero weights for the keys of whole steps that a row does not see. (weigh_row() gave those of its
// first and last vector.)
inline void clear_unseen_weights(const RangeRows& rows) {
  const std::int32_t begin = rows.keys.begin / kStep * kStep;
  const std::int32_t end = (rows.keys.end + kStep - 1) / kStep * kStep;
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    auto* const weights =
        reinterpret_cast<std::byte*>(rows.scratch.scores + std::int64_t{row} * kRangeKeys);
    const KeySpan keys = keys_of_row(rows, row);
    const auto clear = [&](std::int32_t from, std::int32_t to) {
      if (from < to) {
        __builtin_memset(weights + std::int64_t{from} * 2, 0,
                         static_cast<std::size_t>(to - from) * 2);
      }
    };
    clear(begin, keys.begin / Vec16::kWidth * Vec16::kWidth);
    clear((keys.end + Vec16::kWidth - 1) / Vec16::kWidth * Vec16::kWidth, end);
  }
}

// A panel of values as pack_values() makes it, for whole steps: zeros for keys that no row sees.
inline void pack_seen_values(const RangeRows& rows, const RangeMemory& memory,
                             std::int64_t column) {
  constexpr std::int64_t kPairFloats = 2 * kTileRows;
  pack_values<Vec16, Bf16Pairs>(rows, memory, column);
  float* const values = rows.scratch.values;
  const auto keep_one = [&](std::int32_t key) {  // of a pair
    for (int v = 0; v < 2; ++v) {
      float* const at = values + key / 2 * kPairFloats + v * kTileRows;
      Vec16::store(at, Bf16Pairs::keep_one(Vec16::load(at), key % 2));
    }
  };
  const auto clear = [&](std::int32_t from, std::int32_t to) {
    for (float* at = values + from / 2 * kPairFloats; at < values + to / 2 * kPairFloats;
         at += Vec16::kWidth) {
      Vec16::store(at, Vec16::zero());
    }
  };
  const KeySpan keys = rows.keys;
  if (keys.begin % 2 != 0) keep_one(keys.begin);
  if (keys.end % 2 != 0) keep_one(keys.end - 1);
  clear(keys.begin / kStep * kStep, keys.begin / 2 * 2);
  clear((keys.end + 1) / 2 * 2, (keys.end + kStep - 1) / kStep * kStep);
}

// Whether those values of the panel are finite whose keys not every row sees.
inline bool unshared_values_are_finite(const RangeRows& rows) {
  constexpr std::int64_t kPairFloats = 2 * kTileRows;
  const std::int32_t shared_begin = keys_of_row(rows, rows.end - 1).begin;
  const std::int32_t shared_end = keys_of_row(rows, rows.begin).end;
  const auto are_finite = [&](std::int32_t begin, std::int32_t end) {
    __m512 nan = Vec16::zero();  // x - x is zero where x is finite, else NaN
    for (std::int32_t pair = begin / 2; pair < (end + 1) / 2; ++pair) {
      for (int v = 0; v < 2; ++v) {
        __m512 first;
        __m512 second;
        Vec16::split_bf16(rows.scratch.values + pair * kPairFloats + v * kTileRows, first, second);
        nan = Vec16::add(nan, Vec16::sub(first, first));
        nan = Vec16::add(nan, Vec16::sub(second, second));
      }
    }
    return Vec16::sum(nan) == 0.0F;
  };
  const KeySpan keys = rows.keys;
  return are_finite(keys.begin, shared_begin < keys.end ? shared_begin : keys.end) &&
         are_finite(shared_end > keys.begin ? shared_end : keys.begin, keys.end);
}

inline void sum_on_tiles(const RangeRows& rows, std::int64_t column) {
  for_each_rows(rows, [&](std::int32_t row, int count, KeySpan keys) {
    if (count > kTileRows) {
      sum_rows_on_tiles<true>(rows, row, keys, column);
    } else {
      sum_rows_on_tiles<false>(rows, row, keys, column);
    }
  });
}

// One range of keys, for the rows that see any of it.
inline void attend_range_on_tiles(const RangeRows& rows) {
  RangeMemory memory;
  find_range<Vec16, Bf16Pairs>(rows, memory);
  find_latents<Vec16, Bf16Pairs>(rows, memory);
  for_each_rows(rows, [&](std::int32_t row, int count, KeySpan keys) {
    if (count > kTileRows) {
      score_rows_on_tiles<true>(rows, memory, row, keys);
    } else {
      score_rows_on_tiles<false>(rows, memory, row, keys);
    }
  });
  weigh_rows<Vec16, Bf16Pairs>(rows);
  clear_unseen_weights(rows);
  const std::int64_t dims = rows.task->args->layout.value_row_dims();
  for (std::int64_t column = 0; column < dims; column += 2 * kTileRows) {
    pack_seen_values(rows, memory, column);
    if (unshared_values_are_finite(rows)) {
      sum_on_tiles(rows, column);
      continue;
    }
    for (RangeRows one = rows; one.begin < rows.end; one.begin = one.end) {  // a query's rows
      one.end = one.begin + rows.group;
      one.keys = keys_of_row(one, one.begin);
      pack_seen_values(one, memory, column);
      sum_on_tiles(one, column);
    }
  }
}

}  // namespace
}  // namespace quire
