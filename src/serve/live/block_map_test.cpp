#include "serve/live/block_map.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

TEST(BlockRuns, TellEachBlockWhereRunsAreFew) {
  const BlockUse a = block_held(3, true);
  const BlockRuns map = gather_blocks(std::vector<BlockUse>{0, 0, 1, a, a, a, 0}, 4);
  EXPECT_EQ(map.blocks_per_cell, 1);
  EXPECT_EQ(map.runs, (std::vector<BlockRun>{{2, kBlockFree}, {1, kBlockCached}, {3, a}, {1, 0}}));
}

TEST(BlockRuns, KeepAFewBlocksOfALargePool) {
  std::vector<BlockUse> uses(1'000'000, kBlockFree);
  for (RequestId id = 0; id < 8; ++id) uses[500'000 + 3 * id] = block_held(id, false);
  const BlockRuns map = gather_blocks(uses, 4096);
  EXPECT_EQ(map.blocks_per_cell, 1);
  ASSERT_EQ(map.runs.size(), 17U);
  EXPECT_EQ(map.runs[0], (BlockRun{500'000, kBlockFree}));
  EXPECT_EQ(map.runs[15], (BlockRun{1, block_held(7, false)}));
}

TEST(BlockRuns, SplitACellBetweenMostOfItAndWhatARequestHolds) {
  const BlockUse a = block_held(1, false);
  const BlockUse b = block_held(2, false);
  // 32 runs leave 9 cells, so 45 blocks are in cells of 5; none is long.
  std::vector<BlockUse> uses = {a, 0, a, b, a,   // two requests; the free one counts as a's
                                0, 1, 1, 0, 0,   // no request: cached beside free
                                0, 1, 0, 1, b};  // a request before cached and free
  while (uses.size() < 45) uses.push_back(uses.size() % 2 == 0 ? a : b);
  const BlockRuns map = gather_blocks(uses, 32);
  ASSERT_EQ(map.blocks_per_cell, 5);
  ASSERT_EQ(map.runs.size(), 18U);
  EXPECT_EQ(std::vector(map.runs.begin(), map.runs.begin() + 6),
            (std::vector<BlockRun>{
                {4, a}, {1, b}, {3, 0}, {2, kBlockCached}, {4, kBlockCached}, {1, b}}));
}

std::int64_t total(const BlockRuns& map) {
  std::int64_t blocks = 0;
  for (const BlockRun& run : map.runs) blocks += run.num_blocks;
  return blocks;
}

// Requests that run together take blocks in turns, so that nearly each block is a run.
TEST(BlockRuns, DrawTheUsedPartOfALargePool) {
  std::vector<BlockUse> uses(1'000'000, kBlockFree);
  for (std::size_t i = 0; i < 6000; ++i) uses[300'000 + i] = block_held(i % 5, false);
  const BlockRuns map = gather_blocks(uses, 4096);
  EXPECT_EQ(map.blocks_per_cell, 5);
  EXPECT_LE(map.runs.size(), 4096U);
  EXPECT_EQ(map.runs.front(), (BlockRun{300'000, kBlockFree}));
  EXPECT_EQ(map.runs.back(), (BlockRun{694'000, kBlockFree}));
  EXPECT_EQ(total(map), 1'000'000);
}

TEST(BlockRuns, AreBoundedWhateverIsMixed) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<BlockUse> uses;
    const std::uint64_t longest = 1 + random_bits(seed, 0) % 400;
    for (std::uint64_t i = 1; uses.size() < 60'000; ++i) {
      const std::uint64_t bits = random_bits(seed, i);
      const BlockUse use = bits % 3 == 0 ? bits / 4 % 2 : block_held(bits / 8 % 9, bits % 2 == 0);
      uses.insert(uses.end(), 1 + bits / 1024 % longest, use);
    }
    for (const std::int64_t max_runs : {32, 100, 4096}) {
      const BlockRuns map = gather_blocks(uses, max_runs);
      ASSERT_LE(std::ssize(map.runs), max_runs) << "seed " << seed;
      ASSERT_EQ(total(map), std::ssize(uses)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace quire
