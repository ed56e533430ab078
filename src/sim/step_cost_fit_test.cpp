#include "sim/step_cost_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload.h"

namespace quire {
namespace {

std::vector<MeasuredStep> measured_by(const StepCost& cost, double noise, std::int64_t count) {
  RandomStream random(7);
  std::vector<MeasuredStep> steps;
  for (std::int64_t i = 0; i < count; ++i) {
    MeasuredStep step;
    const std::int64_t rows = random.between(0, 16);
    for (std::int64_t row = 0; row < rows; ++row) step.work.add_row(random.between(0, 2000));
    if (rows == 0 || random.chance(0.4)) {
      step.work.add_prompt(random.between(0, 1000), random.between(2, 512));
    }
    const auto time = static_cast<double>(cost.time_of(step.work).count());
    step.time = Duration(static_cast<Duration::rep>(time * (1 + noise * (random.uniform() - 0.5))));
    steps.push_back(step);
  }
  return steps;
}

TEST(StepCostFitTest, FindsTheCostsThatMadeTheTimes) {
  const StepCost cost = {.step = 3'000'000,
                         .row = 200'000,
                         .row_keys = 50'000,
                         .prompt_token = 90'000,
                         .prompt_keys = 7'000};
  const auto exact = fit_step_cost(measured_by(cost, 0, 200));
  ASSERT_TRUE(exact.ok()) << exact.status().to_string();
  EXPECT_NEAR(static_cast<double>(exact->cost.step), 3e6, 100);
  EXPECT_NEAR(static_cast<double>(exact->cost.row), 2e5, 20);
  EXPECT_NEAR(static_cast<double>(exact->cost.row_keys), 5e4, 20);
  EXPECT_NEAR(static_cast<double>(exact->cost.prompt_token), 9e4, 20);
  EXPECT_NEAR(static_cast<double>(exact->cost.prompt_keys), 7e3, 20);
  EXPECT_LT(exact->mean_error, 1e-4);
  auto noisy = measured_by(cost, 0.2, 2000);
  for (std::size_t i = 0; i < noisy.size(); i += 5) noisy[i].time *= 2;  // something else ran
  const auto fitted = fit_step_cost(noisy);
  ASSERT_TRUE(fitted.ok());
  EXPECT_NEAR(static_cast<double>(fitted->cost.step), 3e6, 3e5);
  EXPECT_NEAR(static_cast<double>(fitted->cost.prompt_token), 9e4, 5e3);
}

TEST(StepCostFitTest, NoCostIsBelowZero) {
  // Rows that cost nothing, under noise: least squares alone would give some of them less.
  const StepCost cost = {
      .step = 5'000'000, .row = 0, .row_keys = 0, .prompt_token = 10'000, .prompt_keys = 0};
  const auto fitted = fit_step_cost(measured_by(cost, 0.3, 100));
  ASSERT_TRUE(fitted.ok());
  for (const std::int64_t each : {fitted->cost.step, fitted->cost.row, fitted->cost.row_keys,
                                  fitted->cost.prompt_token, fitted->cost.prompt_keys}) {
    EXPECT_GE(each, 0);
  }
}

TEST(StepCostFitTest, StepsThatAreAllAlikeAreRefused) {
  MeasuredStep step;
  step.work.add_row(10);
  step.time = std::chrono::milliseconds(1);
  EXPECT_EQ(fit_step_cost(std::vector<MeasuredStep>(19, step)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(fit_step_cost(std::vector<MeasuredStep>(50, step)).status().message(),
              testing::HasSubstr("too much alike"));
}

TEST(StepCostFitTest, InProportionAllStepsTakeWhatTheyTook) {
  const StepCost cost = {.step = 3'000'000, .row = 200'000, .prompt_token = 90'000};
  auto steps = measured_by(cost, 0, 200);
  // Of every fifth step twice the time: a median does not see it, the sum does.
  double share = 0;
  double all = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    all += to_seconds(steps[i].time);
    if (i % 5 == 0) share += to_seconds(steps[i].time);
    if (i % 5 == 0) steps[i].time *= 2;
  }
  const StepCost scaled = in_proportion(cost, steps);
  EXPECT_NEAR(static_cast<double>(scaled.row), 2e5 * (1 + share / all), 2);
  EXPECT_NEAR(static_cast<double>(scaled.step), 3e6 * (1 + share / all), 2);
  EXPECT_EQ(scaled.row_keys, 0);
  EXPECT_EQ(in_proportion(cost, {}), cost);
}

}  // namespace
}  // namespace quire
