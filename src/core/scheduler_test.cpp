#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

ModelRunnerOutput result_of(StepId step_id,
                            const std::vector<std::pair<RequestId, TokenId>>& sampled) {
  ModelRunnerOutput result;
  result.step_id = step_id;
  for (const auto& [request_id, token_id] : sampled) {
    result.sampled.push_back({.request_id = request_id, .token_id = token_id});
  }
  return result;
}

TEST_F(SchedulerTest, PromptsAreCutToTheBudgetAndMixWithDecoding) {
  make(small_config());
  add(request_of(1, 3));
  add(request_of(2, 10));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+3!", "2:0+5"));
  EXPECT_EQ(first.step_id, 1U);
  EXPECT_EQ(first.total_num_scheduled_tokens, 8);
  ASSERT_EQ(first.new_requests.size(), 2U);
  EXPECT_EQ(first.new_requests[1].num_prompt_tokens, 10);
  EXPECT_THAT(first.new_blocks_of(first.scheduled[1]), ElementsAre(1, 2));
  update(first);
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("1:3+1!", "2:5+5!"));
  EXPECT_THAT(second.new_requests, IsEmpty());
  EXPECT_THAT(second.new_blocks_of(second.scheduled[0]), IsEmpty());
  EXPECT_THAT(second.new_blocks_of(second.scheduled[1]), ElementsAre(3));
  update(second);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:4+1!", "2:10+1!"));
}

TEST_F(SchedulerTest, WithoutChunksAPromptWaitsForABudgetThatHoldsIt) {
  SchedulerConfig config = small_config();
  config.enable_chunked_prefill = false;
  EXPECT_EQ(config.validate().code(), StatusCode::kConfig);
  config.max_num_batched_tokens = 32;
  make(config);
  add(request_of(1, 20));
  add(request_of(2, 20));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+20!"));
  EXPECT_EQ(scheduler_->find(2)->timeline().current(), WaitCause::kTokenBudget);
  update(first);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:20+1!", "2:0+20!"));
}

TEST_F(SchedulerTest, TheEndOfARequestHandsItOut) {
  make(small_config());
  add(request_of(1, 3, 2));
  std::vector<RequestStepOutput> outputs = step();
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].first_sampled, 0);
  EXPECT_EQ(outputs[0].num_sampled, 1);
  EXPECT_EQ(outputs[0].finished, nullptr);
  outputs = step(6);
  ASSERT_NE(outputs[0].finished, nullptr);
  EXPECT_EQ(outputs[0].finished->finish_reason(), FinishReason::kLength);
  EXPECT_THAT(outputs[0].finished->output_token_ids(), ElementsAre(5, 6));
  EXPECT_EQ(outputs[0].finished->first_token(), 1ms);
  EXPECT_EQ(outputs[0].finished->finish_time(), 2ms);
  EXPECT_EQ(scheduler_->find(1), nullptr);
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);

  EXPECT_TRUE(scheduler_->has_work());  // the executor is still to be told
  const SchedulerOutput last = schedule();
  EXPECT_THAT(last.removed_request_ids, ElementsAre(1));
  EXPECT_THAT(last.scheduled, IsEmpty());
  update(last);
  EXPECT_FALSE(scheduler_->has_work());
  EXPECT_TRUE(schedule().empty());
}

TEST_F(SchedulerTest, AnEndOfSequenceIdEndsARequest) {
  make(small_config());
  add(request_of(1, 3));
  const auto outputs = step(kEos);
  ASSERT_NE(outputs[0].finished, nullptr);
  EXPECT_EQ(outputs[0].finished->finish_reason(), FinishReason::kStop);
  EXPECT_EQ(outputs[0].finished->stop_token_id(), kEos);
}

TEST_F(SchedulerTest, MaxNumSeqsHoldsTheQueueInOrder) {
  SchedulerConfig config = small_config();
  config.max_num_seqs = 1;
  make(config);
  for (RequestId id = 1; id <= 3; ++id) add(request_of(id, 2));
  schedule();
  EXPECT_EQ(scheduler_->find(2)->timeline().current(), WaitCause::kMaxNumSeqs);
  EXPECT_EQ(scheduler_->find(3)->timeline().current(), WaitCause::kQueueOrder);
  EXPECT_EQ(scheduler_->stats().num_waiting, 2);
}

TEST_F(SchedulerTest, ARunningRequestBeyondTheBudgetWaitsForItsTurn) {
  SchedulerConfig config = small_config();
  config.max_num_batched_tokens = 2;
  make(config);
  for (RequestId id = 1; id <= 3; ++id) add(request_of(id, 1, id == 1 ? 2 : 8));
  step();  // 1 and 2
  EXPECT_THAT(shares(schedule()), ElementsAre("1:1+1!", "2:1+1!"));
  EXPECT_EQ(scheduler_->find(3)->timeline().current(), WaitCause::kTokenBudget);
}

TEST_F(SchedulerTest, TheLatestArrivalIsPreemptedAndResumesWithItsOutput) {
  SchedulerConfig config = small_config();
  config.num_blocks = 3;
  make(config);
  add(request_of(1, 4, 5));
  add(request_of(2, 4, 5));
  step(5);  // one block each, full
  const SchedulerOutput plan = schedule();
  // Request 1 takes the last block; request 2 finds none and gives up its own.
  EXPECT_THAT(shares(plan), ElementsAre("1:4+1!"));
  EXPECT_THAT(plan.removed_request_ids, ElementsAre(2));
  const Request& preempted = *scheduler_->find(2);
  EXPECT_EQ(preempted.state(), RequestState::kPreempted);
  EXPECT_EQ(preempted.timeline().current(), WaitCause::kPreempted);
  EXPECT_THAT(preempted.output_token_ids(), ElementsAre(5));
  add(request_of(3, 1, 1));  // would fit, but does not overtake
  update(plan, 6);
  for (int i = 0; i < 3; ++i) step(6);
  EXPECT_EQ(scheduler_->find(1), nullptr);
  const SchedulerOutput resumed = schedule();
  EXPECT_THAT(shares(resumed), ElementsAre("2:0+5!", "3:0+1!"));
  ASSERT_EQ(resumed.new_requests.size(), 2U);
  EXPECT_THAT(resumed.tokens_of(resumed.new_requests[0]), ElementsAre(9, 9, 9, 9, 5));
  EXPECT_EQ(resumed.new_requests[0].num_prompt_tokens, 4);
  update(resumed);
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.num_preemptions, 1);
  EXPECT_EQ(stats.tokens_recomputed, 4);
  EXPECT_EQ(stats.prompt_tokens_computed, 9);
  EXPECT_EQ(scheduler_->find(2)->num_preemptions(), 1);
}

TEST_F(SchedulerTest, APromptStartsOnlyWhenAllOfItFits) {
  SchedulerConfig config = small_config();
  config.num_blocks = 5;
  make(config);
  add(request_of(1, 7, 6));
  add(request_of(2, 15, 2));
  step();
  EXPECT_EQ(scheduler_->find(2)->timeline().current(), WaitCause::kNoFreeBlocks);
  EXPECT_EQ(scheduler_->find(2)->state(), RequestState::kWaiting);
}

TEST_F(SchedulerTest, AbortWhileWaitingIsNoNewsForTheExecutor) {
  make(small_config());
  add(request_of(1, 3));
  const auto aborted = abort(1);
  ASSERT_NE(aborted, nullptr);
  EXPECT_EQ(aborted->finish_reason(), FinishReason::kAbort);
  EXPECT_EQ(scheduler_->stats().prompt_tokens_dropped, 3);
  EXPECT_FALSE(scheduler_->has_work());
  EXPECT_EQ(abort(1), nullptr);
}

TEST_F(SchedulerTest, AbortOfAPreemptedRequestIsNotToldTwice) {
  SchedulerConfig config = small_config();
  config.num_blocks = 3;
  make(config);
  add(request_of(1, 4, 5));
  add(request_of(2, 4, 5));
  step();
  update(schedule());
  ASSERT_EQ(scheduler_->find(2)->state(), RequestState::kPreempted);
  EXPECT_THAT(abort(2)->output_token_ids(), ElementsAre(5));
  EXPECT_THAT(schedule().removed_request_ids, IsEmpty());
}

TEST_F(SchedulerTest, AbortWhileAStepIsInFlight) {
  make(small_config());
  add(request_of(1, 3));
  add(request_of(2, 3));
  const SchedulerOutput plan = schedule();
  ASSERT_NE(abort(1), nullptr);
  add(request_of(1, 2));  // the same id again is another request
  const auto outputs = update(plan);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].request_id, 2U);
  EXPECT_EQ(scheduler_->find(1)->num_output_tokens(), 0);
  EXPECT_EQ(scheduler_->stats().prompt_tokens_dropped, 3);
  const SchedulerOutput next = schedule();
  EXPECT_THAT(next.removed_request_ids, ElementsAre(1));
  EXPECT_THAT(shares(next), ElementsAre("2:3+1!", "1:0+2!"));
}

TEST_F(SchedulerTest, OneStepAtATime) {
  make(small_config());
  add(request_of(1, 3));
  EXPECT_EQ(scheduler_->next_deadline(), Instant::zero());
  const SchedulerOutput plan = schedule();
  EXPECT_EQ(scheduler_->next_deadline(), std::nullopt);
  SchedulerOutput second;
  EXPECT_EQ(scheduler_->schedule(now_, second).code(), StatusCode::kInternal);
  update(plan);
  std::vector<RequestStepOutput> outputs;
  EXPECT_EQ(scheduler_->update(result_of(plan.step_id, {}), now_, outputs).code(),
            StatusCode::kInternal);
}

TEST_F(SchedulerTest, AResultThatDoesNotBelongToThePlanChangesNothing) {
  make(small_config());
  add(request_of(1, 3));
  add(request_of(2, 3));
  const SchedulerOutput plan = schedule();
  std::vector<RequestStepOutput> outputs;
  for (const ModelRunnerOutput& wrong :
       {result_of(7, {{1, 5}, {2, 5}}), result_of(1, {{1, 5}}), result_of(1, {{2, 5}, {1, 5}}),
        result_of(1, {{1, 5}, {2, -1}}), result_of(1, {{1, 5}, {2, 5}, {3, 5}})}) {
    EXPECT_EQ(scheduler_->update(wrong, now_, outputs).code(), StatusCode::kInternal);
    check();
    EXPECT_EQ(scheduler_->find(1)->num_output_tokens(), 0);
  }
  EXPECT_EQ(update(plan).size(), 2U);
}

}  // namespace
}  // namespace quire
