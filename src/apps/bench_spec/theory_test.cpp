#include "apps/bench_spec/theory.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

TEST(SpecTheory, FindsWhatGuessesWereMadeWith) {
  for (const double acceptance : {0.3, 0.8, 1.0}) {
    for (const std::int32_t guesses : {1, 4, 8}) {
      SpecOutcome outcome;
      outcome.setting = guesses;
      outcome.accepted_at.assign(static_cast<std::size_t>(guesses), 0);
      outcome.num_tokens = 1;
      std::uint64_t counter = 0;
      for (int step = 0; step < 20'000; ++step, ++outcome.num_tokens) {
        if (step % 2 == 0) continue;  // half of the steps have none
        ++outcome.num_drafted;
        outcome.num_drafts += guesses;
        for (std::int32_t i = 0; i < guesses && random_uniform(3, counter++) < acceptance; ++i) {
          ++outcome.accepted_at[static_cast<std::size_t>(i)];
          ++outcome.num_accepted;
          ++outcome.num_tokens;
        }
      }
      const auto theory = SpecTheory::of(outcome);
      ASSERT_TRUE(theory);
      EXPECT_NEAR(theory->acceptance, acceptance, 0.01);
      EXPECT_DOUBLE_EQ(theory->guessing_share, 0.5);
      EXPECT_NEAR(theory->block_efficiency(guesses), outcome.block_efficiency(), 0.06);
      // One more row costs a tenth: the tokens of two steps over their time.
      const RowCosts costs = {.seconds = {2.0}, .row = 0.1};
      EXPECT_NEAR(*theory->speedup(guesses, costs),
                  (1 + outcome.block_efficiency()) / (2 + 0.1 * guesses), 0.05);
    }
  }
}

TEST(SpecTheory, SaysNothingOfWhatWasNotGuessed) {
  SpecOutcome outcome;
  outcome.num_tokens = 100;
  outcome.setting = 4;
  EXPECT_FALSE(SpecTheory::of(outcome));
  outcome.num_drafted = 3;
  outcome.num_drafts = 12;
  ASSERT_TRUE(SpecTheory::of(outcome));
  EXPECT_EQ(SpecTheory::of(outcome)->acceptance, 0);
  EXPECT_FALSE(SpecTheory::of(outcome)->speedup(4, {}));
  outcome.setting = std::nullopt;  // the governor: any number
  EXPECT_FALSE(SpecTheory::of(outcome));
}

// Behind the end of a text nothing is guessed.
TEST(SpecTheory, AShortLastGuessIsNotWrong) {
  SpecOutcome outcome;
  outcome.num_tokens = 9;
  outcome.setting = 4;
  outcome.num_drafted = 2;
  outcome.num_drafts = outcome.num_accepted = 6;
  outcome.accepted_at = {2, 2, 1, 1};
  EXPECT_EQ(SpecTheory::of(outcome)->acceptance, 1);
}

TEST(SpecTheory, AddsTheTokensOfAStep) {
  EXPECT_DOUBLE_EQ(expected_tokens(0, 5), 1);
  EXPECT_DOUBLE_EQ(expected_tokens(1, 5), 6);
  EXPECT_NEAR(expected_tokens(0.8, 5), 3.69, 0.005);
}

TEST(RowCosts, AreThoseMeasuredElseByTheRow) {
  const RowCosts costs = {.seconds = {2, 0, 3}, .row = 0.3};
  EXPECT_DOUBLE_EQ(*costs.in_steps(1), 1);
  EXPECT_DOUBLE_EQ(*costs.in_steps(2), 1.3);
  EXPECT_DOUBLE_EQ(*costs.in_steps(3), 1.5);
  EXPECT_DOUBLE_EQ(*costs.in_steps(9), 3.4);
  EXPECT_FALSE(RowCosts{}.in_steps(2));
}

}  // namespace
}  // namespace quire
