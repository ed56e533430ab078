// The KV blocks as a picture of few cells. Where a model has several KV groups these are the pages
// that they share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/api.h"

namespace quire {

struct BlockCells {
  std::int64_t blocks_per_cell = 1;
  std::vector<BlockUse> cells;  // in order of block ids; the last may stand for fewer blocks
};
// Cells of equally many blocks, at most `max_cells` of them. A cell of several blocks shows what
// most of them are; of equally many the one that holds more: a request before cached before free.
BlockCells gather_blocks(std::span<const BlockUse> uses, std::int64_t max_cells);

}  // namespace quire
