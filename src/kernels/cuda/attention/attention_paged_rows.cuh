// Which rows and keys the kernels of attention with tensor cores work on together. The rows of a
// sequence and KV head are the queries times the heads that share it, query by query; a tile is
// some neighbouring rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_scratch.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/row_args.h"

namespace quire::cuda {

// The queries of one sequence in a step.
struct SequenceRows {
  std::int32_t query_begin = 0;  // row of the step
  std::int32_t queries = 0;
  std::int32_t first_position = 0;
  std::int32_t group = 1;  // heads of a KV head

  __host__ __device__ static SequenceRows of(const std::int32_t* query_start_loc,
                                             const std::int32_t* seq_lens, std::int32_t sequence,
                                             std::int32_t group) {
    const std::int32_t begin = query_start_loc[sequence];
    const std::int32_t queries = query_start_loc[sequence + 1] - begin;
    return {begin, queries, seq_lens[sequence] - queries, group};
  }
  __host__ __device__ std::int32_t rows() const { return queries * group; }
  __host__ __device__ std::int32_t tiles(std::int32_t tile_rows) const {
    return (rows() + tile_rows - 1) / tile_rows;
  }
};

struct RowTile {
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;
  // Keys that some of its rows see.
  std::int32_t key_begin = 0;
  std::int32_t key_end = 0;
  // Keys that all of its rows see.
  std::int32_t common_begin = 0;
  std::int32_t common_end = 0;

  __host__ __device__ static RowTile of(const AttentionArgs& args, const SequenceRows& rows,
                                        std::int32_t tile, std::int32_t tile_rows) {
    RowTile result;
    result.first_row = tile * tile_rows;
    const std::int32_t left = rows.rows() - result.first_row;
    result.num_rows = left < tile_rows ? left : tile_rows;
    const std::int32_t last_row = result.first_row + result.num_rows - 1;
    const std::int32_t first_position = rows.first_position + result.first_row / rows.group;
    const std::int32_t last_position = rows.first_position + last_row / rows.group;
    result.key_begin = first_visible_key(args, first_position);
    result.key_end = last_position + 1;
    result.common_begin = first_visible_key(args, last_position);
    result.common_end = first_position + 1;
    return result;
  }
  __host__ __device__ std::int32_t range_begin() const { return key_begin / kRangeKeys; }
  __host__ __device__ std::int32_t range_end() const {
    return (key_end + kRangeKeys - 1) / kRangeKeys;
  }
  __host__ __device__ std::int32_t ranges() const { return range_end() - range_begin(); }
  // Whether some row sees some of these keys.
  __host__ __device__ bool sees_any(std::int32_t first_key, std::int32_t keys) const {
    return num_rows > 0 && first_key < key_end && first_key + keys > key_begin;
  }
  // Whether each row sees each key of the range.
  __host__ __device__ bool sees_all_of(std::int32_t range) const {
    return range * kRangeKeys >= common_begin && (range + 1) * kRangeKeys <= common_end;
  }
};

// Where keys and values lie, as KvLayout says: its 64-bit divisions take longer than a copy does.
struct KvPlaces {
  const std::byte* keys = nullptr;
  std::uint64_t block_bytes = 0;  // from a block to the next
  std::uint64_t head_bytes = 0;   // from a head's keys in a block to the next's
  std::uint64_t values_from_keys = 0;

  static KvPlaces of(const AttentionArgs& args) {
    return {.keys = args.kv,
            .block_bytes = args.layout.block_stride(),
            .head_bytes = args.layout.keys_offset(0, 1),
            .values_from_keys = args.layout.values_offset(0, 0)};
  }
  __device__ const std::byte* keys_of(BlockId block, std::int32_t kv_head) const {
    return keys + static_cast<std::uint64_t>(block) * block_bytes +
           static_cast<std::uint64_t>(kv_head) * head_bytes;
  }
  __device__ const std::byte* values_of(BlockId block, std::int32_t kv_head) const {
    return keys_of(block, kv_head) + values_from_keys;
  }
};

}  // namespace quire::cuda
