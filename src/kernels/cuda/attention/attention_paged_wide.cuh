// The parts of the kernels of attention_paged_wide.h, and where operands of wgmma lie.
//
// Keys and values of a range are turned first, once for all tiles of rows, into the order in which
// wgmma wants them: the numbers of K side by side, in rows of 128 bytes in the 128-byte swizzle. A
// range then is four pieces of the same size, in the order in which they are multiplied: the keys
// of its halves, each [dims / 64][128 keys][64 dims], and their values, [2][dims][64 keys].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_rows.cuh"

namespace quire::cuda {

inline constexpr std::int32_t kWideRows = 64;   // of a warpgroup
inline constexpr std::int32_t kWideTile = 128;  // rows of a block
inline constexpr int kWideThreads = 3 * 128;
inline constexpr std::int32_t kHalfKeys = kRangeKeys / 2;
inline constexpr std::int32_t kQuarterKeys = kRangeKeys / 4;
inline constexpr std::int32_t kRangePieces = 4;
inline constexpr std::int32_t kMostWideSequences = 128;

// A turned range in bytes.
struct TurnedRange {
  std::int32_t dims;

  __host__ __device__ constexpr std::int32_t columns() const { return (dims + 63) / 64 * 64; }
  __host__ __device__ constexpr std::int32_t piece_bytes() const {
    return kHalfKeys * columns() * 2;
  }
  __host__ __device__ constexpr std::int32_t bytes() const { return kRangePieces * piece_bytes(); }
  // Of 8 neighbouring dims of a key.
  __device__ std::int32_t keys_at(std::int32_t key, std::int32_t dim) const {
    return key / kHalfKeys * piece_bytes() + dim / 64 * (kHalfKeys * 128) + key % kHalfKeys * 128 +
           ((dim % 64 / 8 ^ key % 8) << 4);
  }
  // Of a dim of 8 neighbouring values.
  __device__ std::int32_t values_at(std::int32_t key, std::int32_t dim) const {
    return 2 * piece_bytes() + key / kQuarterKeys * (columns() * 128) + dim * 128 +
           ((key % kQuarterKeys / 8 ^ dim % 8) << 4);
  }
};

// The ranges that some rows of a sequence see.
struct SeenRanges {
  std::int32_t begin;
  std::int32_t end;

  __host__ __device__ static SeenRanges of(const AttentionArgs& args, const SequenceRows& rows) {
    return {first_visible_key(args, rows.first_position) / kRangeKeys,
            (rows.first_position + rows.queries + kRangeKeys - 1) / kRangeKeys};
  }
  __host__ __device__ std::int32_t count() const { return end - begin; }
};

// Whether some row of a tile sees keys of the second half of a range; else that half is left out.
__device__ inline bool has_second_half(std::int32_t range, std::int32_t key_end) {
  return key_end > range * kRangeKeys + kHalfKeys;
}

// Some sequences and some neighbouring KV heads.
struct WideTask {
  AttentionArgs args;
  AttentionInputs inputs;
  KvPlaces kv;
  std::byte* turned = nullptr;
  std::int32_t group = 1;
  std::int32_t first_head = 0;
  std::int32_t heads = 0;
  std::int32_t num_sequences = 0;
  std::int32_t sequences[kMostWideSequences];
  // The numbers of a sequence's first item and turned range. An item is a tile of rows and a KV
  // head.
  std::int32_t first_items[kMostWideSequences + 1];
  std::int32_t first_ranges[kMostWideSequences + 1];

  __device__ SequenceRows rows_of(std::int32_t index) const {
    return SequenceRows::of(inputs.query_start_loc, inputs.seq_lens, sequences[index], group);
  }
};

struct WideItem {
  std::int32_t index;  // of the sequence
  std::int32_t head;   // from the launch's first on
  std::int32_t tile;
  SequenceRows rows;

  // The item of this block in a round; negative where there is none left. Items with more keys come
  // first, and blocks take turns in who has the most.
  __device__ static std::int32_t number_of(const WideTask& task, std::int32_t round) {
    const auto blocks = static_cast<std::int32_t>(gridDim.x);
    const auto block = static_cast<std::int32_t>(blockIdx.x);
    const std::int32_t number = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    return number < task.first_items[task.num_sequences] ? number : -1;
  }
  __device__ static bool find(const WideTask& task, std::int32_t round, WideItem& item) {
    const std::int32_t number = number_of(task, round);
    if (number < 0) return false;
    item.index = 0;
    while (number >= task.first_items[item.index + 1]) ++item.index;
    item.rows = task.rows_of(item.index);
    // The same in all lanes, which the compiler cannot know otherwise: products that are on their
    // way want that of branches.
    item.rows.query_begin = __shfl_sync(~0U, item.rows.query_begin, 0);
    item.rows.queries = __shfl_sync(~0U, item.rows.queries, 0);
    item.rows.first_position = __shfl_sync(~0U, item.rows.first_position, 0);
    const std::int32_t within = number - task.first_items[item.index];
    item.head = within % task.heads;
    item.tile = item.rows.tiles(kWideTile) - 1 - within / task.heads;
    return true;
  }
  __device__ RowTile row_tile(const WideTask& task) const {
    return RowTile::of(task.args, rows, tile, kWideTile);
  }
};

// Turns the keys and values of a task.
void turn_ranges(const Launch& launch, const WideTask& task);

}  // namespace quire::cuda
