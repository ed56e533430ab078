#include "apps/bench_step/breakdown.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace breakdown_test {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr Stage kStep = {StageKind::kWhole, "step"};
constexpr Stage kSchedule = {StageKind::kBookkeeping, "schedule"};
constexpr Stage kExecute = {StageKind::kWhole, "execute"};
constexpr Stage kMatmul = {StageKind::kKernel, "matmul"};
constexpr Stage kSample = {StageKind::kSampling, "sample"};
constexpr Stage kArgmax = {StageKind::kSampling, "argmax"};

void spend(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void record_step(SpanRecorder& spans, StepId id, int matmuls = 3) {
  using std::chrono_literals::operator""us;
  const ScopedSpan step(&spans, kStep);
  {
    const ScopedSpan schedule(&spans, kSchedule);
    spend(20us);
  }
  {
    const ScopedSpan execute(&spans, kExecute);
    for (int i = 0; i < matmuls; ++i) {
      const ScopedSpan matmul(&spans, kMatmul);
      matmul.get()->cost = {.bytes = 10, .operations = 200};
      matmul.get()->others_ns = 1000;
      spend(30us);
    }
    const ScopedSpan sample(&spans, kSample);
    sample.get()->others_ns = 500;
    spend(10us);
    const ScopedSpan argmax(&spans, kArgmax);
    argmax.get()->others_ns = 400;
    spend(40us);
  }
  step.get()->id = id;
}

const StageSum& stage(const Breakdown& sum, std::string_view name) {
  for (const StageSum& each : sum.stages) {
    if (each.name == name) return each;
  }
  throw std::out_of_range(std::string(name));
}

TEST(Breakdown, OwnTimesAddUpToTheStepsExactly) {
  SpanRecorder spans(1000);
  for (StepId id = 1; id <= 5; ++id) record_step(spans, id);
  const std::vector<StepId> ids = {2, 3, 4};
  const Breakdown sum = break_down(spans, ids);
  EXPECT_EQ(sum.num_steps, 3);
  std::vector<std::string_view> names;
  std::int64_t parts_ns = sum.unaccounted_ns;
  for (const StageSum& each : sum.stages) {
    names.push_back(each.name);
    parts_ns += each.own_ns;
  }
  EXPECT_THAT(names, ElementsAre("schedule", "matmul", "sample", "argmax"));
  EXPECT_EQ(parts_ns, sum.total_ns);
  EXPECT_EQ(sum.sum_of(StageKind::kBookkeeping), stage(sum, "schedule").own_ns);
  EXPECT_EQ(sum.sum_of(StageKind::kSampling),
            stage(sum, "sample").own_ns + stage(sum, "argmax").own_ns);

  const StageSum& matmul = stage(sum, "matmul");
  EXPECT_EQ(matmul.calls, 9);
  EXPECT_GE(matmul.own_ns, 9 * 30'000);
  EXPECT_EQ(matmul.cost.bytes, 90U);
  EXPECT_EQ(matmul.cost.operations, 1800U);
  EXPECT_EQ(matmul.others_ns, 9000);
  EXPECT_NEAR(matmul.threads_busy(), 1.0 + 9000.0 / static_cast<double>(matmul.own_ns), 1e-12);
  EXPECT_GE(matmul.median_call_ns, 30'000);
  EXPECT_EQ(matmul.typical_ns(), 9 * matmul.median_call_ns);
  std::int64_t typical_ns = sum.typical_unaccounted_ns();
  for (const Stage& each : {kSchedule, kMatmul, kSample, kArgmax}) {
    typical_ns += stage(sum, each.name).typical_ns();
  }
  EXPECT_EQ(sum.typical_total_ns(), typical_ns);
  EXPECT_EQ(sum.typical_sum_of(StageKind::kKernel), matmul.typical_ns());
  // What is inside a stage is not counted again for it.
  EXPECT_EQ(stage(sum, "sample").others_ns, 3 * 100);
  EXPECT_GE(stage(sum, "argmax").own_ns, 3 * 40'000);
  EXPECT_GE(sum.unaccounted_ns, 0);
  EXPECT_GE(sum.end_ns - sum.begin_ns, sum.total_ns);
}

TEST(Breakdown, LeavesOutStepsOfWhichSpansAreLost) {
  SpanRecorder spans(20);  // a step has 8
  for (StepId id = 1; id <= 5; ++id) record_step(spans, id);
  const std::vector<StepId> ids = {1, 2, 3, 4, 5};
  const Breakdown sum = break_down(spans, ids);
  EXPECT_EQ(sum.num_steps, 2);
  EXPECT_EQ(stage(sum, "matmul").calls, 6);
}

// One call that took long moves the sum, and what is typical hardly.
TEST(Breakdown, ADisturbedCallIsNotTypical) {
  using std::chrono_literals::operator""us;
  SpanRecorder spans(1000);
  constexpr int kCalls = 51;
  {
    const ScopedSpan step(&spans, kStep);
    step.get()->id = 1;
    for (int i = 0; i < kCalls; ++i) {
      const ScopedSpan matmul(&spans, kMatmul);
      spend(i == 7 ? 20'000us : 2us);
    }
  }
  const StageSum matmul = stage(break_down(spans, std::vector<StepId>{1}), "matmul");
  EXPECT_GE(matmul.own_ns, 20'000'000);
  EXPECT_GE(matmul.median_call_ns, 2'000);
  EXPECT_LT(matmul.typical_ns(), matmul.own_ns);
}

TEST(Breakdown, WhatAnotherThreadDoesTakesThePlaceOfWaitingForIt) {
  const Breakdown engine = {.num_steps = 2,
                            .total_ns = 1000,
                            .stages = {{.name = "schedule", .calls = 2, .own_ns = 100}},
                            .unaccounted_ns = 900,
                            .median_unaccounted_ns = 450};
  const Breakdown executor = {
      .num_steps = 2,
      .total_ns = 800,
      .stages = {{.name = "matmul", .calls = 2, .own_ns = 700, .median_call_ns = 350}},
      .unaccounted_ns = 100,
      .median_unaccounted_ns = 50};
  const Breakdown sum = join(engine, executor);
  EXPECT_EQ(sum.total_ns, 1000);
  EXPECT_EQ(sum.unaccounted_ns, 200);
  EXPECT_EQ(sum.median_unaccounted_ns, 100);
  ASSERT_THAT(sum.stages, SizeIs(2));
  EXPECT_EQ(sum.stages[1].name, "matmul");
}

TEST(Breakdown, NoStepNoTime) {
  SpanRecorder spans(20);
  record_step(spans, 1);
  const Breakdown sum = break_down(spans, std::vector<StepId>{2, 3});
  EXPECT_EQ(sum.num_steps, 0);
  EXPECT_EQ(sum.total_ns, 0);
  EXPECT_THAT(sum.stages, SizeIs(0));
}

}  // namespace breakdown_test
}  // namespace quire
