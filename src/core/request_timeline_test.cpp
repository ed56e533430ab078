#include "core/request_timeline.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;

TEST(RequestTimeline, SpansFollowOneAnother) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kQueueOrder, 10ns);
  timeline.wait(WaitCause::kNoFreeBlocks, 15ns);
  timeline.resume(18ns);
  ASSERT_EQ(timeline.spans().size(), 2U);
  EXPECT_EQ(timeline.spans()[0].cause, WaitCause::kQueueOrder);
  EXPECT_EQ(timeline.spans()[0].begin, 10ns);
  EXPECT_EQ(timeline.spans()[0].end, 15ns);
  EXPECT_EQ(timeline.spans()[1].cause, WaitCause::kNoFreeBlocks);
  EXPECT_EQ(timeline.spans()[1].end, 18ns);
  EXPECT_EQ(timeline.current(), std::nullopt);
}

TEST(RequestTimeline, OneCauseIsOneSpan) {
  RequestTimeline timeline;
  for (int i = 0; i < 5; ++i) timeline.wait(WaitCause::kTokenBudget, Instant(i));
  EXPECT_EQ(timeline.current(), WaitCause::kTokenBudget);
  timeline.resume(5ns);
  timeline.wait(WaitCause::kTokenBudget, 5ns);  // at once again: still the same wait
  timeline.resume(7ns);
  ASSERT_EQ(timeline.spans().size(), 1U);
  EXPECT_EQ(timeline.spans()[0].begin, 0ns);
  EXPECT_EQ(timeline.spans()[0].end, 7ns);
}

TEST(RequestTimeline, EmptyWaitsAreNotKept) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kQueueOrder, 3ns);
  timeline.wait(WaitCause::kMaxNumSeqs, 3ns);
  timeline.resume(3ns);
  timeline.resume(9ns);
  EXPECT_TRUE(timeline.spans().empty());
}

TEST(RequestTimeline, TotalsIncludeTheCurrentWait) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kPreempted, 0ns);
  timeline.resume(4ns);
  timeline.wait(WaitCause::kPreempted, 10ns);
  EXPECT_EQ(timeline.total(WaitCause::kPreempted, 13ns), 7ns);
  EXPECT_EQ(timeline.total(WaitCause::kQueueOrder, 13ns), 0ns);
}

TEST(RequestTimeline, IsBoundedButItsTotalsAreExact) {
  RequestTimeline timeline;
  constexpr int kWaits = 1000;
  for (int i = 0; i < kWaits; ++i) {
    timeline.wait(WaitCause::kTokenBudget, Instant(10 * i));
    timeline.resume(Instant(10 * i + 3));
  }
  EXPECT_EQ(timeline.spans().size(), RequestTimeline::kMaxSpans);
  EXPECT_EQ(timeline.num_spans_dropped(), kWaits - std::ssize(timeline.spans()));
  EXPECT_EQ(timeline.total(WaitCause::kTokenBudget, Instant(10 * kWaits)), Instant(3 * kWaits));
}

TEST(RequestTimeline, EveryCauseHasAName) {
  for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
    EXPECT_NE(wait_cause_name(static_cast<WaitCause>(i)), "unknown");
  }
}

}  // namespace
}  // namespace quire
