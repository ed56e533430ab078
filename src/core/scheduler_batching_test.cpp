// Who goes first, and when the members of a batch may change.
#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class SchedulerOrder : public SchedulerTest {};
class SchedulerBatching : public SchedulerTest {};

AddRequest with_priority(AddRequest request, std::int32_t priority) {
  request.priority = priority;
  return request;
}

TEST_F(SchedulerOrder, TheLowestPriorityValueGoesFirstThenTheEarliest) {
  SchedulerConfig config = small_config();
  config.policy = SchedulingPolicy::kPriority;
  config.max_num_seqs = 2;
  make(config);
  add(with_priority(request_of(1, 1), 5));
  add(with_priority(request_of(2, 1), 1));
  add(with_priority(request_of(3, 1), -7));
  add(with_priority(request_of(4, 1), 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("3:0+1!", "2:0+1!"));
}

TEST_F(SchedulerOrder, FirstComeFirstServedKnowsNoPriority) {
  make(small_config());
  add(with_priority(request_of(1, 1), 5));
  add(with_priority(request_of(2, 1), 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+1!", "2:0+1!"));
}

TEST_F(SchedulerOrder, TheHighestPriorityValueIsPreemptedThoughItCameFirst) {
  SchedulerConfig config = small_config();
  config.policy = SchedulingPolicy::kPriority;
  config.num_blocks = 3;
  make(config);
  add(with_priority(request_of(1, 4, 5), 2));
  add(with_priority(request_of(2, 4, 5), 1));
  step();
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("2:4+1!"));
  EXPECT_THAT(plan.removed_request_ids, ElementsAre(1));
}

SchedulerConfig batch_config(Batching batching) {
  SchedulerConfig config = small_config();
  config.batching = batching;
  config.max_num_seqs = 2;
  config.max_batch_delay = 10ms;
  return config;
}

TEST_F(SchedulerBatching, AStaticBatchKeepsItsMembersUntilAllAreDone) {
  make(batch_config(Batching::kStatic));
  add(request_of(1, 2, 1));
  add(request_of(2, 2, 3));
  add(request_of(3, 2, 2));
  auto outputs = step();
  ASSERT_NE(outputs.at(0).finished, nullptr);  // handed out at once
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("2:2+1!", "1:2+1!"));  // but its row goes on
  EXPECT_THAT(plan.removed_request_ids, IsEmpty());
  EXPECT_EQ(scheduler_->find(3)->timeline().current(), WaitCause::kBatch);
  outputs = update(plan);
  ASSERT_EQ(outputs.size(), 1U);  // and what it gives is thrown away
  EXPECT_EQ(outputs[0].request_id, 2U);
  EXPECT_NE(step().at(0).finished, nullptr);
  EXPECT_EQ(scheduler_->stats().tokens_discarded, 2);
  const SchedulerOutput next = schedule();
  EXPECT_THAT(next.removed_request_ids, testing::UnorderedElementsAre(1, 2));
  EXPECT_THAT(shares(next), ElementsAre("3:0+2!"));
}

TEST_F(SchedulerBatching, NobodyJoinsABatchThatRuns) {
  make(batch_config(Batching::kStatic));
  add(request_of(1, 2, 2));
  step();
  add(request_of(2, 2, 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:2+1!"));
}

TEST_F(SchedulerBatching, ARowThatNobodyWantsStopsAtMaxModelLenAndGivesWayToOthers) {
  SchedulerConfig config = batch_config(Batching::kStatic);
  config.num_blocks = 3;
  make(config);
  add(request_of(1, 4, 1));
  add(request_of(2, 4, 8));
  while (scheduler_->has_work()) {
    for (const RequestStepOutput& output : step()) {
      EXPECT_TRUE(output.finished == nullptr || output.finished->num_preemptions() == 0);
    }
  }
  EXPECT_EQ(scheduler_->stats().num_finished, 2);
  config.num_blocks = 64;
  config.max_model_len = 8;
  make(config);
  add(request_of(1, 7, 1));
  add(request_of(2, 1, 7));
  while (scheduler_->has_work()) step();
  EXPECT_EQ(scheduler_->stats().num_finished, 2);
  EXPECT_LE(scheduler_->stats().tokens_discarded, 1);
}

TEST_F(SchedulerBatching, ADynamicBatchWaitsAWhileToFillUp) {
  make(batch_config(Batching::kDynamic));
  add(request_of(1, 2, 1));
  EXPECT_TRUE(schedule().empty());
  EXPECT_TRUE(scheduler_->has_work());
  EXPECT_EQ(scheduler_->next_deadline(), Instant(10ms));
  EXPECT_EQ(scheduler_->find(1)->timeline().current(), WaitCause::kBatch);
  now_ = 9ms;
  EXPECT_TRUE(schedule().empty());
  now_ = 10ms;
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+2!"));
}

TEST_F(SchedulerBatching, ADynamicBatchThatIsFullDoesNotWait) {
  make(batch_config(Batching::kDynamic));
  add(request_of(1, 2, 1));
  EXPECT_TRUE(schedule().empty());
  add(request_of(2, 2, 1));
  EXPECT_EQ(scheduler_->next_deadline(), Instant::zero());
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+2!", "2:0+2!"));
}

// The executor still knows the request, and its row holds blocks.
TEST_F(SchedulerBatching, AnIdIsInUseWhileItsRowGoesOn) {
  make(batch_config(Batching::kStatic));
  add(request_of(1, 2, 1));
  add(request_of(2, 2, 3));
  step();
  EXPECT_EQ(scheduler_->find(1), nullptr);
  EXPECT_EQ(scheduler_->add(request_of(1, 2, 1), now_).message(),
            "request 1: a request of this id is not finished yet");
  while (scheduler_->has_work()) step();
  add(request_of(1, 2, 1));
}

class SchedulerAdmissionPace : public SchedulerTest {
 protected:
  void make_paced(double ratio, std::int32_t max_waiting_tokens, SchedulerConfig config = {}) {
    config.admission = {.waiting_served_ratio = ratio, .max_waiting_tokens = max_waiting_tokens};
    make(config);
  }
  SchedulerConfig config() {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 32;
    return config;
  }
  std::optional<WaitCause> wait_of(RequestId id) {
    return scheduler_->find(id)->timeline().current();
  }
};

TEST_F(SchedulerAdmissionPace, ThoseThatWaitStartTogetherWhenTheyAreEnough) {
  make_paced(1.2, 100, config());
  for (RequestId id = 1; id <= 3; ++id) add(request_of(id, 2, 20));
  EXPECT_THAT(shares(step_plan()), ElementsAre("1:0+2!", "2:0+2!", "3:0+2!"));
  add(request_of(4, 2, 20));
  add(request_of(5, 2, 20));
  EXPECT_THAT(shares(step_plan()), ElementsAre("1:2+1!", "2:2+1!", "3:2+1!"));
  EXPECT_EQ(wait_of(4), WaitCause::kAdmissionPace);
  EXPECT_EQ(scheduler_->find(4)->timeline().open()->blockers.count, 3);
  EXPECT_EQ(wait_of(5), WaitCause::kQueueOrder);
  add(request_of(6, 2, 20));  // 3 of 3 run: 3.6 are asked for, rounded down
  EXPECT_EQ(schedule().new_requests.size(), 3U);
}

TEST_F(SchedulerAdmissionPace, AfterSoManyStepsAnyNumberStarts) {
  make_paced(3, 4, config());
  for (RequestId id = 1; id <= 2; ++id) add(request_of(id, 2, 20));
  step();
  add(request_of(3, 2, 20));
  for (int i = 1; i < 4; ++i) EXPECT_THAT(step_plan().new_requests, IsEmpty()) << i;
  EXPECT_EQ(step_plan().new_requests.size(), 1U);
  add(request_of(4, 2, 20));  // and from then on they are counted again
  for (int i = 1; i < 4; ++i) EXPECT_THAT(step_plan().new_requests, IsEmpty()) << i;
  EXPECT_EQ(step_plan().new_requests.size(), 1U);
}

TEST_F(SchedulerAdmissionPace, NobodyWaitsForOthersWhereNobodyRuns) {
  make_paced(1000, 1000, config());
  add(request_of(1, 2, 1));
  EXPECT_EQ(step_plan().new_requests.size(), 1U);
  add(request_of(2, 2, 1));
  EXPECT_EQ(step_plan().new_requests.size(), 1U);
}

TEST_F(SchedulerAdmissionPace, AChunkedPromptGoesOnAndThePreemptedResumeAtOnce) {
  SchedulerConfig small = config();
  small.num_blocks = 3;
  small.max_num_batched_tokens = 5;
  make_paced(2, 1000, small);
  add(request_of(1, 4, 5));
  add(request_of(2, 4, 5));
  add(request_of(3, 1, 1));
  EXPECT_THAT(shares(step_plan()), ElementsAre("1:0+4!", "2:0+1"));
  EXPECT_THAT(shares(step_plan()), ElementsAre("1:4+1!", "2:1+3!"));
  step();  // a block more for each: the second gives way
  EXPECT_EQ(wait_of(2), WaitCause::kPreempted);
  while (scheduler_->find(1) != nullptr) step();
  const SchedulerOutput plan = schedule();
  ASSERT_FALSE(plan.new_requests.empty());
  EXPECT_EQ(plan.new_requests[0].request_id, 2U);
}

TEST_F(SchedulerAdmissionPace, TheOutputsOfAPromptStartOnceItIsComputed) {
  make_paced(1000, 1000, config());
  AddRequest request = request_of(1, 6, 8);
  SamplingParams params = *request.sampling_params;
  params.n = 3;
  request.sampling_params = std::make_shared<const SamplingParams>(params);
  add(request);
  EXPECT_EQ(step_plan().new_requests.size(), 1U);
  EXPECT_EQ(step_plan().new_requests.size(), 2U);
}

// Or the one would give way for another that does not start.
TEST_F(SchedulerAdmissionPace, NobodyGivesWayToOneThatMayNotStart) {
  SchedulerConfig fair = config();
  fair.policy = SchedulingPolicy::kFair;
  fair.max_num_seqs = 2;
  make_paced(1, 1000, fair);
  for (RequestId id = 1; id <= 2; ++id) {
    AddRequest request = request_of(id, 2, 20);
    request.user = "a";
    add(request);
  }
  step();
  AddRequest other = request_of(3, 2, 20);
  other.user = "b";
  add(other);
  EXPECT_THAT(shares(step_plan()), ElementsAre("1:2+1!", "2:2+1!"));
  EXPECT_EQ(scheduler_->stats().num_preemptions, 0);
  EXPECT_EQ(wait_of(3), WaitCause::kAdmissionPace);
}

TEST_F(SchedulerAdmissionPace, ItsSettingsAreChecked) {
  SchedulerConfig bad = config();
  bad.admission.waiting_served_ratio = -1;
  EXPECT_THAT(bad.validate().message(), testing::HasSubstr("waiting_served_ratio: -1"));
  bad.admission = {.waiting_served_ratio = 1, .max_waiting_tokens = 0};
  EXPECT_THAT(bad.validate().message(), testing::HasSubstr("max_waiting_tokens: 0"));
  bad.admission.max_waiting_tokens = 1;
  bad.batching = Batching::kStatic;
  EXPECT_THAT(bad.validate().message(), testing::HasSubstr("whose members are fixed"));
}

}  // namespace
}  // namespace quire
