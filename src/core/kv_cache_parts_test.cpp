// Cached prefixes that end within a block.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kv_cache_manager.h"

namespace quire {
namespace kv_cache_parts_test {

using testing::ElementsAre;
using testing::IsEmpty;

// The allocation's part of a plan; nullopt if it was refused.
std::optional<SchedulerOutput> allocate(KvCacheManager& kv, RequestId id, std::int32_t num_computed,
                                        std::int32_t num_new) {
  SchedulerOutput plan;
  if (!kv.allocate(id, num_computed, num_new, plan)) return std::nullopt;
  return plan;
}

// Allocates and commits all of a sequence.
void compute(KvCacheManager& kv, RequestId id, const std::vector<TokenId>& tokens) {
  const auto size = static_cast<std::int32_t>(tokens.size());
  ASSERT_TRUE(allocate(kv, id, 0, size));
  kv.commit(id, tokens, size);
}

// What is found of a block is copied for whoever goes on in it, for the rest of it stays findable.
TEST(KvCacheParts, APrefixMayEndWithinABlock) {
  for (const bool in_use : {true, false}) {
    KvCacheManager kv(4, 4, true);
    compute(kv, 1, {1, 2, 3, 4, 5, 6, 7, 8});
    if (!in_use) kv.free(1);
    const std::vector<TokenId> other = {1, 2, 3, 4, 5, 6, 9};
    const auto match = kv.match_prefix(other, 6);
    EXPECT_EQ(match.num_blocks, 1);
    EXPECT_EQ(match.num_tokens, 6);
    EXPECT_EQ(match.num_copied_pages, in_use ? 0 : 1);
    EXPECT_EQ(kv.match_prefix(other, 5).num_tokens, 5);  // no more than was asked for
    kv.share_prefix(2, match);
    EXPECT_EQ(kv.pages_needed(2, 6, 1), 1);
    const auto plan = allocate(kv, 2, 6, 1);
    ASSERT_EQ(plan->block_copies.size(), 1U);
    EXPECT_EQ(plan->block_copies[0].source, 1);
    EXPECT_EQ(plan->replaced_blocks[0].index, 1);
    EXPECT_EQ(kv.match_prefix(std::vector<TokenId>{1, 2, 3, 4, 5, 6, 7, 8}, 8).num_blocks, 2);
    EXPECT_EQ(kv.check_invariants().message(), "");
  }
}

// Where a sequence ended the next one goes on, in the same block if nothing is lost by that.
TEST(KvCacheParts, TheEndOfASequenceIsFound) {
  KvCacheManager kv(4, 4, true);
  const std::vector<TokenId> ended = {1, 2, 3, 4, 5, 6};
  compute(kv, 1, ended);
  kv.keep_end(1, ended, 6);
  kv.free(1);
  EXPECT_EQ(kv.num_cached_blocks(), 2);
  const std::vector<TokenId> next = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto match = kv.match_prefix(next, 8);
  EXPECT_EQ(match.num_tokens, 6);
  EXPECT_EQ(match.num_copied_pages, 0);
  kv.share_prefix(2, match);
  EXPECT_THAT(allocate(kv, 2, 6, 2)->block_copies, IsEmpty());
  EXPECT_THAT(kv.find(2)->block_ids(), ElementsAre(0, 1));
  EXPECT_EQ(kv.match_prefix(next, 8).num_tokens, 4);  // it is being written to
  kv.commit(2, next, 8);
  kv.free(2);
  EXPECT_EQ(kv.match_prefix(ended, 6).num_tokens, 6);
  EXPECT_EQ(kv.num_cached_blocks(), 2);
  EXPECT_EQ(kv.check_invariants().message(), "");

  // An end that another block begins with is not kept a second time.
  compute(kv, 3, ended);
  kv.keep_end(3, ended, 6);
  kv.free(3);
  EXPECT_EQ(kv.num_cached_blocks(), 2);
}

TEST(KvCacheParts, AnEndIsNotKeptWhereNobodyFindsTheWay) {
  KvCacheManager kv(2, 4, true);
  const std::vector<TokenId> tokens = {1, 2, 3};
  ASSERT_TRUE(allocate(kv, 1, 0, 3));
  kv.keep_end(1, tokens, 3);  // the block before was not committed
  kv.free(1);
  EXPECT_EQ(kv.num_cached_blocks(), 0);
  KvCacheManager without(2, 4, false);
  ASSERT_TRUE(allocate(without, 1, 0, 3));
  without.keep_end(1, tokens, 3);
  without.free(1);
  EXPECT_EQ(without.num_cached_blocks(), 0);
}

}  // namespace kv_cache_parts_test
}  // namespace quire
