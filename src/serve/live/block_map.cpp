#include "serve/live/block_map.h"

#include <algorithm>

namespace quire {
namespace {

BlockUse most_common(std::span<BlockUse> uses) {
  std::ranges::sort(uses);
  BlockUse best = uses.front();
  std::size_t most = 0;
  for (std::size_t begin = 0; begin < uses.size();) {
    std::size_t end = begin;
    while (end < uses.size() && uses[end] == uses[begin]) ++end;
    if (end - begin >= most) {
      most = end - begin;
      best = uses[begin];
    }
    begin = end;
  }
  return best;
}

}  // namespace

BlockCells gather_blocks(std::span<const BlockUse> uses, std::int64_t max_cells) {
  BlockCells result;
  const std::int64_t num_blocks = std::ssize(uses);
  result.blocks_per_cell = std::max<std::int64_t>(1, (num_blocks + max_cells - 1) / max_cells);
  if (result.blocks_per_cell == 1) {
    result.cells.assign(uses.begin(), uses.end());
    return result;
  }
  const auto size = static_cast<std::size_t>(result.blocks_per_cell);
  std::vector<BlockUse> cell;
  for (std::size_t begin = 0; begin < uses.size(); begin += size) {
    const auto blocks = uses.subspan(begin, std::min(size, uses.size() - begin));
    cell.assign(blocks.begin(), blocks.end());
    result.cells.push_back(most_common(cell));
  }
  return result;
}

}  // namespace quire
