#include "core/request_timeline.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;

TEST(RequestTimeline, SpansFollowOneAnother) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kQueueOrder, 10ns);
  timeline.wait(WaitCause::kNoFreeBlocks, 15ns);
  timeline.finish(18ns);
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
  timeline.finish(5ns);
  timeline.wait(WaitCause::kTokenBudget, 5ns);  // at once again: still the same wait
  timeline.finish(7ns);
  ASSERT_EQ(timeline.spans().size(), 1U);
  EXPECT_EQ(timeline.spans()[0].begin, 0ns);
  EXPECT_EQ(timeline.spans()[0].end, 7ns);
}

TEST(RequestTimeline, EmptyWaitsAreNotKept) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kQueueOrder, 3ns);
  timeline.wait(WaitCause::kMaxNumSeqs, 3ns);
  timeline.finish(3ns);
  timeline.finish(9ns);
  EXPECT_TRUE(timeline.spans().empty());
}

TEST(RequestTimeline, TotalsIncludeTheCurrentWait) {
  RequestTimeline timeline;
  timeline.wait(WaitCause::kPreempted, 0ns);
  timeline.finish(4ns);
  timeline.wait(WaitCause::kPreempted, 10ns);
  EXPECT_EQ(timeline.total(WaitCause::kPreempted, 13ns), 7ns);
  EXPECT_EQ(timeline.total(WaitCause::kQueueOrder, 13ns), 0ns);
}

TEST(RequestTimeline, IsBoundedButItsTotalsAreExact) {
  RequestTimeline timeline;
  constexpr int kWaits = 1000;
  for (int i = 0; i < kWaits; ++i) {
    timeline.wait(WaitCause::kTokenBudget, Instant(10 * i));
    timeline.finish(Instant(10 * i + 3));
  }
  EXPECT_EQ(timeline.spans().size(), RequestTimeline::kMaxSpans);
  EXPECT_EQ(timeline.num_spans_dropped(), kWaits - std::ssize(timeline.spans()));
  EXPECT_EQ(timeline.total(WaitCause::kTokenBudget, Instant(10 * kWaits)), Instant(3 * kWaits));
}

TEST(RequestTimeline, ChunksAreSpansAndDecodingIsOne) {
  RequestTimeline timeline;
  EXPECT_TRUE(timeline.wait(WaitCause::kQueueOrder, 0ns));
  timeline.compute({.kind = SpanKind::kPrefill, .num_tokens = 8, .num_cached_tokens = 16}, 10ns);
  timeline.compute({.kind = SpanKind::kPrefill, .num_tokens = 3}, 20ns);
  timeline.compute({.kind = SpanKind::kDecode, .num_tokens = 1}, 30ns);
  timeline.compute({.kind = SpanKind::kDecode, .num_tokens = 1}, 35ns);
  EXPECT_EQ(timeline.total(SpanKind::kDecode, 37ns), 7ns);
  timeline.finish(40ns);
  ASSERT_EQ(timeline.spans().size(), 4U);
  EXPECT_EQ(timeline.spans()[1].num_cached_tokens, 16);
  EXPECT_EQ(timeline.spans()[2].num_tokens, 3);
  EXPECT_EQ(timeline.spans()[3].num_steps, 2);
  EXPECT_EQ(timeline.spans()[3].end, 40ns);
  EXPECT_EQ(timeline.total(SpanKind::kPrefill, 40ns), 20ns);
  EXPECT_EQ(timeline.total(SpanKind::kWait, 40ns), 10ns);
  EXPECT_FALSE(timeline.open());
}

TEST(RequestTimeline, AWaitNamesTheFirstThatItIsFor) {
  RequestTimeline timeline;
  ASSERT_TRUE(timeline.wait(WaitCause::kNoFreeBlocks, 0ns));
  Blockers blockers;
  for (RequestId id = 1; id <= 5; ++id) blockers.add(id);
  timeline.block(blockers);
  EXPECT_FALSE(timeline.wait(WaitCause::kNoFreeBlocks, 3ns));
  timeline.finish(4ns);
  EXPECT_EQ(timeline.spans()[0].blockers.count, 5);
  EXPECT_EQ(timeline.spans()[0].blockers.num_ids(), 3);
  EXPECT_EQ(timeline.spans()[0].blockers.ids[2], 3);
}

TEST(RequestTimeline, EveryCauseHasAName) {
  for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
    EXPECT_NE(wait_cause_name(static_cast<WaitCause>(i)), "unknown");
  }
}

}  // namespace
}  // namespace quire
