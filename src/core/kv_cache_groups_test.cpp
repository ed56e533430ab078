// The KV cache of a model whose layers keep different tokens.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kv_cache_manager.h"

namespace quire {
namespace kv_cache_groups_test {

using testing::ElementsAre;

// Blocks of two tokens: a page for layers that keep all, two for those that read four tokens.
const std::vector<KvGroup> kGroups = {{}, {.window = 4, .pages_per_block = 2}};

std::vector<TokenId> count_to(std::int32_t size) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

// As a scheduler does it for a step that computes all of them.
void compute(KvCacheManager& kv, RequestId id, const std::vector<TokenId>& tokens,
             std::int32_t num_computed = 0) {
  SchedulerOutput plan;
  const auto size = static_cast<std::int32_t>(tokens.size());
  ASSERT_TRUE(kv.allocate(id, num_computed, size - num_computed, plan));
  kv.commit(id, tokens, size);
  kv.release_passed(id, size);
  ASSERT_EQ(kv.check_invariants().message(), "");
  ASSERT_EQ(kv.check_windows(id, size).message(), "");
}

TEST(KvGroup, NeverHoldsMoreBlocksThanItSays) {
  for (const std::int32_t block_size : {1, 2, 3, 16}) {
    for (std::int32_t window = 1; window < 40; ++window) {
      const KvGroup group = {.window = window};
      for (std::int32_t num_new = 1; num_new < 40; ++num_new) {
        std::int64_t most = 0;
        for (std::int32_t computed = 0; computed + num_new <= 100; ++computed) {
          most = std::max<std::int64_t>(most, ceil_div(computed + num_new, block_size) -
                                                  group.first_block(computed, block_size));
        }
        ASSERT_EQ(group.max_blocks(100, num_new, block_size), most)
            << window << " " << num_new << " " << block_size;
      }
      EXPECT_EQ(group.max_blocks(3, 1, block_size),
                std::min(ceil_div(3, block_size), group.max_blocks(100, 1, block_size)));
    }
  }
}

TEST(KvCacheGroups, ABlockHasPagesInEveryGroup) {
  KvCacheManager kv(2, 12, true, kGroups);
  SchedulerOutput plan;
  ASSERT_EQ(kv.allocate(1, 0, 3, plan), 6);
  EXPECT_THAT(plan.new_block_ids, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(kv.find(1)->size(), 2);
  EXPECT_THAT(kv.find(1)->block(1), ElementsAre(3, 4, 5));
  EXPECT_EQ(kv.pages_needed(2, 0, 5), 9);
  EXPECT_FALSE(kv.allocate(2, 0, 5, plan));
  EXPECT_THAT(kv.group_uses(),
              ElementsAre(KvCacheManager::GroupUse{2, 0}, KvCacheManager::GroupUse{4, 0}));
}

TEST(KvCacheGroups, WhatIsBehindAWindowIsReleasedAndMayBeFound) {
  KvCacheManager kv(2, 32, true, kGroups);
  const auto tokens = count_to(9);
  compute(kv, 1, tokens);
  // Token 9 reads tokens 6 to 9, which are in the blocks 3 and 4.
  EXPECT_EQ(kv.find(1)->at(2, 0), 6);
  EXPECT_EQ(kv.find(1)->at(2, 1), kNullBlock);
  EXPECT_NE(kv.find(1)->at(3, 1), kNullBlock);
  EXPECT_THAT(kv.group_uses(),
              ElementsAre(KvCacheManager::GroupUse{5, 0}, KvCacheManager::GroupUse{4, 6}));
  EXPECT_EQ(kv.num_cached_blocks(), 6);
  EXPECT_EQ(kv.pool().num_used_blocks(), 9);
  kv.free(1);
  EXPECT_EQ(kv.pool().num_used_blocks(), 0);
  EXPECT_EQ(kv.blocks_leaked(), 0);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

TEST(KvCacheGroups, WhatIsBehindAWindowIsFreeWithoutAPrefixCacheToo) {
  KvCacheManager kv(2, 32, false, kGroups);
  compute(kv, 1, count_to(9));
  EXPECT_EQ(kv.pool().num_used_blocks(), 9);
  EXPECT_EQ(kv.num_cached_blocks(), 0);
}

// A hit needs all blocks of the group that keeps all, and of the other those of its window.
TEST(KvCacheGroups, AHitEndsWhereEveryGroupHasWhatItNeeds) {
  KvCacheManager kv(2, 20, true, kGroups);
  const auto tokens = count_to(9);
  compute(kv, 1, tokens);
  kv.free(1);
  auto match = kv.match_prefix(tokens, 8);
  EXPECT_EQ(match.num_blocks, 4);
  EXPECT_EQ(match.num_free_pages, 4 + 2 * 2);
  kv.share_prefix(2, match);
  EXPECT_EQ(kv.find(2)->at(1, 1), kNullBlock);
  EXPECT_NE(kv.find(2)->at(2, 1), kNullBlock);
  EXPECT_EQ(kv.check_windows(2, 8).message(), "");
  EXPECT_EQ(kv.check_invariants().message(), "");
  kv.free(2);

  // After eight pages without content, those of the window of the first two blocks are the least
  // recently used.
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(3, 0, 7, plan));
  EXPECT_EQ(kv.match_prefix(tokens, 8).num_blocks, 4);
  EXPECT_EQ(kv.match_prefix(tokens, 7).num_blocks, 0);  // its window would begin in block 1
  kv.free(3);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

// Its other pages are of no use without it, and the next to be taken.
TEST(KvCacheGroups, AGroupsBlockIsGivenUpAsAWhole) {
  KvCacheManager kv(2, 6, true, {{.window = 0, .pages_per_block = 3}});
  compute(kv, 1, {1, 2});
  compute(kv, 2, {3, 4});
  kv.free(1);
  kv.free(2);
  EXPECT_EQ(kv.num_cached_blocks(), 6);
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(3, 0, 1, plan));
  EXPECT_EQ(kv.num_cached_blocks(), 3);
  EXPECT_EQ(kv.match_prefix(std::vector<TokenId>{3, 4, 5}, 2).num_blocks, 1);
  EXPECT_EQ(kv.match_prefix(std::vector<TokenId>{1, 2, 5}, 2).num_blocks, 0);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

// Whoever computes the same tokens again gives the node the block that it has lost.
TEST(KvCacheGroups, ANodeGetsABlockAgain) {
  KvCacheManager kv(2, 9, true, {{.window = 2, .pages_per_block = 1}});
  const auto tokens = count_to(7);
  compute(kv, 1, tokens);  // blocks 0 to 2 have been passed
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(2, 0, 12, plan));  // takes those without content first
  EXPECT_EQ(kv.match_prefix(tokens, 2).num_blocks, 0);
  kv.free(2);
  compute(kv, 3, {1, 2, 9});
  EXPECT_EQ(kv.match_prefix(tokens, 2).num_blocks, 1);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

TEST(KvCacheGroups, AForkNeedsTheWindowBeforeIt) {
  KvCacheManager kv(2, 40, true, kGroups);
  auto tokens = count_to(8);
  compute(kv, 1, tokens);
  ASSERT_TRUE(kv.can_fork(1, 8));
  kv.fork(1, 2, 8);
  EXPECT_EQ(kv.check_windows(2, 7).message(), "");
  EXPECT_EQ(kv.check_invariants().message(), "");
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(2, 7, 1, plan));
  EXPECT_EQ(plan.block_copies.size(), 3U);  // all pages of its last block
  tokens.insert(tokens.end(), {9, 10, 11, 12, 13});
  compute(kv, 1, tokens, 8);
  EXPECT_FALSE(kv.can_fork(1, 8));
}

// Blocks of two tokens: a page for layers that keep all, two of a state.
const std::vector<KvGroup> kStates = {
    {}, {.window = KvGroup::kStateWindow, .pages_per_block = 2, .state = true}};

TEST(KvCacheStates, ARequestHoldsTheStateOfItsLastToken) {
  KvCacheManager kv(2, 32, true, kStates);
  auto tokens = count_to(5);
  compute(kv, 1, tokens);
  EXPECT_EQ(kv.find(1)->at(1, 1), kNullBlock);
  const BlockId state = kv.find(1)->at(2, 1);
  EXPECT_NE(state, kNullBlock);
  // In place within a block, from one to the next where one ends.
  tokens.push_back(6);
  compute(kv, 1, tokens, 5);
  EXPECT_EQ(kv.find(1)->at(2, 1), state);
  tokens.push_back(7);
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(1, 6, 1, plan));
  EXPECT_EQ(kv.find(1)->at(2, 1), state);
  EXPECT_NE(kv.find(1)->at(3, 1), kNullBlock);
  kv.commit(1, tokens, 7);
  kv.release_passed(1, 7);
  EXPECT_EQ(kv.find(1)->at(2, 1), kNullBlock);
  EXPECT_TRUE(kv.findable(state)) << "what the block has left is a snapshot";
  kv.free(1);
  EXPECT_EQ(kv.pool().num_used_blocks(), 0);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

TEST(KvCacheStates, AHitEndsAtASnapshot) {
  KvCacheManager kv(2, 32, true, kStates);
  const auto tokens = count_to(9);
  compute(kv, 1, tokens);
  kv.free(1);
  auto match = kv.match_prefix(tokens, 7);
  EXPECT_EQ(match.num_tokens, 6) << "there is no state after token 7";
  EXPECT_EQ(match.num_free_pages, 3 + 2);
  kv.share_prefix(2, match);
  EXPECT_EQ(kv.find(2)->at(1, 1), kNullBlock);
  EXPECT_NE(kv.find(2)->at(2, 1), kNullBlock);
  EXPECT_EQ(kv.check_windows(2, 6).message(), "");
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(2, 6, 1, plan));
  EXPECT_TRUE(plan.block_copies.empty()) << "the snapshot is read, and the next block written";
  kv.free(2);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

// Where a sequence has ended, whoever goes on after its last token finds its state, and nobody
// else.
TEST(KvCacheStates, AnEndServesThoseWhoGoOnAfterAllOfIt) {
  KvCacheManager kv(4, 32, true, kStates);
  const auto tokens = count_to(7);
  compute(kv, 1, tokens);
  kv.keep_end(1, tokens, 7);
  kv.free(1);
  EXPECT_EQ(kv.match_prefix(count_to(9), 8).num_tokens, 7);
  EXPECT_EQ(kv.match_prefix(tokens, 6).num_tokens, 4);
  EXPECT_EQ(kv.match_prefix(std::vector<TokenId>{1, 2, 3, 4, 5, 6, 9, 9}, 7).num_tokens, 4);
  // A shorter one is none of its beginnings.
  const auto shorter = count_to(6);
  compute(kv, 2, shorter);
  kv.keep_end(2, shorter, 6);
  kv.free(2);
  EXPECT_EQ(kv.match_prefix(tokens, 6).num_tokens, 6);
  EXPECT_EQ(kv.check_invariants().message(), "");

  // Two who go on write a copy each; the one who is alone, into the state itself.
  const auto match = kv.match_prefix(count_to(9), 8);
  kv.share_prefix(3, match);
  kv.share_prefix(4, match);
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(3, 7, 1, plan));
  EXPECT_EQ(plan.block_copies.size(), 3U);
  ASSERT_TRUE(kv.allocate(4, 7, 1, plan));
  EXPECT_EQ(plan.block_copies.size(), 3U);
  EXPECT_EQ(kv.match_prefix(count_to(9), 8).num_tokens, 6) << "what has gone on is lost";
}

TEST(KvCacheStates, BeamsCopyAStateAndOutputsOfOnePromptFindOne) {
  KvCacheManager kv(4, 32, true, kStates);
  auto tokens = count_to(6);
  compute(kv, 1, tokens);
  EXPECT_FALSE(kv.can_fork(1, 6)) << "its state has the last token in it";
  kv.fork(1, 2);
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(2, 6, 1, plan));
  EXPECT_EQ(plan.block_copies.size(), 3U);
  EXPECT_NE(kv.find(1)->at(1, 1), kv.find(2)->at(1, 1));
  EXPECT_EQ(kv.check_invariants().message(), "");
}

}  // namespace kv_cache_groups_test
}  // namespace quire
