// Requests whose hidden state is wanted, and no output: they end when their prompt is computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

AddRequest pooling_of(RequestId id, std::int32_t num_prompt_tokens,
                      Pooling pooling = Pooling::kLast) {
  AddRequest request = request_of(id, num_prompt_tokens);
  request.pooling = pooling;
  return request;
}

class SchedulerPooling : public SchedulerTest {};

TEST_F(SchedulerPooling, EndsWhenItsPromptIsComputed) {
  make(small_config());
  add(pooling_of(1, 10));
  add(request_of(2, 3, 1));
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+8"));
  EXPECT_TRUE(update(first).empty());
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("1:8+2*", "2:0+3!"));
  const auto outputs = update(plan);
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].request_id, 1U);
  EXPECT_EQ(outputs[0].pooled_index, 0);
  EXPECT_EQ(outputs[0].num_sampled, 0);
  ASSERT_NE(outputs[0].finished, nullptr);
  EXPECT_EQ(outputs[0].finished->finish_reason(), FinishReason::kStop);
  EXPECT_EQ(outputs[0].finished->num_output_tokens(), 0);
  EXPECT_EQ(outputs[0].finished->first_token(), std::nullopt);
  EXPECT_EQ(outputs[0].finished->finish_time(), 2ms);
  EXPECT_EQ(outputs[1].pooled_index, -1);
  EXPECT_EQ(outputs[1].first_sampled, 0);
  EXPECT_EQ(outputs[1].num_sampled, 1);
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.num_finished, 2);
  EXPECT_EQ(stats.output_tokens_sampled, 1);
  EXPECT_EQ(stats.prompt_tokens_computed, 13);
  EXPECT_EQ(stats.blocks_used, 0);
  EXPECT_THAT(schedule().removed_request_ids, ElementsAre(1, 2));
}

TEST_F(SchedulerPooling, APromptMayFillMaxModelLen) {
  make(small_config());
  add(pooling_of(1, 32));
  const Status status = scheduler_->add(pooling_of(2, 33), now_);
  EXPECT_EQ(status.message(), "request 2: the prompt has 33 tokens, max_model_len is 32");
  EXPECT_EQ(scheduler_->stats().num_rejected[static_cast<std::size_t>(RejectCause::kPromptTooLong)],
            1);
  std::vector<RequestStepOutput> outputs;
  while (outputs.empty()) outputs = step();
  EXPECT_NE(outputs[0].finished, nullptr);
  EXPECT_EQ(scheduler_->stats().prompt_tokens_computed, 32);
}

TEST_F(SchedulerPooling, APoolThatHoldsItsPromptSuffices) {
  SchedulerConfig config = small_config();
  config.num_blocks = 2;
  make(config);
  add(pooling_of(1, 8));
  EXPECT_NE(step().at(0).finished, nullptr);
  EXPECT_EQ(scheduler_->add(pooling_of(2, 9), now_).code(), StatusCode::kResourceExhausted);
}

TEST_F(SchedulerPooling, TakesNothingFromThePrefixCacheAndLeavesItsBlocksThere) {
  SchedulerConfig config = small_config();
  config.enable_prefix_caching = true;
  config.max_num_batched_tokens = 32;
  make(config);
  add(request_of(1, 12, 1));
  step();
  add(pooling_of(2, 12));
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("2:0+12*"));
  EXPECT_EQ(update(plan).at(0).finished->num_cached_tokens(), 0);
  add(request_of(3, 12, 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("3:11+1!"));
}

TEST_F(SchedulerPooling, IsPreemptedAndComputedAgain) {
  SchedulerConfig config = small_config();
  config.num_blocks = 6;
  config.max_num_batched_tokens = 5;
  config.enable_prefix_caching = true;
  make(config);
  add(request_of(1, 4, 20));
  add(pooling_of(2, 20));
  std::int32_t num_preemptions = 0;
  std::int64_t num_pooled = 0;
  while (scheduler_->has_work()) {
    for (const RequestStepOutput& output : step()) {
      if (output.request_id != 2) continue;
      ++num_pooled;
      ASSERT_NE(output.finished, nullptr);
      num_preemptions = output.finished->num_preemptions();
    }
  }
  EXPECT_EQ(num_pooled, 1);
  EXPECT_GT(num_preemptions, 0);
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.prompt_tokens_computed, 24);
  EXPECT_GT(stats.tokens_recomputed, 0);
  EXPECT_EQ(stats.num_finished, 2);
}

// The states of tokens that were computed before are not kept, so those that take part are computed
// again; those of the last token's pooling are found in the cache.
TEST_F(SchedulerPooling, StartsAgainWhereItsPoolingBegins) {
  for (const Pooling pooling : {Pooling::kLast, Pooling::kCls, Pooling::kMean}) {
    SchedulerConfig config = small_config();
    config.num_blocks = 8;
    config.max_num_batched_tokens = 2;  // so slow that the other outgrows it
    config.enable_prefix_caching = true;
    make(config);
    add(request_of(1, 4, 20));
    add(pooling_of(2, 20, pooling));
    std::vector<std::int32_t> starts;
    while (scheduler_->has_work()) {
      const SchedulerOutput plan = schedule();
      for (const NewRequestData& each : plan.new_requests) {
        if (each.request_id != 2) continue;
        EXPECT_EQ(each.pooling, pooling);
        starts.push_back(each.num_blocks);
      }
      update(plan);
    }
    ASSERT_GE(starts.size(), 2U) << "it was never preempted";
    EXPECT_EQ(starts[0], 0);
    if (pooling == Pooling::kLast) {
      EXPECT_GT(starts[1], 0);
    } else {
      EXPECT_THAT(starts, testing::Each(0)) << pooling_name(pooling);
    }
  }
}

TEST_F(SchedulerPooling, CanBeAbortedInEveryState) {
  make(small_config());
  add(pooling_of(1, 4));
  EXPECT_EQ(abort(1)->finish_reason(), FinishReason::kAbort);  // waiting
  add(pooling_of(2, 12));
  step();
  EXPECT_NE(abort(2), nullptr);  // in the middle of its prompt
  add(pooling_of(3, 4));
  const SchedulerOutput plan = schedule();
  EXPECT_NE(abort(3), nullptr);  // in flight: what comes is nobody's
  EXPECT_TRUE(update(plan).empty());
  EXPECT_EQ(scheduler_->stats().num_aborted, 3);
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);
}

// Its row does not go on, for there is no token to go on with.
TEST_F(SchedulerPooling, LeavesAStaticBatchAtOnce) {
  for (const Batching batching : {Batching::kStatic, Batching::kDynamic}) {
    SchedulerConfig config = small_config();
    config.batching = batching;
    make(config);
    add(pooling_of(1, 2));
    add(request_of(2, 2, 3));
    step();
    add(pooling_of(3, 2));
    const SchedulerOutput plan = schedule();
    EXPECT_THAT(plan.removed_request_ids, ElementsAre(1));
    EXPECT_THAT(shares(plan), ElementsAre("2:2+1!"));
    update(plan);
    while (scheduler_->has_work()) step();
    EXPECT_EQ(scheduler_->stats().num_finished, 3);
    EXPECT_EQ(scheduler_->stats().tokens_discarded, 0);
  }
}

TEST_F(SchedulerPooling, AResultWithoutItsHiddenStateChangesNothing) {
  make(small_config());
  add(pooling_of(1, 3));
  const SchedulerOutput plan = schedule();
  std::vector<RequestStepOutput> outputs;
  const auto refused = [&](std::vector<PooledState> pooled) {
    ModelRunnerOutput result;
    result.step_id = plan.step_id;
    result.pooled = std::move(pooled);
    result.hidden_states = {1.0F, 2.0F};
    EXPECT_EQ(scheduler_->update(result, now_, outputs).code(), StatusCode::kInternal);
    check();
  };
  refused({});
  refused({{.request_id = 2, .first = 0, .size = 2}});
  refused({{.request_id = 1, .first = 1, .size = 2}});
  refused({{.request_id = 1, .first = 0, .size = 2}, {.request_id = 1, .first = 0, .size = 2}});
  EXPECT_EQ(update(plan).size(), 1U);
}

}  // namespace
}  // namespace quire
