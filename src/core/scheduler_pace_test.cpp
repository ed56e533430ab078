// How the time that a step may take cuts prompts.
#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

class SchedulerPaceTest : public SchedulerTest {
 protected:
  static SchedulerConfig config() {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 100;
    config.max_model_len = 200;
    config.num_blocks = 200;
    return config;
  }
  void SetUp() override { make(config()); }

  // A step takes 10 ns, and 1 ns for each token.
  void pace(Duration max_step, std::int32_t max_prompt_tokens = 1000) {
    StepPace pace;
    pace.max_step = max_step;
    pace.max_prompt_tokens = max_prompt_tokens;
    pace.cost = {.step = 10, .row = 1, .prompt_token = 1};
    ASSERT_TRUE(pace.validate().ok());
    scheduler_->set_pace(pace);
  }
};

TEST_F(SchedulerPaceTest, NoLimitAtFirst) {
  EXPECT_FALSE(scheduler_->pace().limited());
  add(request_of(1, 60));
  add(request_of(2, 60));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+60!", "2:0+40"));
}

TEST_F(SchedulerPaceTest, PromptsShareTheTimeThatRowsLeave) {
  pace(40ns);
  add(request_of(1, 8, 100));
  step();
  add(request_of(2, 50));
  add(request_of(3, 50));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:8+1!", "2:0+29"));
}

// Two prompts that fit into a step go together; the one that is cut is the later one.
TEST_F(SchedulerPaceTest, PromptsGoOneAfterTheOther) {
  pace(40ns);
  add(request_of(1, 8, 100));
  step();
  add(request_of(2, 20));
  add(request_of(3, 20));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:8+1!", "2:0+20!", "3:0+9"));
}

TEST_F(SchedulerPaceTest, WhereNobodyGetsATokenTheFirstPromptIsWhole) {
  pace(40ns);
  add(request_of(1, 90));
  add(request_of(2, 5));
  const auto plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("1:0+90!"));
  EXPECT_EQ(scheduler_->find(2)->timeline().current(), WaitCause::kStepTime);
  EXPECT_EQ(scheduler_->find(2)->timeline().open()->blockers.ids[0], 1U);
  update(plan);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:90+1!", "2:0+5!"));
}

TEST_F(SchedulerPaceTest, ShortPromptsShareAStepWhereNobodyGetsAToken) {
  pace(40ns);
  add(request_of(1, 10));
  add(request_of(2, 10));
  add(request_of(3, 50));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+10!", "2:0+10!", "3:0+10"));
}

TEST_F(SchedulerPaceTest, NobodyJoinsWhereRowsTakeAllTheTime) {
  pace(12ns);
  add(request_of(1, 8, 3));
  add(request_of(2, 8, 100));
  step();  // the first, whole
  EXPECT_THAT(shares(schedule()), ElementsAre("1:8+1!", "2:0+1"));
  scheduler_.emplace(config());
  pace(11ns);
  add(request_of(1, 8, 3));
  add(request_of(2, 8, 100));
  step();
  EXPECT_THAT(shares(schedule()), ElementsAre("1:8+1!"));
  EXPECT_EQ(scheduler_->find(2)->timeline().current(), WaitCause::kStepTime);
}

TEST_F(SchedulerPaceTest, AWaitForTimeEndsWithTheRows) {
  pace(11ns);
  add(request_of(1, 8, 2));
  step();
  add(request_of(2, 8));
  const auto plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("1:8+1!"));
  update(plan);  // ends it
  now_ += 5ms;
  EXPECT_THAT(shares(schedule()), ElementsAre("2:0+8!"));
  EXPECT_GT(scheduler_->find(2)->timeline().total(WaitCause::kStepTime, now_), 5ms);
}

TEST_F(SchedulerPaceTest, RowsAreNeverCut) {
  pace(1ns);
  for (const RequestId id : {1, 2, 3}) {
    add(request_of(id, 4, 50));
    scheduler_->set_pace({});
    step();
    pace(1ns);
  }
  EXPECT_THAT(shares(schedule()), ElementsAre("1:6+1!", "2:5+1!", "3:4+1!"));
}

TEST_F(SchedulerPaceTest, NoMorePromptTokensThanWereTried) {
  pace(1s, 30);
  add(request_of(1, 50));
  add(request_of(2, 50));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+30"));
}

TEST_F(SchedulerPaceTest, KeysCount) {
  StepPace pace;
  pace.max_step = 1000ns;
  pace.max_prompt_tokens = 1000;
  pace.cost = {.step = 0, .prompt_token = 10, .prompt_keys = 1000};
  scheduler_->set_pace(pace);
  add(request_of(1, 4, 100));
  step();
  add(request_of(2, 150));
  // 35 tokens see 630 keys: 350 and 615 ns. 36 see 666: 1,010 ns.
  EXPECT_THAT(shares(schedule()), ElementsAre("1:4+1!", "2:0+35"));
}

// By priority a prompt may go before those that get tokens already.
TEST_F(SchedulerPaceTest, TheFirstAdvancesWhateverItCosts) {
  SchedulerConfig priority = config();
  priority.policy = SchedulingPolicy::kPriority;
  priority.max_num_batched_tokens = 10;
  make(priority);
  add(request_of(1, 8, 100));
  step();
  AddRequest urgent = request_of(2, 50);
  urgent.priority = -1;
  add(urgent);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:8+1!", "2:0+9"));
  scheduler_.reset();
  make(priority);
  add(request_of(1, 8, 100));
  step();
  add(urgent);
  step();
  pace(1ns);
  EXPECT_THAT(shares(schedule()), ElementsAre("2:9+1", "1:9+1!"));
}

TEST_F(SchedulerPaceTest, PromptsThatAreNotCutGoWhereAnyTimeIsLeft) {
  SchedulerConfig whole = config();
  whole.enable_chunked_prefill = false;
  whole.max_num_batched_tokens = 200;
  make(whole);
  pace(40ns);
  add(request_of(1, 8, 100));
  step();
  add(request_of(2, 50));
  add(request_of(3, 50));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:8+1!", "2:0+50!"));
}

TEST(StepPace, RefusesWhatOverflows) {
  StepPace pace;
  EXPECT_TRUE(pace.validate().ok());
  pace.cost.row = -1;
  EXPECT_FALSE(pace.validate().ok());
  pace.cost.row = 0;
  pace.cost.prompt_keys = std::int64_t{1} << 40;
  EXPECT_FALSE(pace.validate().ok());
  pace.cost.prompt_keys = 0;
  pace.max_prompt_tokens = 0;
  EXPECT_FALSE(pace.validate().ok());
}

TEST(StepPace, TimeGrowsWithEachKeyAndDoesNotOverflow) {
  const StepCost cost = {.step = 5, .row_keys = 2048, .prompt_keys = 1024};
  EXPECT_EQ(cost.time_of({.num_rows = 1, .row_keys = 3}).count(), 5 + 6);
  EXPECT_EQ(cost.time_of({.prompt_tokens = 1, .prompt_keys = 1025}).count(), 5 + 1025);
  const std::int64_t most = std::int64_t{1} << 44;  // keys that a step can see
  const StepCost dear = {.row_keys = std::int64_t{1} << 26};
  EXPECT_EQ(dear.time_of({.num_rows = 1, .row_keys = most}).count(), std::int64_t{1} << 60);
}

TEST(StepWork, CountsKeysOnceForEachTokenThatSeesThem) {
  StepWork work;
  work.add(10, 1);
  work.add(100, 3);  // 101, 102, 103
  EXPECT_EQ(work.num_rows, 1);
  EXPECT_EQ(work.row_keys, 11);
  EXPECT_EQ(work.prompt_tokens, 3);
  EXPECT_EQ(work.prompt_keys, 306);
}

}  // namespace
}  // namespace quire
