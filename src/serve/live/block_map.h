// The KV blocks as a picture of few runs. Where a model has several KV groups these are the pages
// that they share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/api.h"

namespace quire {

struct BlockRun {
  std::int64_t num_blocks = 0;
  BlockUse use = kBlockFree;
  bool operator==(const BlockRun&) const = default;
};
// All blocks, in order of their ids.
struct BlockRuns {
  // 1: exactly as they are. Else longer runs are exact, and those between them tell of cells of so
  // many blocks (the last before a longer run may have fewer) what is in each, not where in it.
  std::int64_t blocks_per_cell = 1;
  std::vector<BlockRun> runs;
};
// At most `max_runs` (>= 32) of them. Where there are more, long runs that nobody holds stay exact,
// and the rest, the part that is used, becomes cells. A cell keeps two uses: what most of its
// blocks are, and of the others what a request holds, before cached, before free; blocks that are
// neither count as the first. O(blocks) times a few.
BlockRuns gather_blocks(std::span<const BlockUse> uses, std::int64_t max_runs);

}  // namespace quire
