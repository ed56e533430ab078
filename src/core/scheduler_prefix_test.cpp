// Prompts whose beginning another request computes now, and what is said of those that were not
// found.
#include <chrono>
#include <numeric>

#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

SchedulerConfig waiting_config() {
  SchedulerConfig config = small_config();
  config.max_num_seqs = 40;
  config.max_num_batched_tokens = 16;
  config.max_model_len = 64;
  config.num_blocks = 64;
  config.max_queued = 64;
  config.enable_prefix_caching = true;
  config.min_prefix_in_flight = 8;
  return config;
}

// `num_shared` tokens that all begin with, then `num_own` of its own.
AddRequest beginning(RequestId id, std::int32_t num_shared, std::int32_t num_own,
                     std::int64_t max_tokens = 1) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  std::vector<TokenId> prompt(static_cast<std::size_t>(num_shared));
  std::iota(prompt.begin(), prompt.end(), 100);
  for (std::int32_t i = 0; i < num_own; ++i) {
    prompt.push_back(static_cast<TokenId>(1000 * id) + i);
  }
  return {id, std::move(prompt), std::make_shared<const SamplingParams>(params), 0};
}

class PrefixInFlight : public SchedulerTest {
 protected:
  PrefixMiss miss_of(RequestId id) const {
    const auto& miss = scheduler_->find(id)->timeline().prefix_miss();
    EXPECT_TRUE(miss) << "request " << id << " has not started";
    return miss.value_or(PrefixMiss{});
  }
  std::optional<WaitCause> wait_of(RequestId id) const {
    return scheduler_->find(id)->timeline().current();
  }
};

TEST_F(PrefixInFlight, IsWaitedForAndThenShared) {
  make(waiting_config());
  add(beginning(1, 12, 1, 4));
  add(beginning(2, 12, 2, 4));
  add(beginning(3, 12, 2, 4));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+13!"));
  EXPECT_EQ(wait_of(2), WaitCause::kPrefixInFlight);
  EXPECT_EQ(scheduler_->find(2)->timeline().open()->blockers.ids[0], 1U);
  update(first);
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("1:13+1!", "2:12+2!", "3:12+2!"));
  EXPECT_EQ(miss_of(2).cause, PrefixMissCause::kEnds);
  EXPECT_EQ(scheduler_->stats().prompt_tokens_cached, 24);
  // The prefix is there once, and a block for each one's own tokens.
  EXPECT_EQ(scheduler_->stats().blocks_used, 3 + 3);
}

TEST_F(PrefixInFlight, OverSeveralStepsUntilItIsComputed) {
  make(waiting_config());
  add(beginning(1, 40, 1));
  add(beginning(2, 40, 1));
  for (const char* share : {"1:0+16", "1:16+16", "1:32+9!"}) {
    const SchedulerOutput plan = schedule();
    EXPECT_THAT(shares(plan), ElementsAre(share));
    update(plan);
  }
  EXPECT_THAT(shares(schedule()), ElementsAre("2:40+1!"));
}

TEST_F(PrefixInFlight, IsNotWaitedForWhereThatSavesLess) {
  SchedulerConfig config = waiting_config();
  config.min_prefix_in_flight = 9;
  make(config);
  add(beginning(1, 8, 0));
  add(beginning(2, 8, 3));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+8!", "2:0+8"));
  EXPECT_EQ(miss_of(2).cause, PrefixMissCause::kInFlight);
  EXPECT_EQ(miss_of(2).by, 1U);
}

// Twelve tokens are computed faster than a step begins.
TEST_F(PrefixInFlight, IsNotWaitedForWhereAStepCostsMore) {
  for (const std::int64_t step : {11'000, 13'000}) {
    make(waiting_config());
    scheduler_->set_pace(
        {.max_step = 1s, .max_prompt_tokens = 32, .cost = {.step = step, .prompt_token = 1000}});
    add(beginning(1, 12, 1));
    add(beginning(2, 12, 1));
    EXPECT_EQ(schedule().scheduled.size(), step == 11'000 ? 1U : 2U);
  }
}

TEST_F(PrefixInFlight, OfAnotherScopeOrOfOneThatGoesLaterIsNotWaitedFor) {
  SchedulerConfig config = waiting_config();
  config.max_num_batched_tokens = 64;
  config.policy = SchedulingPolicy::kPriority;
  make(config);
  AddRequest other = beginning(2, 12, 1);
  other.cache_scope.low = 7;
  add(beginning(1, 12, 1));
  add(other);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+13!", "2:0+13!"));
  config.max_num_batched_tokens = 16;
  make(config);
  AddRequest urgent = beginning(2, 40, 1);
  urgent.priority = -1;
  add(beginning(1, 40, 1));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+16"));
  add(urgent);
  update(first);
  // It goes before the other, which has computed 16 tokens, and takes those.
  EXPECT_NE(wait_of(2), WaitCause::kPrefixInFlight);
}

// Who was waited for goes: the next one computes it, and the others wait for that one.
TEST_F(PrefixInFlight, WhoseRequestIsAbortedIsComputedByTheNext) {
  make(waiting_config());
  for (RequestId id = 1; id <= 3; ++id) add(beginning(id, 20, 1));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+16"));
  EXPECT_NE(abort(1), nullptr);  // nothing of the step in flight is found
  EXPECT_THAT(update(first), IsEmpty());
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("2:0+16"));
  update(second);
  // Four more would not be worth it.
  EXPECT_THAT(shares(schedule()), ElementsAre("2:16+5!", "3:16+5!"));
}

TEST_F(PrefixInFlight, ThirtyTwoOfAThousandTokensComputeThemOnce) {
  SchedulerConfig config = waiting_config();
  config.max_num_batched_tokens = 512;
  config.max_model_len = 1100;
  config.block_size = 16;
  config.num_blocks = 1024;
  config.min_prefix_in_flight = 64;
  make(config);
  for (RequestId id = 1; id <= 32; ++id) add(beginning(id, 1000, 16, 8));
  step();
  step();
  step();
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.num_running, 32);
  EXPECT_EQ(stats.prompt_tokens_computed, 1016 + 31 * (1016 - 1000));
  // 62 full blocks of the prefix, its last tokens and what is each one's own.
  EXPECT_LE(stats.blocks_used, 62 + 32 * 2);
}

TEST_F(PrefixInFlight, AMissIsExplained) {
  SchedulerConfig config = waiting_config();
  config.min_prefix_in_flight = 64;
  config.max_num_batched_tokens = 64;
  make(config);
  const auto run = [&](const AddRequest& request) {
    add(request);
    const SchedulerOutput plan = schedule();
    const PrefixMiss miss = miss_of(request.request_id);
    update(plan);
    return miss;
  };
  PrefixMiss miss = run(beginning(1, 10, 0));
  EXPECT_EQ(miss.cause, PrefixMissCause::kNew);
  EXPECT_EQ(miss.token, 100);
  miss = run(beginning(2, 10, 4));
  EXPECT_EQ(miss.cause, PrefixMissCause::kEnds);
  EXPECT_EQ(miss.num_found, 10);
  EXPECT_EQ(miss.token, 2000);
  miss = run(beginning(3, 10, 4));
  EXPECT_EQ(miss.cause, PrefixMissCause::kDiffers);
  EXPECT_EQ(miss.num_found, 10);
  EXPECT_EQ(miss.token, 3000);
  EXPECT_EQ(miss.cached_token, 2000);
  // At the border of two blocks.
  miss = run(beginning(4, 8, 4));
  EXPECT_EQ(miss.cause, PrefixMissCause::kDiffers);
  EXPECT_EQ(miss.num_found, 8);
  EXPECT_EQ(miss.cached_token, 108);
  miss = run(beginning(5, 10, 0));
  EXPECT_EQ(miss.cause, PrefixMissCause::kNone);
  EXPECT_EQ(miss.num_found, 9);
  EXPECT_FALSE(miss.token);
  EXPECT_EQ(run(beginning(6, 1, 0)).cause, PrefixMissCause::kTooShort);
  AddRequest wanted = beginning(7, 10, 0);
  wanted.pooling = Pooling::kMean;
  EXPECT_EQ(run(wanted).cause, PrefixMissCause::kWanted);
  scheduler_->reset_prefix_cache();
  EXPECT_EQ(run(beginning(8, 10, 0)).cause, PrefixMissCause::kReset);
  config.enable_prefix_caching = false;
  make(config);
  EXPECT_EQ(run(beginning(9, 10, 0)).cause, PrefixMissCause::kOff);
}

TEST_F(PrefixInFlight, WhatWasEvictedSaysWhenAndForWhom) {
  SchedulerConfig config = waiting_config();
  config.max_num_batched_tokens = 64;
  config.num_blocks = 6;
  config.max_model_len = 24;
  make(config);
  add(beginning(1, 16, 0));
  step();
  now_ = 9s;
  add(beginning(2, 0, 12));  // two blocks were free
  step();
  now_ = 12s;
  add(beginning(3, 16, 0, 2));
  schedule();
  const PrefixMiss miss = miss_of(3);
  EXPECT_EQ(miss.cause, PrefixMissCause::kEvicted);
  EXPECT_EQ(miss.by, 2U);
  EXPECT_EQ(miss.age, 3s);
  EXPECT_EQ(miss.num_found, 12);
}

}  // namespace
}  // namespace quire
