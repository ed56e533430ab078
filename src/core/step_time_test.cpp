// How the time of a step is divided among its requests.
#include "core/scheduler_fixture.h"
#include "core/scheduler_snapshot.h"

namespace quire {
namespace step_time_test {

using namespace std::chrono_literals;

class StepTime : public SchedulerTest {
 protected:
  std::int64_t of(RequestId id) const { return scheduler_->find(id)->step_time().count(); }
  std::int64_t charged() const { return scheduler_->stats().step_time_charged_ns; }
};

TEST_F(StepTime, IsDividedByTokens) {
  make(small_config());
  add(request_of(1, 3));
  add(request_of(2, 1));
  step();  // a millisecond
  EXPECT_EQ(of(1), 750'000);
  EXPECT_EQ(of(2), 250'000);
  now_ += 1h;  // between steps: nobody's
  step();
  EXPECT_EQ(of(1), 1'250'000);
  EXPECT_EQ(of(2), 750'000);
  EXPECT_EQ(charged(), 2'000'000);
}

TEST_F(StepTime, NoNanosecondIsLost) {
  make(small_config());
  for (RequestId id = 1; id <= 3; ++id) add(request_of(id, 1));
  step();
  EXPECT_EQ(of(1) + of(2) + of(3), 1'000'000);
  EXPECT_EQ(of(1), 333'333);
  EXPECT_EQ(of(2), 333'333);
  EXPECT_EQ(of(3), 333'334);
}

TEST_F(StepTime, WhoGoesIsPaidForByThoseWhoStay) {
  make(small_config());
  add(request_of(1, 1));
  add(request_of(2, 1));
  const SchedulerOutput plan = schedule();
  EXPECT_EQ(abort(1)->step_time(), Duration::zero());
  update(plan);
  EXPECT_EQ(of(2), 1'000'000);
  const SchedulerOutput last = schedule();
  EXPECT_EQ(abort(2)->step_time(), 1ms);
  update(last);  // of nobody
  EXPECT_EQ(charged(), 1'000'000);
}

TEST_F(StepTime, TheOneThatEndsHasItsLastStep) {
  make(small_config());
  add(request_of(1, 4, 2));
  step();
  const auto outputs = step();
  ASSERT_NE(outputs.at(0).finished, nullptr);
  EXPECT_EQ(outputs[0].finished->step_time(), 2ms);
}

TEST_F(StepTime, ASecondStepInFlightBeginsWhenTheFirstEnds) {
  SchedulerConfig config = small_config();
  config.max_steps_in_flight = 2;
  make(config);
  add(request_of(1, 1));
  const SchedulerOutput first = schedule();
  const SchedulerOutput second = schedule();
  ASSERT_FALSE(second.empty());
  update(first);
  EXPECT_EQ(of(1), 1'000'000);
  update(second);
  EXPECT_EQ(of(1), 2'000'000);
}

TEST_F(StepTime, ASnapshotKeepsIt) {
  make(small_config());
  add(request_of(1, 1));
  step();
  auto snapshot = scheduler_->snapshot();
  ASSERT_TRUE(snapshot.ok());
  SchedulerSnapshot broken = *snapshot;
  const auto restored = Scheduler::restore(*std::move(snapshot));
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ((*restored)->find(1)->step_time(), 1ms);
  EXPECT_EQ((*restored)->stats().step_time_charged_ns, 1'000'000);
  broken.running[0].step_time = -1ns;
  EXPECT_FALSE(Scheduler::restore(std::move(broken)).ok());
}

}  // namespace step_time_test
}  // namespace quire
