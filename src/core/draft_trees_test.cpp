// Drafts that form a tree: each path reads and writes its own blocks, the right one's stay.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int32_t kRoot = DraftTreeView::kRoot;

// A request with a prompt of three tokens, in blocks of four, that knows one output token.
class DraftTrees : public SchedulerTest {
 protected:
  static SchedulerConfig tree_config() {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 24;
    config.max_draft_paths = 4;
    return config;
  }
  void start(const SchedulerConfig& config = tree_config()) {
    make(config);
    add(request_of(1, 3, 20));
    step(5);
  }
  void propose(const std::vector<TokenId>& tokens, const std::vector<std::int32_t>& parents) {
    scheduler_->propose(1, {tokens, parents});
  }
  // 6 -> 7 -> 8, and 9 beside 7, and 10 -> 11 beside 6.
  void propose_tree() { propose({6, 10, 7, 9, 8, 11}, {kRoot, kRoot, 0, 0, 2, 1}); }
  Status take(const SchedulerOutput& plan, const std::vector<TokenId>& tokens) {
    ModelRunnerOutput result;
    result.step_id = plan.step_id;
    for (const TokenId token : tokens) {
      result.sampled.push_back({.request_id = 1, .token_id = token});
    }
    outputs_.clear();
    Status status = scheduler_->update(result, now_, outputs_);
    check();
    return status;
  }
  std::int64_t blocks_used() const { return scheduler_->stats().blocks_used; }

  std::vector<RequestStepOutput> outputs_;
};

TEST_F(DraftTrees, EachPathButTheFirstHasBlocksOfItsOwn) {
  start();
  propose_tree();
  const SchedulerOutput plan = schedule();
  ASSERT_THAT(shares(plan), ElementsAre("1:3+7!"));
  const ScheduledRequest& share = plan.scheduled[0];
  EXPECT_THAT(plan.drafts_of(share).tokens(), ElementsAre(6, 7, 8, 10, 11, 9));
  EXPECT_THAT(plan.drafts_of(share).parents(), ElementsAre(kRoot, 0, 1, kRoot, 3, 0));
  EXPECT_EQ(share.num_drafts, 6);
  EXPECT_EQ(share.num_branched, 3);
  EXPECT_EQ(share.end(), 7);
  EXPECT_EQ(share.end_without_drafts(), 4);
  // Token 3 fills the first block: drafts begin with the second, which nothing computed is in.
  EXPECT_EQ(scheduler_->find_blocks(1)->size(), 2);
  EXPECT_EQ(share.num_branch_blocks, 2);
  EXPECT_THAT(plan.block_copies, IsEmpty());
  EXPECT_EQ(blocks_used(), 4);
  EXPECT_EQ(scheduler_->kv_cache().num_branch_pages(), 2);
}

TEST_F(DraftTrees, WhatABlockHoldsOfComputedTokensIsCopied) {
  start();
  step(5);
  step(5);  // five tokens are computed, the sixth is known
  propose({6, 7}, {kRoot, kRoot});
  const SchedulerOutput plan = schedule();
  ASSERT_THAT(shares(plan), ElementsAre("1:5+3!"));
  ASSERT_EQ(plan.branch_blocks_of(plan.scheduled[0]).size(), 1U);
  EXPECT_THAT(plan.block_copies,
              ElementsAre(BlockCopy{scheduler_->find_blocks(1)->at(1),
                                    plan.branch_blocks_of(plan.scheduled[0])[0]}));
}

TEST_F(DraftTrees, TheRightPathsBlocksStay) {
  start();
  propose_tree();
  const SchedulerOutput plan = schedule();
  const BlockId right = plan.branch_blocks_of(plan.scheduled[0])[0];
  ASSERT_TRUE(take(plan, {10, 11, 12}).ok());
  EXPECT_THAT(scheduler_->find(1)->output_token_ids(), ElementsAre(5, 10, 11, 12));
  EXPECT_EQ(scheduler_->find(1)->num_computed_tokens(), 6);
  EXPECT_EQ(blocks_used(), 2);
  EXPECT_EQ(scheduler_->kv_cache().num_branch_pages(), 0);
  EXPECT_EQ(scheduler_->find_blocks(1)->at(1), right);
  const SchedulerOutput next = schedule();
  EXPECT_THAT(next.adopted_blocks, ElementsAre(BlockReplacement{1, 1, right}));
  EXPECT_THAT(shares(next), ElementsAre("1:6+1!"));
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.draft_tokens, 6);
  EXPECT_EQ(stats.draft_tokens_accepted, 2);
  EXPECT_EQ(stats.draft_tokens_rejected, 4);
  EXPECT_EQ(stats.draft_tokens_accepted_at[0], 1);
  EXPECT_EQ(stats.draft_tokens_accepted_at[1], 1);
  EXPECT_EQ(stats.tokens_discarded, 4);
}

TEST_F(DraftTrees, APathThatLeavesABranchTakesItsBlocksToo) {
  SchedulerConfig config = tree_config();
  config.block_size = 1;
  config.num_blocks = 40;
  start(config);
  // 6 7 8 9 | 10 11 12 | 13 14 behind 11
  propose({6, 7, 8, 9, 10, 11, 12, 13, 14}, {kRoot, 0, 1, 2, kRoot, 4, 5, 5, 7});
  const SchedulerOutput plan = schedule();
  ASSERT_EQ(plan.scheduled[0].num_branch_blocks, 5);
  const std::vector<BlockId> entries(plan.branch_blocks_of(plan.scheduled[0]).begin(),
                                     plan.branch_blocks_of(plan.scheduled[0]).end());
  // The two that follow 11 make the longer path, so 12 is the branch's branch.
  EXPECT_THAT(plan.drafts_of(plan.scheduled[0]).tokens(),
              ElementsAre(6, 7, 8, 9, 10, 11, 13, 14, 12));
  ASSERT_TRUE(take(plan, {10, 11, 12, 3}).ok());
  EXPECT_EQ(scheduler_->find_blocks(1)->at(4), entries[0]);
  EXPECT_EQ(scheduler_->find_blocks(1)->at(5), entries[1]);
  EXPECT_EQ(scheduler_->find_blocks(1)->at(6), entries[4]);
  EXPECT_EQ(blocks_used(), 7);
  const SchedulerOutput next = schedule();
  EXPECT_THAT(next.truncated_tables, ElementsAre(BlockTruncation{1, 7}));
  EXPECT_EQ(next.adopted_blocks.size(), 3U);
}

TEST_F(DraftTrees, AllBranchesGoWhereTheFirstPathIsRight) {
  start();
  propose_tree();
  const SchedulerOutput plan = schedule();
  ASSERT_TRUE(take(plan, {6, 7, 3}).ok());
  EXPECT_EQ(blocks_used(), 2);
  EXPECT_THAT(schedule().adopted_blocks, IsEmpty());
}

TEST_F(DraftTrees, WhoEndsOrIsAbortedGivesAllBack) {
  start();
  propose_tree();
  ASSERT_TRUE(take(schedule(), {10, kEos}).ok());
  ASSERT_NE(outputs_[0].finished, nullptr);
  EXPECT_EQ(blocks_used(), 0);
  start();
  propose_tree();
  const SchedulerOutput plan = schedule();
  ASSERT_NE(abort(1), nullptr);
  EXPECT_EQ(blocks_used(), 0);
  EXPECT_TRUE(take(plan, {10, 11, 12}).ok());
}

TEST_F(DraftTrees, WhatWasNotDraftedAfterAnotherIsNoResult) {
  start();
  propose_tree();
  EXPECT_EQ(take(schedule(), {10, 7, 8}).code(), StatusCode::kInternal);
}

TEST_F(DraftTrees, WhereBlocksAreShortTheyAreAChainOrNothing) {
  SchedulerConfig config = tree_config();
  config.num_blocks = 8;  // one sequence of the greatest length
  config.max_num_seqs = 3;
  make(config);
  add(request_of(1, 3, 20));
  add(request_of(2, 20, 2));  // six blocks, which leaves one of two
  step(5);
  propose_tree();
  const SchedulerOutput chain = schedule();
  EXPECT_THAT(shares(chain), testing::Contains("1:3+4!"));
  EXPECT_EQ(chain.scheduled[0].num_branch_blocks, 0);
  ASSERT_EQ(scheduler_->stats().num_preemptions, 0);
}

// The second request needs the last block for its own token.
TEST_F(DraftTrees, NobodyGivesWayForAGuess) {
  SchedulerConfig config = tree_config();
  config.num_blocks = 8;
  config.max_num_batched_tokens = 32;
  make(config);
  add(request_of(1, 3, 20));
  add(request_of(2, 24, 5));
  step(5);  // seven blocks
  ASSERT_EQ(blocks_used(), 7);
  propose({6, 7}, {kRoot, 0});  // would need the eighth
  EXPECT_THAT(shares(schedule()), ElementsAre("1:3+1!", "2:24+1!"));
  EXPECT_EQ(scheduler_->stats().num_preemptions, 0);
}

TEST_F(DraftTrees, AreChainsWhereOnlyThoseAreAllowed) {
  SchedulerConfig config = tree_config();
  config.max_draft_paths = 1;
  start(config);
  propose_tree();
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(plan.drafts_of(plan.scheduled[0]).tokens(), ElementsAre(6, 7, 8));
}

TEST_F(DraftTrees, GoNoFurtherThanTheOutputMay) {
  make(tree_config());
  add(request_of(1, 3, 4));  // two drafts may follow the token that is known
  step(5);
  propose_tree();
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(plan.drafts_of(plan.scheduled[0]).tokens(), ElementsAre(6, 7, 10, 11, 9));
}

TEST(KvCacheBranches, EachGroupsPagesAreTheBranchs) {
  KvCacheManager kv(2, 40, false, {{.window = 0, .pages_per_block = 2}, {.window = 3}});
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(1, 0, 5, plan));
  kv.release_passed(1, 5);
  ASSERT_TRUE(kv.allocate(1, 5, 4, plan));  // the token that is known, three drafts
  plan.clear();
  const std::vector<DraftPath> paths = {{.first = 0, .count = 3},
                                        {.first = 3, .count = 2, .depth = 2, .parent = 0}};
  EXPECT_EQ(kv.branch_pages(5, paths), 6);
  const std::int32_t free = kv.pool().num_free_blocks();
  ASSERT_EQ(kv.branch(1, 5, paths, plan), 6);
  EXPECT_EQ(kv.pool().num_free_blocks(), free - 6);
  EXPECT_EQ(kv.check_invariants().message(), "");
  EXPECT_THAT(plan.block_copies, IsEmpty());
  std::vector<BlockReplacement> adopted;
  kv.truncate(1, 8);
  kv.adopt(1, 1, adopted);
  EXPECT_EQ(adopted.size(), 3U);
  EXPECT_EQ(kv.find(1)->at(3, 0), plan.new_block_ids[0]);
  EXPECT_EQ(kv.find(1)->at(3, 2), plan.new_block_ids[2]);
  EXPECT_EQ(kv.check_invariants().message(), "");
  kv.free(1);
  EXPECT_EQ(kv.pool().num_used_blocks(), 0);
}

}  // namespace
}  // namespace quire
