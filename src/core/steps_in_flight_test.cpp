// Several steps in flight, drafts, and tokens that are taken back.
#include "core/scheduler_fixture.h"
#include "core/scheduler_snapshot.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StepsInFlight2 : public SchedulerTest {
 protected:
  SchedulerConfig config() {
    SchedulerConfig config = small_config();
    config.max_steps_in_flight = 2;
    return config;
  }
};

TEST_F(StepsInFlight2, APlaceholderStandsForTheTokenOfTheStepBefore) {
  make(config());
  add(request_of(1, 3, 4));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+3!"));
  EXPECT_EQ(scheduler_->next_deadline(), Instant::zero());
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("1:3+1!"));
  EXPECT_EQ(scheduler_->next_deadline(), std::nullopt);
  SchedulerOutput third;
  EXPECT_EQ(scheduler_->schedule(now_, third).code(), StatusCode::kInternal);
  EXPECT_FALSE(scheduler_->snapshot().ok());
  update(first, 5);
  update(second, 6);
  EXPECT_THAT(scheduler_->find(1)->output_token_ids(), ElementsAre(5, 6));
}

// What may follow a token is known once the token is.
TEST_F(StepsInFlight2, AConstrainedTextIsNotPlannedAhead) {
  make(config());
  AddRequest request = request_of(1, 3, 4);
  SamplingParams params = *request.sampling_params;
  params.structured_outputs = std::make_shared<const StructuredOutputsParams>();
  request.sampling_params = std::make_shared<const SamplingParams>(std::move(params));
  add(request);
  add(request_of(2, 3, 4));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+3!", "2:0+3!"));
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("2:3+1!"));
  update(first, 5);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:3+1!", "2:4+1!"));
}

// Its length is known beforehand: no row is computed in vain.
TEST_F(StepsInFlight2, NothingIsPlannedBeyondTheLastToken) {
  make(config());
  add(request_of(1, 3, 2));
  const SchedulerOutput first = schedule();
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("1:3+1!"));
  update(first);
  EXPECT_THAT(shares(schedule()), IsEmpty());
  const auto outputs = update(second);
  ASSERT_NE(outputs.at(0).finished, nullptr);
  EXPECT_EQ(outputs[0].finished->finish_reason(), FinishReason::kLength);
  EXPECT_EQ(scheduler_->stats().tokens_discarded, 0);
}

TEST_F(StepsInFlight2, WhatIsComputedAfterTheEndIsThrownAway) {
  make(config());
  add(request_of(1, 3, 4));
  const SchedulerOutput first = schedule();
  const SchedulerOutput second = schedule();
  const auto outputs = update(first, kEos);
  ASSERT_NE(outputs.at(0).finished, nullptr);
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);
  EXPECT_EQ(scheduler_->stats().tokens_discarded, 1);
  add(request_of(2, 2));  // into the blocks that the second step still writes to
  const SchedulerOutput third = schedule();
  EXPECT_THAT(third.removed_request_ids, ElementsAre(1));
  EXPECT_THAT(shares(third), ElementsAre("2:0+2!"));
  EXPECT_THAT(update(second, 9), IsEmpty());
  EXPECT_EQ(update(third).size(), 1U);
}

TEST_F(StepsInFlight2, APreemptedRequestLosesWhatIsInFlight) {
  SchedulerConfig small = config();
  small.num_blocks = 4;
  make(small);
  add(request_of(1, 7, 8));
  add(request_of(2, 1, 8));
  update(schedule(), 5);  // two blocks and one
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("1:7+1!", "2:1+1!"));
  const SchedulerOutput third = schedule();  // the last block
  EXPECT_THAT(shares(third), ElementsAre("1:8+1!", "2:2+1!"));
  update(second, 6);
  const SchedulerOutput fourth = schedule();
  update(third, 7);
  const SchedulerOutput fifth = schedule();  // request 2 needs a second block
  EXPECT_THAT(shares(fifth), ElementsAre("1:10+1!"));
  EXPECT_THAT(fifth.removed_request_ids, ElementsAre(2));
  EXPECT_EQ(scheduler_->find(2)->state(), RequestState::kPreempted);
  EXPECT_EQ(scheduler_->find(2)->num_placeholders(), 0);
  EXPECT_EQ(scheduler_->stats().tokens_discarded, 1);
  update(fourth, 8);
  EXPECT_THAT(scheduler_->find(2)->output_token_ids(), ElementsAre(5, 6, 7));
}

class Drafts : public SchedulerTest {
 protected:
  // A request with a prompt of three tokens that knows one output token.
  void start(std::int64_t max_tokens) {
    make(small_config());
    add(request_of(1, 3, max_tokens));
    step(5);
  }
  void propose(std::vector<TokenId> drafts) { scheduler_->propose(1, drafts); }
  std::vector<RequestStepOutput> update_with(const SchedulerOutput& plan,
                                             const std::vector<TokenId>& tokens) {
    ModelRunnerOutput result;
    result.step_id = plan.step_id;
    for (const TokenId token : tokens)
      result.sampled.push_back({.request_id = 1, .token_id = token});
    std::vector<RequestStepOutput> outputs;
    const Status status = scheduler_->update(result, now_, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    check();
    return outputs;
  }
};

TEST_F(Drafts, AreCheckedByOneStepAndTheRightOnesKept) {
  start(20);
  propose({6, 7, 8, 9});
  const SchedulerOutput plan = schedule();
  ASSERT_THAT(shares(plan), ElementsAre("1:3+5!"));
  EXPECT_EQ(plan.scheduled[0].num_drafts, 4);
  EXPECT_THAT(plan.drafts_of(plan.scheduled[0]).tokens(), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(scheduler_->find_blocks(1)->size(), 2);
  const auto outputs = update_with(plan, {6, 4});  // the second was wrong
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].num_sampled, 2);
  EXPECT_THAT(scheduler_->find(1)->output_token_ids(), ElementsAre(5, 6, 4));
  EXPECT_EQ(scheduler_->find(1)->num_computed_tokens(), 5);
  EXPECT_EQ(scheduler_->stats().tokens_discarded, 3);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:5+1!"));
}

TEST_F(Drafts, AreAcceptedOrRejected) {
  start(20);
  propose({6, 7, 8, 9});
  update_with(schedule(), {6, 7, 4});
  SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.num_drafted_rows, 1);
  EXPECT_EQ(stats.draft_tokens, 4);
  EXPECT_EQ(stats.draft_tokens_accepted, 2);
  EXPECT_EQ(stats.draft_tokens_rejected, 2);
  EXPECT_EQ(stats.draft_tokens_accepted_at[0], 1);
  EXPECT_EQ(stats.draft_tokens_accepted_at[1], 1);
  EXPECT_EQ(stats.draft_tokens_accepted_at[2], 0);
  // Nobody knows what became of those that were in flight when their request went.
  propose({6, 7});
  const SchedulerOutput plan = schedule();
  EXPECT_EQ(scheduler_->stats().draft_tokens_rejected, 2);
  const auto aborted = abort(1);
  ASSERT_NE(aborted, nullptr);
  EXPECT_EQ(aborted->num_accepted_drafts(), 2);
  EXPECT_EQ(aborted->num_rejected_drafts(), 4);
  update_with(plan, {6, 7, 8});
  stats = scheduler_->stats();
  EXPECT_EQ(stats.draft_tokens, 6);
  EXPECT_EQ(stats.draft_tokens_rejected, 4);
}

TEST_F(Drafts, AProposalReplacesTheOneBefore) {
  start(20);
  propose({6, 7});
  propose({});
  EXPECT_THAT(shares(schedule()), ElementsAre("1:3+1!"));
}

TEST_F(Drafts, AreNoMoreThanTheLimit) {
  SchedulerConfig config = small_config();
  config.max_num_batched_tokens = 100;
  config.max_model_len = 100;
  config.num_blocks = 100;
  make(config);
  add(request_of(1, 3, 90));
  step(5);
  propose(std::vector<TokenId>(kMaxDrafts + 5, 6));
  EXPECT_EQ(schedule().scheduled[0].num_drafts, kMaxDrafts);
}

// Their rows are set aside before prompts, like all rows.
TEST_F(Drafts, LeavePromptsWhatTimeTheyLeave) {
  start(20);
  StepPace pace;
  pace.max_step = Duration(8);
  pace.max_prompt_tokens = 100;
  pace.cost = {.step = 1, .row = 1, .prompt_token = 1};
  scheduler_->set_pace(pace);
  add(request_of(2, 20, 4));
  propose({6, 7, 8});
  EXPECT_THAT(shares(schedule()), ElementsAre("1:3+4!", "2:0+3"));
  EXPECT_EQ(work_of({}).num_rows, 0);
}

TEST_F(Drafts, BlocksOfWrongOnesAreReturnedAtOnce) {
  start(20);
  propose({6, 7, 8, 9});
  const SchedulerOutput plan = schedule();
  EXPECT_EQ(scheduler_->stats().blocks_used, 2);
  update_with(plan, {4});
  EXPECT_EQ(scheduler_->stats().blocks_used, 1);
  const SchedulerOutput next = schedule();
  EXPECT_THAT(next.truncated_tables, ElementsAre(BlockTruncation{1, 1}));
  EXPECT_THAT(shares(next), ElementsAre("1:4+1!"));
}

TEST_F(Drafts, NoTokenComesAfterTheOneThatEnds) {
  start(20);
  propose({6, kEos, 8});
  const auto outputs = update_with(schedule(), {6, kEos, 8, 9});
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].num_sampled, 2);
  ASSERT_NE(outputs[0].finished, nullptr);
  EXPECT_THAT(outputs[0].finished->output_token_ids(), ElementsAre(5, 6, kEos));
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);
}

TEST_F(Drafts, GoNoFurtherThanTheOutputMay) {
  start(4);  // one is known, and the last one is never computed
  propose({6, 7, 8, 9});
  EXPECT_THAT(shares(schedule()), ElementsAre("1:3+3!"));
}

TEST_F(Drafts, MoreTokensThanWereAskedForAreNoResult) {
  start(20);
  propose({6});
  const SchedulerOutput plan = schedule();
  ModelRunnerOutput result;
  result.step_id = plan.step_id;
  for (const TokenId token : {6, 7, 8}) {
    result.sampled.push_back({.request_id = 1, .token_id = token});
  }
  std::vector<RequestStepOutput> outputs;
  EXPECT_EQ(scheduler_->update(result, now_, outputs).code(), StatusCode::kInternal);
}

TEST_F(Drafts, NobodyKnowsTheNextStepWhileTheyAreInFlight) {
  SchedulerConfig config = small_config();
  config.max_steps_in_flight = 2;
  make(config);
  add(request_of(1, 3, 20));
  step(5);
  propose({6, 7});
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("1:3+3!"));
  EXPECT_THAT(shares(schedule()), IsEmpty());
  update_with(plan, {6, 7, 8});
  EXPECT_THAT(shares(schedule()), ElementsAre("1:6+1!"));
}

}  // namespace
}  // namespace quire
