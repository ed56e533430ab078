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

// How a layer's kernel splits.
struct SplitShape {
  std::int32_t max_rows = 0;      // sequences with more rows are left out
  std::int32_t tile_rows = 16;    // at most; 16 where no sequence has more rows
  std::int32_t blocks = 1;        // at a time
  std::int32_t small_blocks = 1;  // the same, where no sequence has more than 16 rows

  bool operator==(const SplitShape&) const = default;
};

// What launches of a plan depend on, which is the same for many steps: all else is read from the
// device's memory. Numbers that grow with the sequences are rounded up to powers of two.
struct SplitForm {
  std::int32_t max_rows = 0;
  std::int32_t tile_rows = 0;
  std::int32_t slot_rows = 0;
  std::int32_t grid = 0;         // at least as many as blocks
  std::int32_t joined_grid = 0;  // the same of tiles that blocks have in common
  std::int32_t most_ranges = 0;  // of a tile, at most

  constexpr std::int64_t slot_floats(std::int32_t dims) const {
    return (std::int64_t{slot_rows} * (dims + 2) + 3) / 4 * 4;  // of whole vectors
  }
};

// How a step is split. Partial results of a block lie in its slots: in the first those, joined, of
// the last tile and KV head that it begins and does not end; in the others those of the ranges of
// the one that it has not begun.
struct SplitPlan {
  SplitForm form;
  std::int32_t share = 0;        // units of a block, where blocks have tiles in common
  std::int32_t block_slots = 0;  // of a block
  std::int32_t blocks = 0;
  std::int32_t num_joined = 0;
  std::int16_t joined[kMostSplitBlocks] = {};  // blocks that begin a tile and do not end it
  SplitStart starts[kMostSplitBlocks];

  // Of `args` heads, their dimensions, window and chunk count; of `inputs` lengths in the host's
  // memory. What is split fits in `workspace_bytes`.
  static SplitPlan of(const AttentionInputs& inputs, const AttentionArgs& args,
                      const SplitShape& shape, std::uint64_t workspace_bytes);
};

// A plan in the device's memory, where it lay before any kernel was launched that may still run.
struct StagedSplit {
  SplitForm form;
  const SplitPlan* plan = nullptr;
};

std::uint64_t split_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors);

// Rows of the sequences that the plan does not leave out.
void split_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                     const StagedSplit& split);

}  // namespace quire::cuda
