// Blocks that leave the prefix cache for the tier below it, and requests that wait until they are
// back.
#include <numeric>

#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class SchedulerTier : public SchedulerTest {
 protected:
  // Six blocks of four tokens: a prompt of sixteen leaves room for little else.
  void SetUp() override {
    SchedulerConfig config = small_config();
    config.enable_prefix_caching = true;
    config.kv_tier = true;
    config.num_blocks = 6;
    config.max_num_batched_tokens = 32;
    make(config);
  }

  // Sixteen tokens from `first` on, and `num_own` of the request's own.
  static AddRequest request(RequestId id, TokenId first, std::int32_t num_own = 1,
                            std::uint64_t scope = 0) {
    SamplingParams params;
    params.max_tokens = 1;
    std::vector<TokenId> prompt(16);
    std::iota(prompt.begin(), prompt.end(), first);
    for (std::int32_t i = 0; i < num_own; ++i) {
      prompt.push_back(static_cast<TokenId>(1000 * id) + i);
    }
    AddRequest request{id, std::move(prompt), std::make_shared<const SamplingParams>(params), 0};
    request.cache_scope.low = scope;
    return request;
  }
  // Alone, to its end. Its stores.
  std::vector<BlockStore> run(const AddRequest& request) {
    add(request);
    const SchedulerOutput plan = schedule();
    EXPECT_THAT(update(plan), SizeIs(1));
    return plan.block_stores;
  }
  void report(const TierReport& report) {
    scheduler_->take_in(report, now_);
    check();
  }
  void report_fetched(FetchId id, std::int32_t num_blocks) {
    report({.added = {}, .removed = {}, .fetched = {{id, num_blocks}}});
  }
  std::optional<WaitCause> wait_of(RequestId id) const {
    return scheduler_->find(id)->timeline().current();
  }
};

TEST_F(SchedulerTier, WhatLeavesTheCacheGoesThereAndComesBack) {
  EXPECT_THAT(run(request(1, 100)), IsEmpty());
  const auto stores = run(request(2, 200));
  ASSERT_THAT(stores, SizeIs(3)) << "of the first prompt, whose first block leaves last";
  EXPECT_EQ(scheduler_->stats().blocks_offloaded, 3);
  run(request(3, 300));
  now_ += std::chrono::milliseconds(5);

  add(request(4, 100, 2));
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(plan.scheduled, IsEmpty());
  ASSERT_THAT(plan.block_fetches, SizeIs(4));
  EXPECT_FALSE(plan.empty());
  EXPECT_EQ(wait_of(4), WaitCause::kKvFetch);
  EXPECT_THAT(scheduler_->fetching(), ElementsAre(scheduler_->find(4)));
  update(plan);
  EXPECT_EQ(scheduler_->next_deadline(), std::nullopt) << "nothing to do before it has come";
  EXPECT_TRUE(schedule().empty());

  now_ += std::chrono::milliseconds(5);
  report_fetched(plan.block_fetches[0].fetch_id, 4);
  EXPECT_THAT(shares(schedule()), ElementsAre("4:16+2!"));
  const Request* request = scheduler_->find(4);
  EXPECT_EQ(request->num_cached_tokens(), 16);
  EXPECT_EQ(request->timeline().total(WaitCause::kKvFetch, now_), std::chrono::milliseconds(6));
  EXPECT_EQ(scheduler_->stats().external_prefix_cache_hits, 16);
  EXPECT_EQ(scheduler_->stats().blocks_fetched, 4);
}

TEST_F(SchedulerTier, WhatIsComputedSoonerIsNotFetched) {
  run(request(1, 100));
  run(request(2, 200));
  run(request(3, 300));
  StepPace pace = {.cost = {.step = 1000, .prompt_token = 10}, .block_fetch = Duration(45)};
  scheduler_->set_pace(pace);
  add(request(4, 100, 2));
  const SchedulerOutput plan = schedule();  // four blocks of four tokens, and two more tokens
  EXPECT_THAT(shares(plan), ElementsAre("4:0+18!"));
  update(plan);
  pace.block_fetch = Duration(35);
  scheduler_->set_pace(pace);
  add(request(5, 200, 2));
  EXPECT_THAT(schedule().block_fetches, SizeIs(4));
}

TEST_F(SchedulerTier, OthersStartMeanwhileAndWaitForTheSameFetch) {
  run(request(1, 100));
  run(request(2, 200));
  run(request(3, 300));
  add(request(4, 100, 2));
  add(request_of(5, 3));
  add(request(6, 100, 3));
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("5:0+3!"));
  EXPECT_THAT(plan.block_fetches, SizeIs(4)) << "one fetch for two requests";
  EXPECT_THAT(scheduler_->fetching(), SizeIs(2));
  EXPECT_EQ(scheduler_->stats().num_waiting, 2);
  update(plan);
  report_fetched(plan.block_fetches[0].fetch_id, 4);
  EXPECT_THAT(scheduler_->fetching(), IsEmpty());
  EXPECT_THAT(shares(schedule()), ElementsAre("5:3+1!", "4:16+2!"));
}

TEST_F(SchedulerTier, WhatDoesNotComeIsComputedAndNotFetchedAgain) {
  run(request(1, 100));
  run(request(2, 200));
  run(request(3, 300));
  add(request(4, 100, 2));
  const SchedulerOutput plan = schedule();
  update(plan);
  report({.added = {},
          .removed = {plan.block_fetches[1].name[0]},
          .fetched = {{plan.block_fetches[0].fetch_id, 1}}});
  EXPECT_THAT(shares(schedule()), ElementsAre("4:4+14!"));
  EXPECT_EQ(scheduler_->stats().blocks_fetch_failed, 3);
}

TEST_F(SchedulerTier, AFetchGoesOnWithoutItsRequest) {
  run(request(1, 100));
  run(request(2, 200));
  run(request(3, 300));
  add(request(4, 100, 2));
  const SchedulerOutput plan = schedule();
  update(plan);
  EXPECT_NE(abort(4), nullptr);
  EXPECT_EQ(scheduler_->stats().blocks_used, 4) << "somebody writes there";
  report_fetched(plan.block_fetches[0].fetch_id, 4);
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);
  add(request(5, 100, 2));
  EXPECT_THAT(shares(schedule()), ElementsAre("5:16+2!")) << "and is found";
}

TEST_F(SchedulerTier, AScopeFindsNothingOfOthers) {
  run(request(1, 100, 1, /*scope=*/7));
  run(request(2, 200));
  run(request(3, 300));
  add(request(4, 100, 2));
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(plan.block_fetches, IsEmpty());
  EXPECT_THAT(shares(plan), ElementsAre("4:0+18!"));
  update(plan);
  add(request(5, 100, 2, /*scope=*/7));
  EXPECT_THAT(schedule().block_fetches, SizeIs(4));
}

TEST_F(SchedulerTier, NothingIsStoredOrFoundOnceItIsClosed) {
  run(request(1, 100));
  run(request(2, 200));
  run(request(3, 300));
  add(request(4, 100, 2));
  const SchedulerOutput plan = schedule();
  update(plan);
  report({.added = {}, .removed = {}, .fetched = {}, .closed = true});
  report_fetched(plan.block_fetches[0].fetch_id, 4);
  const SchedulerOutput next = schedule();
  EXPECT_THAT(shares(next), ElementsAre("4:0+18!"));
  EXPECT_THAT(next.block_stores, IsEmpty());
  EXPECT_EQ(scheduler_->stats().blocks_tiered, 0);
}

TEST_F(SchedulerTier, WhatAnotherRunHasLeftIsFound) {
  run(request(1, 100));
  const auto stores = run(request(2, 200));
  TierReport left;
  left.added.push_back(root_block_name(0, 0)[0]);  // of no block
  BlockName name = root_block_name(0, 0);
  const auto prompt = request(9, 700).prompt_token_ids;
  for (std::size_t i = 0; i < 4; ++i) {
    name = next_block_name(name, std::span(prompt).subspan(4 * i, 4));
    left.added.push_back(name[0]);
  }
  report(left);
  add(request(3, 700));
  const SchedulerOutput plan = schedule();
  ASSERT_THAT(plan.block_fetches, SizeIs(4));
  EXPECT_EQ(plan.block_fetches[3].name, name);
}

TEST(KvTier, NeedsACacheOfAllTokens) {
  SchedulerConfig config = small_config();
  config.kv_tier = true;
  EXPECT_FALSE(config.validate().ok()) << "no prefix caching";
  config.enable_prefix_caching = true;
  EXPECT_TRUE(config.validate().ok());
  config.kv_groups[0].window = 8;
  EXPECT_FALSE(config.validate().ok());
}

}  // namespace
}  // namespace quire
