#include "sim/step_times_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload.h"

namespace quire {
namespace {

// Few tokens wait for the weights, and from 16 on each takes its time.
const StepTimes kMachine = {.tokens = {{1, 3e6}, {4, 3.3e6}, {16, 4.5e6}, {1024, 100e6}},
                            .row = 2e4,
                            .row_keys = 5e4,
                            .prompt_keys = 7e3};

MeasuredStep measured(const StepTimes& times, StepWork work, double noise) {
  const auto time = static_cast<double>(times.time_of(work).count());
  return {.work = work, .time = Duration(static_cast<Duration::rep>(time * (1 + noise)))};
}

std::vector<MeasuredStep> measured_by(const StepTimes& times, double noise, std::int64_t count) {
  RandomStream random(7);
  std::vector<MeasuredStep> steps;
  for (std::int64_t i = 0; i < count; ++i) {
    StepWork work;
    const std::int64_t rows = random.between(0, random.chance(0.5) ? 4 : 24);
    for (std::int64_t row = 0; row < rows; ++row) work.add_row(random.between(0, 2000));
    if (rows == 0 || random.chance(0.4)) {
      work.add_prompt(random.between(0, 1000), random.between(2, random.chance(0.5) ? 30 : 700));
    }
    steps.push_back(measured(times, work, noise * (random.uniform() - 0.5)));
  }
  return steps;
}

StepWork rows(std::int64_t count, std::int64_t num_computed) {
  StepWork work;
  for (std::int64_t i = 0; i < count; ++i) work.add_row(num_computed);
  return work;
}

StepWork prompt(std::int64_t num_tokens) {
  StepWork work;
  work.add_prompt(0, num_tokens);
  return work;
}

double ratio(const StepTimes& times, const StepTimes& other, const StepWork& work) {
  return to_seconds(times.time_of(work)) / to_seconds(other.time_of(work));
}

TEST(StepTimesTest, IsStraightBetweenItsPoints) {
  EXPECT_EQ(kMachine.time_of(rows(1, 1023)), Duration(3'000'000 + 20'000 + 50'000));
  EXPECT_EQ(kMachine.time_of(rows(10, 0)).count() / 1000, (3900'000 + 10 * 20'000 + 488) / 1000);
  const StepTimes short_curve = {.tokens = {{2, 100}, {4, 200}}};
  EXPECT_EQ(short_curve.time_of(rows(1, 0)), Duration(100));
  EXPECT_EQ(short_curve.time_of(rows(10, 0)), Duration(500));
  StepTimes scaled = {.tokens = {{1, 100}}, .factors = {{2, 1.0}, {8, 2.0}}};
  EXPECT_EQ(scaled.time_of(rows(1, 0)), Duration(100));
  EXPECT_EQ(scaled.time_of(rows(4, 0)), Duration(150));  // in the middle, of logarithms
  EXPECT_EQ(scaled.time_of(rows(9, 0)), Duration(200));
}

TEST(StepTimesFitTest, FindsTheTimesThatWereMeasured) {
  const auto exact = fit_step_times(measured_by(kMachine, 0, 600));
  ASSERT_TRUE(exact.ok()) << exact.status().to_string();
  EXPECT_LT(exact->mean_error, 1e-3);
  auto noisy = measured_by(kMachine, 0.2, 2000);
  for (std::size_t i = 0; i < noisy.size(); i += 5) noisy[i].time *= 2;  // something else ran
  const auto fitted = fit_step_times(noisy);
  ASSERT_TRUE(fitted.ok());
  for (const std::int64_t count : {1, 2, 3, 4, 8, 16, 24}) {
    EXPECT_NEAR(ratio(exact->times, kMachine, rows(count, 500)), 1, 0.002) << count;
    EXPECT_NEAR(ratio(fitted->times, kMachine, rows(count, 500)), 1, 0.05) << count;
  }
  for (const std::int64_t count : {2, 16, 100, 512, 700}) {
    EXPECT_NEAR(ratio(fitted->times, kMachine, prompt(count)), 1, 0.05) << count;
  }
}

TEST(StepTimesFitTest, IsStraightWhereNothingWasMeasured) {
  // One row and eight, and prompts of 500: two to seven rows lie in between.
  std::vector<MeasuredStep> steps;
  for (int i = 0; i < 20; ++i) {
    steps.push_back(measured(kMachine, rows(1, 100), 0.01 * (i % 3 - 1)));
    steps.push_back(measured(kMachine, rows(8, 100), 0.01 * (i % 3 - 1)));
    steps.push_back(measured(kMachine, prompt(500), 0.01 * (i % 3 - 1)));
  }
  const auto fitted = fit_step_times(steps);
  ASSERT_TRUE(fitted.ok());
  const auto time = [&](std::int64_t count) {
    return to_seconds(fitted->times.time_of(rows(count, 100)));
  };
  EXPECT_NEAR(time(1), to_seconds(kMachine.time_of(rows(1, 100))), 1e-5);
  for (const std::int64_t count : {2, 4, 6}) {
    const double between = time(1) + (time(8) - time(1)) * static_cast<double>(count - 1) / 7;
    EXPECT_NEAR(time(count) / between, 1, 0.02) << count;
  }
}

TEST(StepTimesFitTest, NothingCostsLessThanNothing) {
  // More tokens cost nothing, under noise: least squares alone would give some of them less.
  const StepTimes flat = {.tokens = {{1, 5e6}}};
  const auto fitted = fit_step_times(measured_by(flat, 0.3, 100));
  ASSERT_TRUE(fitted.ok());
  double before = 0;
  for (const StepTimes::Point& point : fitted->times.tokens) {
    EXPECT_GE(point.value, before);
    before = point.value;
  }
  for (const double each : {fitted->times.row, fitted->times.row_keys, fitted->times.prompt_keys}) {
    EXPECT_GE(each, 0);
  }
}

TEST(StepTimesFitTest, StepsThatAreAllAlikeAreRefused) {
  const MeasuredStep step = measured(kMachine, rows(1, 9), 0);
  EXPECT_EQ(fit_step_times(std::vector<MeasuredStep>(19, step)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(fit_step_times(std::vector<MeasuredStep>(50, step)).status().message(),
              testing::HasSubstr("too much alike"));
}

TEST(StepTimesFitTest, InProportionEachKindOfStepTakesWhatItTook) {
  // A machine on which one row takes half as much more, and eight rows as much as was thought.
  std::vector<MeasuredStep> steps;
  for (int i = 0; i < 10; ++i) {
    steps.push_back(measured(kMachine, rows(1, 100), 0.5));
    steps.push_back(measured(kMachine, rows(8, 100), 0));
  }
  for (int i = 0; i < 3; ++i) steps.push_back(measured(kMachine, prompt(100), 3));  // too few
  const auto kinds = step_kinds(kMachine, steps);
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(tokens_text(kinds[0]), "1");
  EXPECT_EQ(tokens_text(kinds[1]), "8 to 15");
  EXPECT_NEAR(kinds[0].factor, 1.5, 1e-6);
  EXPECT_EQ(find_kind(kinds, 15), &kinds[1]);
  EXPECT_EQ(find_kind(kinds, 2), nullptr);
  steps.resize(20);
  const StepTimes scaled = in_proportion(kMachine, steps);
  EXPECT_NEAR(ratio(scaled, kMachine, rows(1, 100)), 1.5, 1e-6);
  EXPECT_NEAR(ratio(scaled, kMachine, rows(8, 100)), 1, 1e-6);
  EXPECT_NEAR(ratio(scaled, kMachine, rows(2, 100)), 1 + 0.5 * 2 / 3, 1e-6);
  EXPECT_NEAR(ratio(scaled, kMachine, prompt(500)), 1, 1e-6);
}

TEST(StepTimesFitTest, InProportionAllStepsTakeWhatTheyTook) {
  auto steps = measured_by(kMachine, 0, 200);
  // Of every fifth step twice the time: a median does not see it, the sum does.
  double share = 0;
  double all = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    all += to_seconds(steps[i].time);
    if (i % 5 == 0) share += to_seconds(steps[i].time);
    if (i % 5 == 0) steps[i].time *= 2;
  }
  const StepTimes scaled = in_proportion(kMachine, steps);
  EXPECT_NEAR(ratio(scaled, kMachine, rows(4, 100)), 1 + share / all, 1e-3);
  EXPECT_TRUE(in_proportion(kMachine, {}).factors.empty());
}

}  // namespace
}  // namespace quire
