#include "serve/live/block_map.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(BlockCells, KeepEachBlockWhereThereIsRoom) {
  const std::vector<BlockUse> uses = {0, 1, block_held(3, true)};
  const BlockCells cells = gather_blocks(uses, 3);
  EXPECT_EQ(cells.blocks_per_cell, 1);
  EXPECT_EQ(cells.cells, uses);
}

TEST(BlockCells, ShowWhatMostBlocksOfACellAre) {
  const BlockUse a = block_held(1, false);
  const BlockUse b = block_held(2, false);
  const std::vector<BlockUse> uses = {a, 0, a, b, 0, 0, 1, 1, 0, 0, 0, b, b};
  const BlockCells cells = gather_blocks(uses, 4);
  EXPECT_EQ(cells.blocks_per_cell, 4);
  EXPECT_EQ(cells.cells, (std::vector<BlockUse>{a, kBlockCached, kBlockFree, b}));
}

TEST(BlockCells, AreBoundedForLargePools) {
  std::vector<BlockUse> uses(100'000, kBlockFree);
  std::fill_n(uses.begin(), 5000, block_held(7, false));
  const BlockCells cells = gather_blocks(uses, 4096);
  EXPECT_EQ(cells.blocks_per_cell, 25);
  EXPECT_EQ(cells.cells.size(), 4000U);
  EXPECT_EQ(std::ranges::count(cells.cells, block_held(7, false)), 200);
}

}  // namespace
}  // namespace quire
