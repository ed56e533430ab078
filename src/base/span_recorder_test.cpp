#include "base/span_recorder.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr Stage kOuter = {StageKind::kWhole, "outer"};
constexpr Stage kInner = {StageKind::kKernel, "inner"};

TEST(SpanRecorder, ASpanHoldsThoseThatEndedInsideIt) {
  SpanRecorder recorder(100);
  {
    const ScopedSpan outer(&recorder, kOuter);
    outer.get()->id = 7;
    {
      const ScopedSpan inner(&recorder, kInner);
      inner.get()->cost = {.bytes = 64, .operations = 128};
    }
    const ScopedSpan last(&recorder, kInner);
  }
  ASSERT_EQ(recorder.num_ended(), 3U);
  EXPECT_EQ(recorder.oldest(), 0U);
  const Span& outer = recorder[2];
  EXPECT_EQ(outer.stage, &kOuter);
  EXPECT_EQ(outer.id, 7U);
  EXPECT_EQ(outer.first, 0U);
  EXPECT_EQ(recorder[0].stage, &kInner);
  EXPECT_EQ(recorder[0].cost.bytes, 64U);
  EXPECT_EQ(recorder[0].cost.operations, 128U);
  EXPECT_EQ(recorder[0].first, 0U);
  EXPECT_EQ(recorder[1].first, 1U);
  EXPECT_EQ(recorder[1].cost.bytes, 0U);
  EXPECT_LE(outer.start_ns, recorder[0].start_ns);
  EXPECT_LE(recorder[0].start_ns, recorder[0].end_ns);
  EXPECT_LE(recorder[0].end_ns, recorder[1].start_ns);
  EXPECT_LE(recorder[1].end_ns, outer.end_ns);
}

TEST(SpanRecorder, KeepsTheLastSpansAndTheirNumbers) {
  SpanRecorder recorder(4);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const ScopedSpan span(&recorder, kInner);
    span.get()->id = i;
  }
  EXPECT_EQ(recorder.num_ended(), 10U);
  EXPECT_EQ(recorder.oldest(), 6U);
  for (std::uint64_t number = 6; number < 10; ++number) {
    EXPECT_EQ(recorder[number].id, number);
    EXPECT_EQ(recorder[number].first, number);
  }
}

// The children of an open span may be overwritten; `first` then lies before what is kept.
TEST(SpanRecorder, ASpanWithMoreInsideThanFitsShowsIt) {
  SpanRecorder recorder(3);
  {
    const ScopedSpan outer(&recorder, kOuter);
    for (int i = 0; i < 5; ++i) const ScopedSpan inner(&recorder, kInner);
  }
  const Span& outer = recorder[recorder.num_ended() - 1];
  EXPECT_EQ(outer.stage, &kOuter);
  EXPECT_LT(outer.first, recorder.oldest());
}

TEST(SpanRecorder, NoRecorderNoSpan) {
  const ScopedSpan span(nullptr, kOuter);
  EXPECT_EQ(span.get(), nullptr);
}

TEST(SpanRecorder, KindsHaveNames) {
  EXPECT_EQ(stage_kind_name(StageKind::kWhole), "whole");
  EXPECT_EQ(stage_kind_name(StageKind::kBookkeeping), "bookkeeping");
  EXPECT_EQ(stage_kind_name(StageKind::kKernel), "kernel");
  EXPECT_EQ(stage_kind_name(StageKind::kSampling), "sampling");
  EXPECT_EQ(stage_kind_name(StageKind::kWait), "wait");
}

}  // namespace
}  // namespace quire
