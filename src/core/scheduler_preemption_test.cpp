// Who gives up its blocks, and whether they are computed again or go to the lower tier.
#include <numeric>

#include "core/scheduler_fixture.h"

namespace quire {
namespace scheduler_preemption_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::chrono_literals;

class SchedulerPreemption : public SchedulerTest {
 protected:
  static constexpr std::int64_t kToken = 10;  // ns

  void make_with_blocks(std::int32_t num_blocks, bool tier = false) {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 64;
    config.num_blocks = num_blocks;
    config.policy = SchedulingPolicy::kPriority;
    config.enable_prefix_caching = tier;
    config.kv_tier = tier;
    make(config);
  }
  void set_costs(Duration block_fetch = {}) {
    scheduler_->set_pace({.cost = {.step = 1000, .row = kToken, .prompt_token = kToken},
                          .block_fetch = block_fetch});
  }
  // Whose prompt nobody else has.
  void add_own(RequestId id, std::int32_t num_prompt_tokens, std::int32_t priority = 0) {
    AddRequest request = request_of(id, num_prompt_tokens, num_prompt_tokens > 20 ? 1 : 12);
    std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(),
              static_cast<TokenId>(100 * id));
    request.priority = priority;
    add(request);
  }
  const Preemption& preemption_of(RequestId id) const {
    const auto& open = scheduler_->find(id)->timeline().open();
    EXPECT_EQ(open->cause, WaitCause::kPreempted);
    return open->preemption;
  }
  // The first request has filled its block and needs another one: the second has 6 tokens in two
  // blocks, the third 8.
  void add_three(std::int32_t last_priority = 0) {
    make_with_blocks(5);
    add_own(1, 3);
    add_own(2, 5);
    add_own(3, 7, last_priority);
    step();
    step();
  }
};

TEST_F(SchedulerPreemption, TheOneGoesThatCostsLeastForEachPage) {
  add_three();
  set_costs();
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(plan.removed_request_ids, ElementsAre(2));
  EXPECT_THAT(shares(plan), ElementsAre("1:4+1!", "3:8+1!"));
  EXPECT_EQ(preemption_of(2), (Preemption{.method = PreemptionMethod::kRecompute,
                                          .cost = Duration(6 * kToken),
                                          .num_pages = 2,
                                          .num_tokens = 6}));
  EXPECT_EQ(scheduler_->stats().num_preemptions_by_swap, 0);
}

TEST_F(SchedulerPreemption, TheLastGoesWhereNothingIsMeasured) {
  add_three();
  EXPECT_THAT(schedule().removed_request_ids, ElementsAre(3));
  EXPECT_EQ(preemption_of(3).cost, Duration::zero());
  EXPECT_EQ(preemption_of(3).num_tokens, 8);
}

TEST_F(SchedulerPreemption, NobodyGoesBeforeOneThatThePolicyRanksAfterIt) {
  add_three(/*last_priority=*/1);
  set_costs();
  EXPECT_THAT(schedule().removed_request_ids, ElementsAre(3));
}

// The third is preempted, and comes back when the fifth has gone; a token in each step. Two blocks
// are needed before it has got back what it had: the fourth has more to lose, and loses it.
TEST_F(SchedulerPreemption, WhoComputesAgainWhatItLostIsSpared) {
  make_with_blocks(9);
  add_own(1, 3);
  add_own(2, 3);
  add_own(3, 5);
  add_own(4, 6);
  add_own(5, 10);
  set_costs();
  step();
  step();
  EXPECT_THAT(step_plan().removed_request_ids, ElementsAre(3));
  abort(5);
  StepPace pace = scheduler_->pace();
  pace.max_step = 1s;
  scheduler_->set_pace(pace);
  EXPECT_THAT(shares(step_plan()), ElementsAre("1:5+1!", "2:5+1!", "4:8+1!", "3:0+1"));
  step();
  step();
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(plan.removed_request_ids, ElementsAre(4));
  EXPECT_THAT(shares(plan), ElementsAre("1:8+1!", "2:8+1!", "3:3+1"));
  EXPECT_EQ(preemption_of(4).num_pages, 3);
}

class SchedulerSwap : public SchedulerPreemption {
 protected:
  // The second is preempted for the first, which then takes a full block of it.
  SchedulerOutput preempt_second(Duration block_fetch) {
    make_with_blocks(6, /*tier=*/true);
    add_own(1, 7);
    add_own(2, 13);
    set_costs(block_fetch);
    step();
    step();
    EXPECT_THAT(step_plan().removed_request_ids, ElementsAre(2));
    for (int i = 0; i < 3; ++i) EXPECT_THAT(step_plan().block_stores, IsEmpty());
    SchedulerOutput plan = schedule();
    EXPECT_THAT(shares(plan), ElementsAre("1:12+1!"));
    return plan;
  }
};

TEST_F(SchedulerSwap, BlocksThatAreFetchedSoonerGoToTheTierAndComeBack) {
  const SchedulerOutput plan = preempt_second(Duration(2 * kToken));
  EXPECT_THAT(plan.block_stores, SizeIs(1));
  EXPECT_EQ(preemption_of(2), (Preemption{.method = PreemptionMethod::kSwap,
                                          .cost = Duration((3 * 2 + 2) * kToken),
                                          .num_pages = 4,
                                          .num_tokens = 2,
                                          .num_blocks = 3}));
  EXPECT_EQ(scheduler_->stats().num_preemptions_by_swap, 1);
  update(plan);
  abort(1);
  EXPECT_THAT(schedule().block_fetches, SizeIs(1)) << "the others are in the cache still";
}

TEST_F(SchedulerSwap, BlocksThatAreComputedSoonerAreNotStored) {
  const SchedulerOutput plan = preempt_second(Duration(5 * kToken));
  EXPECT_THAT(plan.block_stores, IsEmpty());
  EXPECT_EQ(preemption_of(2), (Preemption{.method = PreemptionMethod::kRecompute,
                                          .cost = Duration(14 * kToken),
                                          .num_pages = 4,
                                          .num_tokens = 14}));
  EXPECT_EQ(scheduler_->stats().num_preemptions_by_swap, 0);
  update(plan);
  abort(1);
  EXPECT_THAT(shares(step_plan()), ElementsAre("2:8+7!")) << "what the cache has is used";
  abort(2);
  add_own(3, 21);
  EXPECT_THAT(schedule().block_stores, SizeIs(5)) << "since then its blocks are as any other's";
}

TEST_F(SchedulerSwap, WithoutAMeasuredFetchBlocksGoToTheTier) {
  EXPECT_THAT(preempt_second({}).block_stores, SizeIs(1));
  EXPECT_EQ(preemption_of(2).method, PreemptionMethod::kSwap);
  EXPECT_EQ(preemption_of(2).cost, Duration(14 * kToken)) << "as if they were computed";
}

}  // namespace scheduler_preemption_test
}  // namespace quire
