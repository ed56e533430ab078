// Attention with tensor cores where sequences have few rows: keys are what takes time, and ranges
// of keys are shared out evenly among all blocks.
//
// The work of a step is a list of units: each range of each KV head of each tile of rows of each
// sequence, ranges innermost. A block takes some neighbouring units. It joins the ranges of a tile
// and KV head whose first range it has, and gives the partial results of each range otherwise; what
// several blocks have in common is joined by a second kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention.h"

namespace quire::cuda {

inline constexpr std::int32_t kMostSplitBlocks = 288;
// Of a multiprocessor at a time, where tiles have 16 rows of no more than 128 dimensions, and the
// cache has codes of a byte.
inline constexpr std::int32_t kSmallSplitBlocks = 2;
inline constexpr std::int32_t kMostSplitRows = 64;  // of a tile

// Where in the list of units a block begins, and how many it has.
struct SplitStart {
  std::int32_t sequence = 0;
  std::int32_t tile = 0;
  std::int32_t kv_head = 0;
  std::int32_t range = 0;
  std::int32_t units = 0;
};

// How a step is split. Partial results of a block lie in its slots: in the first those, joined, of
// the last tile and KV head that it begins and does not end; in the others those of the ranges of
// the one that it has not begun.
struct SplitPlan {
  std::int32_t max_rows = 0;  // sequences with more rows are left out
  std::int32_t tile_rows = 0;
  std::int32_t slot_rows = 0;
  std::int32_t share = 0;        // units of a block, where blocks have tiles in common
  std::int32_t block_slots = 0;  // of a block
  std::int32_t blocks = 0;
  std::int32_t most_ranges = 0;  // of a tile
  bool joins = false;            // whether blocks may have a tile in common
  std::int32_t num_joined = 0;
  std::int16_t joined[kMostSplitBlocks];  // blocks that begin a tile and do not end it
  SplitStart starts[kMostSplitBlocks];

  // What a kernel computes at a time.
  struct Shape {
    std::int32_t tile_rows = 16;    // at most
    std::int32_t blocks = 1;        // at a time
    std::int32_t small_blocks = 1;  // the same, where no sequence has more than 16 rows
  };
  // Sequences of more than `max_rows` rows are left out. Tiles have 16 rows where no sequence has
  // more. What is split fits in `workspace_bytes`.
  static SplitPlan of(const AttentionInputs& inputs, const AttentionArgs& args,
                      std::int32_t max_rows, const Shape& shape, std::uint64_t workspace_bytes);
  constexpr std::int64_t slot_floats(std::int32_t dims) const {
    return (std::int64_t{slot_rows} * (dims + 2) + 3) / 4 * 4;  // of whole vectors
  }
};

std::uint64_t split_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors);

// Rows of the sequences that `plan` does not leave out.
void split_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                     const SplitPlan& plan);

}  // namespace quire::cuda
