#include "engine/step_pacer.h"

#include <chrono>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

using namespace std::chrono_literals;

// A machine whose steps take what its costs say, more or less.
class Machine {
 public:
  explicit Machine(const StepCost& cost, double noise = 0) : cost_(cost), noise_(noise) {}
  Duration time_of(const StepWork& work) {
    const double factor = 1 + noise_ * (2 * random_uniform(1, counter_++) - 1);
    return Duration(
        static_cast<std::int64_t>(static_cast<double>(cost_.time_of(work).count()) * factor));
  }

 private:
  StepCost cost_;
  double noise_;
  std::uint64_t counter_ = 0;
};

constexpr StepCost kCost = {.step = 4'000'000,
                            .row = 1'500'000,
                            .row_keys = 2'000'000,
                            .prompt_token = 1'400'000,
                            .prompt_keys = 600'000};

StepWork rows_of(std::int64_t count, std::int64_t keys) {
  StepWork work;
  for (std::int64_t i = 0; i < count; ++i) work.add_row(keys - 1);
  return work;
}

StepWork mixed(std::int64_t rows, std::int64_t computed, std::int64_t tokens) {
  StepWork work = rows_of(rows, 200);
  work.add_prompt(computed, tokens);
  return work;
}

double relative(Duration value, Duration expected) {
  return std::abs(static_cast<double>(value.count()) / static_cast<double>(expected.count()) - 1);
}

TEST(StepPacer, StartsWithFewPromptTokensAndDoublesThem) {
  StepPacer pacer(100ms);
  EXPECT_NEAR(static_cast<double>(pacer.pace().max_step.count()), 100e6 / 1.2, 6e6);
  EXPECT_EQ(pacer.pace().max_prompt_tokens, 64);
  Machine machine(kCost);
  for (const std::int32_t tokens : {64, 128, 256}) {
    EXPECT_EQ(pacer.pace().max_prompt_tokens, tokens);
    const StepWork work = mixed(0, 0, tokens);
    pacer.measured(work, machine.time_of(work));
  }
}

// After one step of a prompt the next is not thought to be much cheaper than it is.
TEST(StepPacer, IsCarefulAtFirst) {
  StepPacer pacer(100ms);
  Machine machine(kCost);
  pacer.measured(mixed(0, 0, 64), machine.time_of(mixed(0, 0, 64)));
  const StepWork next = mixed(1, 0, 64);
  EXPECT_GT(pacer.pace().cost.time_of(next), kCost.time_of(next) * 6 / 10);
}

TEST(StepPacer, LearnsWhatStepsTake) {
  StepPacer pacer(100ms);
  Machine machine(kCost, 0.05);
  const auto run = [&](const StepWork& work) { pacer.measured(work, machine.time_of(work)); };
  for (int i = 0; i < 8; ++i) run(mixed(0, 0, 64 << std::min(i, 3)));
  for (int i = 1; i <= 60; ++i) run(mixed(i % 16, std::int64_t{10} * i, 16 + 3 * (i % 20)));
  for (int i = 1; i <= 60; ++i) run(rows_of(16, 128 + 10 * i));
  const StepCost cost = pacer.pace().cost;
  for (const StepWork& work : {rows_of(1, 100), rows_of(16, 400), mixed(8, 100, 32),
                               mixed(0, 0, 128), mixed(15, 300, 64)}) {
    const Duration error = cost.time_of(work) - kCost.time_of(work);
    EXPECT_LT(std::chrono::abs(error), 3ms + kCost.time_of(work) / 5)
        << cost.time_of(work).count() << " for " << kCost.time_of(work).count();
  }
}

// Many steps without prompts do not wipe out what is known of them.
TEST(StepPacer, ForgetsNothingThatItDoesNotSee) {
  StepPacer pacer(100ms);
  Machine machine(kCost, 0.05);
  const auto run = [&](const StepWork& work) { pacer.measured(work, machine.time_of(work)); };
  for (int i = 1; i <= 50; ++i) run(mixed(i % 8, std::int64_t{10} * i, 16 + 3 * (i % 20)));
  for (int i = 1; i <= 2000; ++i) run(rows_of(4, 100 + i % 1000));
  const StepWork work = mixed(4, 100, 64);
  EXPECT_LT(relative(pacer.pace().cost.time_of(work), kCost.time_of(work)), 0.25);
}

TEST(StepPacer, OneStepThatTookVeryLongHardlyMatters) {
  StepPacer pacer(100ms);
  Machine machine(kCost);
  const auto run = [&](const StepWork& work) { pacer.measured(work, machine.time_of(work)); };
  for (int i = 1; i <= 50; ++i) run(mixed(i % 8, std::int64_t{10} * i, 16 + 3 * (i % 20)));
  pacer.measured(mixed(4, 100, 32), 100 * kCost.time_of(mixed(4, 100, 32)));
  const StepWork work = mixed(4, 100, 64);
  EXPECT_LT(relative(pacer.pace().cost.time_of(work), kCost.time_of(work)), 0.5);
}

TEST(StepPacer, FollowsAMachineThatBecomesSlower) {
  StepPacer pacer(100ms);
  StepCost slow = kCost;
  for (std::int64_t* each :
       {&slow.step, &slow.row, &slow.row_keys, &slow.prompt_token, &slow.prompt_keys}) {
    *each *= 4;
  }
  Machine machine(kCost);
  Machine slower(slow);
  for (int i = 1; i <= 50; ++i) {
    const StepWork work = mixed(i % 8, 37 * i % 500, 16 + 3 * (i % 20));
    pacer.measured(work, machine.time_of(work));
  }
  for (int i = 1; i <= 200; ++i) {
    const StepWork work = mixed(i % 8, 37 * i % 500, 16 + 3 * (i % 20));
    pacer.measured(work, slower.time_of(work));
  }
  const StepWork work = mixed(4, 100, 64);
  EXPECT_LT(relative(pacer.pace().cost.time_of(work), slow.time_of(work)), 0.3);
}

// The more steps vary, the further it stays away from the limit.
TEST(StepPacer, KeepsAMarginOfTheErrors) {
  const auto limit_with = [](double noise) {
    StepPacer pacer(100ms);
    Machine machine(kCost, noise);
    for (int i = 1; i <= 200; ++i) {
      const StepWork work = mixed(i % 16, 37 * i % 500, 16 + 3 * (i % 20));
      pacer.measured(work, machine.time_of(work));
    }
    return static_cast<double>(pacer.pace().max_step.count()) / 100e6;
  };
  EXPECT_GT(limit_with(0), 0.9);
  EXPECT_LE(limit_with(0), 1.0);
  EXPECT_LT(limit_with(0.3), 0.85);
  EXPECT_GT(limit_with(0.3), 0.5);
}

TEST(StepPacer, ByItselfTwelveTimesARowAtLeast100MillisecondsAndTwiceTheRows) {
  const auto limit_of = [](const StepCost& cost, std::int64_t rows) {
    StepPacer pacer(std::nullopt);
    for (int i = 0; i < 200; ++i) {
      const StepWork work = i % 4 == 0 ? mixed(1, 0, 32) : rows_of(1 + i % 2, 100);
      pacer.measured(work, cost.time_of(work));
    }
    pacer.measured(rows_of(rows, 100), cost.time_of(rows_of(rows, 100)));
    return static_cast<double>(pacer.pace().max_step.count()) / 1e6;
  };
  const auto cost = [](std::int64_t step, std::int64_t token) {
    return StepCost{.step = step, .row = token, .prompt_token = token};
  };
  EXPECT_NEAR(limit_of(cost(1'000'000, 500'000), 1), 100, 8);
  EXPECT_NEAR(limit_of(cost(60'000'000, 12'000'000), 1), 864, 90);
  EXPECT_NEAR(limit_of(cost(1'000'000, 1'000'000), 99), 200, 30);
}

// All rows see about as many keys, as in a burst: what keys take must not be made up, or one row
// would be thought to take hardly anything.
TEST(StepPacer, TellsWhatOneRowTakesFromStepsOfABurst) {
  constexpr StepCost kBurst = {.step = 22'000'000,
                               .row = 8'800'000,
                               .row_keys = 1'100'000,
                               .prompt_token = 8'300'000,
                               .prompt_keys = 800'000};
  StepPacer pacer(std::nullopt);
  Machine machine(kBurst, 0.08);
  const auto run = [&](const StepWork& work) { pacer.measured(work, machine.time_of(work)); };
  for (int i = 0; i < 16; ++i) run(mixed(0, 0, 128));
  for (int i = 0; i < 120; ++i) run(mixed(1 + i / 8, std::int64_t{32} * (i % 4), 32 - i / 8));
  for (const StepWork& work : {rows_of(1, 150), rows_of(8, 150), mixed(8, 64, 32)}) {
    EXPECT_LT(relative(pacer.pace().cost.time_of(work), kBurst.time_of(work)), 0.25);
  }
}

// A step that computes nothing only lets requests go; it says nothing of what steps cost.
TEST(StepPacer, LearnsNothingFromStepsWithoutTokens) {
  StepPacer pacer(100ms);
  for (int i = 0; i < 20; ++i) pacer.measured(mixed(1, 0, 32), kCost.time_of(mixed(1, 0, 32)));
  const StepPace before = pacer.pace();
  for (int i = 0; i < 20; ++i) pacer.measured({}, 4us);
  EXPECT_EQ(pacer.pace(), before);
}

TEST(StepPacer, KnowsCostsWithoutALimit) {
  StepPacer pacer(Duration::zero());
  EXPECT_EQ(pacer.pace().cost, StepCost{});
  for (int i = 0; i < 20; ++i) pacer.measured(mixed(1, 0, 32), kCost.time_of(mixed(1, 0, 32)));
  EXPECT_FALSE(pacer.pace().limited());
  EXPECT_GT(pacer.pace().cost.prompt_token, 0);
}

// The mean for each block, in which late fetches weigh more; and after many steps nothing.
TEST(StepPacer, KnowsWhatFetchesOfLateTook) {
  StepPacer pacer(std::nullopt);
  const auto fetch = [&](std::int32_t num_blocks, Duration time) {
    const TierReport::Fetched fetched[] = {{1, num_blocks, time}};
    pacer.fetched(fetched);
    return pacer.pace().block_fetch;
  };
  EXPECT_EQ(pacer.pace().block_fetch, Duration::zero());
  EXPECT_EQ(fetch(0, 5ms), Duration::zero()) << "nothing has come";
  EXPECT_LT(relative(fetch(10, 1ms), 100us), 0.05);
  EXPECT_LT(relative(fetch(10, 3ms), 211us), 0.05);
  for (int i = 0; i < 20; ++i) fetch(4, 2ms);
  EXPECT_LT(relative(pacer.pace().block_fetch, 500us), 0.05);
  EXPECT_TRUE(pacer.pace().validate().ok());
  for (int i = 0; i < 999; ++i) pacer.measured(rows_of(1, 100), 1ms);
  EXPECT_GT(pacer.pace().block_fetch, Duration::zero());
  pacer.measured(rows_of(1, 100), 1ms);
  EXPECT_EQ(pacer.pace().block_fetch, Duration::zero());
}

TEST(StepPacer, PacesAreAlwaysValid) {
  for (const Duration time : {1ns, Duration(1h), Duration(100h)}) {
    StepPacer pacer(std::nullopt);
    for (int i = 0; i < 100; ++i) {
      pacer.measured(i % 3 == 0 ? mixed(3, 1 << 20, 1 << 18) : rows_of(1 + i % 5, 1 << 20), time);
      ASSERT_TRUE(pacer.pace().validate().ok());
    }
  }
}

}  // namespace
}  // namespace quire
