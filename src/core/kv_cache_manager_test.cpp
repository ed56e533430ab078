#include "core/kv_cache_manager.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/random.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KvCacheManager, AppendsOnlyWhatTheTokensNeed) {
  KvCacheManager kv(4, 8);
  EXPECT_THAT(kv.allocate(1, 0, 5)->new_block_ids, ElementsAre(0, 1));
  EXPECT_THAT(kv.allocate(1, 5, 3)->new_block_ids, IsEmpty());  // fills block 1
  EXPECT_THAT(kv.allocate(1, 8, 1)->new_block_ids, ElementsAre(2));
  EXPECT_THAT(kv.find(1)->block_ids(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, AllOrNothing) {
  KvCacheManager kv(4, 3);
  ASSERT_TRUE(kv.allocate(1, 0, 8));
  EXPECT_EQ(kv.blocks_needed(2, 0, 5), 2);
  EXPECT_FALSE(kv.allocate(2, 0, 5));
  EXPECT_EQ(kv.find(2), nullptr);
  EXPECT_EQ(kv.pool().num_free_blocks(), 1);
  EXPECT_FALSE(kv.allocate(1, 8, 5));
  EXPECT_EQ(kv.find(1)->size(), 2);
  EXPECT_TRUE(kv.allocate(2, 0, 4));
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, FitsEverCountsTheWholePool) {
  const KvCacheManager kv(4, 3);
  EXPECT_TRUE(kv.fits_ever(12));
  EXPECT_FALSE(kv.fits_ever(13));
  EXPECT_FALSE(kv.fits_ever(1LL << 40));
}

TEST(KvCacheManager, FreesTheLastBlockFirst) {
  KvCacheManager kv(1, 3);
  kv.allocate(1, 0, 3);
  kv.free(1);
  kv.free(1);  // has none any more
  EXPECT_EQ(kv.find(1), nullptr);
  EXPECT_EQ(kv.pool().num_free_blocks(), 3);
  EXPECT_THAT(kv.allocate(2, 0, 2)->new_block_ids, ElementsAre(2, 1));
  EXPECT_EQ(kv.blocks_leaked(), 0);
}

TEST(KvCacheManager, AForkSharesAllBlocks) {
  KvCacheManager kv(4, 8);
  kv.allocate(1, 0, 6);
  kv.fork(1, 2);
  EXPECT_EQ(kv.find(2)->block_ids(), kv.find(1)->block_ids());
  EXPECT_EQ(kv.pool().num_used_blocks(), 2);
  EXPECT_TRUE(kv.check_invariants().ok());
  kv.free(1);
  EXPECT_EQ(kv.pool().num_used_blocks(), 2);
  kv.free(2);
  EXPECT_EQ(kv.pool().num_used_blocks(), 0);
}

TEST(KvCacheManager, TheFirstWriterIntoASharedBlockGetsACopy) {
  KvCacheManager kv(4, 8);
  kv.allocate(1, 0, 6);
  kv.fork(1, 2);
  EXPECT_EQ(kv.blocks_needed(2, 6, 1), 1);
  const auto child = kv.allocate(2, 6, 3);  // two tokens into the shared block, one into a new one
  ASSERT_TRUE(child);
  ASSERT_EQ(child->block_copies.size(), 1U);
  EXPECT_EQ(child->block_copies[0].source, 1);
  EXPECT_EQ(child->block_copies[0].destination, 2);
  EXPECT_EQ(child->replaced_blocks[0].request_id, 2U);
  EXPECT_EQ(child->replaced_blocks[0].index, 1);
  EXPECT_EQ(child->replaced_blocks[0].block_id, 2);
  EXPECT_THAT(child->new_block_ids, ElementsAre(3));
  EXPECT_THAT(kv.find(2)->block_ids(), ElementsAre(0, 2, 3));

  const auto parent = kv.allocate(1, 6, 1);  // the last holder needs no copy
  ASSERT_TRUE(parent);
  EXPECT_THAT(parent->block_copies, IsEmpty());
  EXPECT_THAT(kv.find(1)->block_ids(), ElementsAre(0, 1));
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, FullSharedBlocksAreNeverCopied) {
  KvCacheManager kv(4, 8);
  kv.allocate(1, 0, 8);
  kv.fork(1, 2);
  const auto child = kv.allocate(2, 8, 1);
  EXPECT_THAT(child->block_copies, IsEmpty());
  EXPECT_THAT(child->new_block_ids, ElementsAre(2));
}

TEST(KvCacheManager, ACopyNeedsAFreeBlock) {
  KvCacheManager kv(4, 2);
  kv.allocate(1, 0, 6);
  kv.fork(1, 2);
  EXPECT_FALSE(kv.allocate(2, 6, 1));
  EXPECT_THAT(kv.find(2)->block_ids(), ElementsAre(0, 1));
  EXPECT_TRUE(kv.check_invariants().ok());
}

// Random requests grow, fork and end; contents follow the copies that the manager orders. Whatever
// was written for a request must still be there at its end.
TEST(KvCacheManager, NoRequestSeesAnothersWrites) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::uint64_t counter = 0;
    const auto pick = [&](std::int32_t low, std::int32_t high) {
      return low + static_cast<std::int32_t>(random_bits(seed, counter++) %
                                             static_cast<std::uint64_t>(high - low + 1));
    };
    const std::int32_t block_size = pick(1, 8);
    const std::int32_t num_blocks = pick(1, 24);
    KvCacheManager kv(block_size, num_blocks);
    std::vector<std::vector<std::uint64_t>> memory(  // by block
        static_cast<std::size_t>(num_blocks),
        std::vector<std::uint64_t>(static_cast<std::size_t>(block_size)));
    std::map<RequestId, std::vector<std::uint64_t>> written;  // what each request has computed
    const auto slot = [&](RequestId id, std::int32_t position) -> std::uint64_t& {
      auto& block = memory[static_cast<std::size_t>((*kv.find(id))[position / block_size])];
      return block[static_cast<std::size_t>(position % block_size)];
    };
    for (int operation = 0; operation < 200; ++operation) {
      const auto id = static_cast<RequestId>(pick(1, 6));
      const auto other = static_cast<RequestId>(pick(1, 6));
      const auto num_computed = static_cast<std::int32_t>(std::ssize(written[id]));
      const int what = pick(0, 9);
      if (what == 0) {
        kv.free(id);
        written.erase(id);
      } else if (what == 1 && num_computed > 0 && kv.find(other) == nullptr) {
        kv.fork(id, other);
        written[other] = written[id];
      } else if (what > 1) {
        const std::int32_t num_new = pick(1, 2 * block_size);
        const std::int32_t needed = kv.blocks_needed(id, num_computed, num_new);
        const std::int32_t num_free = kv.pool().num_free_blocks();
        const auto allocation = kv.allocate(id, num_computed, num_new);
        ASSERT_EQ(allocation.has_value(), needed <= num_free);
        if (!allocation) continue;
        ASSERT_EQ(kv.pool().num_free_blocks(), num_free - needed);
        for (const BlockCopy& copy : allocation->block_copies) {
          memory[static_cast<std::size_t>(copy.destination)] =
              memory[static_cast<std::size_t>(copy.source)];
        }
        for (std::int32_t i = num_computed; i < num_computed + num_new; ++i) {
          written[id].push_back(random_bits(seed, counter++));
          slot(id, i) = written[id].back();
        }
      }
      ASSERT_EQ(kv.check_invariants().message(), "") << "seed " << seed;
      for (const auto& [request_id, values] : written) {
        for (std::int32_t i = 0; i < std::ssize(values); ++i) {
          ASSERT_EQ(slot(request_id, i), values[static_cast<std::size_t>(i)]) << "seed " << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
