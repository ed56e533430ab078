#include "core/block_pool.h"

#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

TEST(BlockPool, GivesEveryBlockOnce) {
  BlockPool pool(3);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.allocate(), std::nullopt);
  EXPECT_EQ(pool.num_free_blocks(), 0);
  EXPECT_EQ(pool.num_used_blocks(), 3);
  EXPECT_TRUE(pool.check_invariants().ok());
}

TEST(BlockPool, TakesTheLeastRecentlyFreed) {
  BlockPool pool(4);
  for (int i = 0; i < 3; ++i) pool.allocate();
  pool.release(1, FreeListEnd::kBack);
  pool.release(0, FreeListEnd::kBack);
  pool.release(2, FreeListEnd::kBack);
  EXPECT_EQ(pool.allocate(), 3);  // never used: freed longest ago
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 2);
}

TEST(BlockPool, TakesFirstWhatWasFreedAtTheFront) {
  BlockPool pool(4);
  for (int i = 0; i < 3; ++i) pool.allocate();
  pool.release(1, FreeListEnd::kBack);
  pool.release(0, FreeListEnd::kFront);
  pool.release(2, FreeListEnd::kFront);
  for (const BlockId expected : {2, 0, 3, 1}) EXPECT_EQ(pool.allocate(), expected);
}

TEST(BlockPool, TakesAnyFreeBlockOutOfTheList) {
  BlockPool pool(4);
  pool.take(2);
  EXPECT_EQ(pool.reference_count(2), 1);
  pool.take(0);
  EXPECT_EQ(pool.check_invariants().message(), "");
  for (const BlockId expected : {1, 3}) EXPECT_EQ(pool.allocate(), expected);
  EXPECT_EQ(pool.allocate(), std::nullopt);
}

TEST(BlockPool, IsFreeWithItsLastReference) {
  BlockPool pool(1);
  const BlockId id = *pool.allocate();
  pool.add_reference(id);
  EXPECT_TRUE(pool.shared(id));
  EXPECT_EQ(pool.num_references(), 2);
  EXPECT_EQ(pool.num_shared_blocks(), 1);
  pool.release(id, FreeListEnd::kBack);
  EXPECT_FALSE(pool.shared(id));
  EXPECT_EQ(pool.num_shared_blocks(), 0);
  EXPECT_EQ(pool.num_free_blocks(), 0);
  pool.release(id, FreeListEnd::kBack);
  EXPECT_EQ(pool.reference_count(id), 0);
  EXPECT_EQ(pool.num_free_blocks(), 1);
  EXPECT_EQ(pool.allocate(), id);
}

// Against the plainest model: a queue of free ids and an array of counts.
TEST(BlockPool, AgreesWithAModelOnRandomOperations) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto num_blocks = static_cast<std::int32_t>(1 + random_bits(seed, 0) % 20);
    BlockPool pool(num_blocks);
    std::deque<BlockId> free;
    for (BlockId id = 0; id < num_blocks; ++id) free.push_back(id);
    std::vector<std::int32_t> counts(static_cast<std::size_t>(num_blocks), 0);
    for (std::uint64_t i = 1; i < 400; ++i) {
      const std::uint64_t bits = random_bits(seed, i);
      const auto id = static_cast<BlockId>((bits >> 8) % static_cast<std::uint64_t>(num_blocks));
      std::int32_t& count = counts[static_cast<std::size_t>(id)];
      if (bits % 3 == 0) {
        const auto got = pool.allocate();
        ASSERT_EQ(got.has_value(), !free.empty());
        if (!got) continue;
        ASSERT_EQ(*got, free.front());
        free.pop_front();
        counts[static_cast<std::size_t>(*got)] = 1;
      } else if (count == 0) {
        if (bits % 2 == 0) continue;
        pool.take(id);
        std::erase(free, id);
        count = 1;
      } else if (bits % 3 == 1) {
        pool.add_reference(id);
        ++count;
      } else if (bits % 2 == 0) {
        pool.release(id, FreeListEnd::kBack);
        if (--count == 0) free.push_back(id);
      } else {
        pool.release(id, FreeListEnd::kFront);
        if (--count == 0) free.push_front(id);
      }
      ASSERT_EQ(pool.reference_count(id), counts[static_cast<std::size_t>(id)]);
      ASSERT_EQ(pool.num_free_blocks(), std::ssize(free));
      ASSERT_EQ(pool.check_invariants().message(), "");
    }
  }
}

}  // namespace
}  // namespace quire
