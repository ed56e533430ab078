// The KV blocks as a picture: what each block holds, and the same in few cells. Where a model has
// several KV groups these are the pages that they share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/api.h"

namespace quire {

// What a block holds: one of these, or a holder.
using BlockUse = std::uint64_t;
inline constexpr BlockUse kBlockFree = 0;    // nothing of use
inline constexpr BlockUse kBlockCached = 1;  // free, but its content may be found and used again
// Held for an output that has ended: a row of a static batch.
inline constexpr BlockUse kBlockRetained = 2;

// Held by a request, and by others too where it is shared: then the first of them in the order in
// which they run.
constexpr BlockUse block_held(RequestId request_id, bool shared) {
  return 4 + 2 * request_id + (shared ? 1 : 0);
}

// One entry a block. O(blocks + blocks held). Engine thread, through Engine::inspect.
void read_block_uses(const Scheduler& scheduler, std::vector<BlockUse>& uses);

struct BlockCells {
  std::int64_t blocks_per_cell = 1;
  std::vector<BlockUse> cells;  // in order of block ids; the last may stand for fewer blocks
};
// Cells of equally many blocks, at most `max_cells` of them. A cell of several blocks shows what
// most of them are; of equally many the one that holds more: a request before cached before free.
BlockCells gather_blocks(std::span<const BlockUse> uses, std::int64_t max_cells);

}  // namespace quire
