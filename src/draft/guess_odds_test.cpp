#include "draft/guess_odds.h"

#include <gtest/gtest.h>

#include "draft/guess_prospect.h"

namespace quire {
namespace {

TEST(GuessOdds, AreWhatTheDrafterSaysUntilMeasured) {
  GuessOdds odds;
  const auto right = [&](std::size_t place, float probability) {
    return odds.right()[place][GuessOdds::class_of(probability)];
  };
  EXPECT_NEAR(right(0, 0.1F), 0.15, 0.01);
  EXPECT_NEAR(right(3, 0.9F), 0.9, 0.01);
  EXPECT_NEAR(right(7, 0.99F), 0.98, 0.01);
  for (int i = 0; i < 1000; ++i) odds.observe(1, 0.9F, i % 2 == 0);
  EXPECT_NEAR(right(1, 0.86F), 0.5, 0.01);
  EXPECT_NEAR(right(2, 0.86F), 0.5, 0.01);  // as at the place before
  EXPECT_NEAR(right(0, 0.86F), 0.9, 0.01);
  EXPECT_NEAR(right(1, 0.84F), 0.78, 0.01);
  EXPECT_GT(odds.shares()[GuessOdds::class_of(0.9F)], 0.98);
}

TEST(RequestOdds, AWrongGuessOfWhichItsDrafterWasSureSaysMore) {
  const RequestOdds none;
  RequestOdds sure;
  RequestOdds unsure;
  for (int i = 0; i < 3; ++i) {
    sure.observe(0.97F, 0.97, false);
    unsure.observe(0.4F, 0.4, false);
  }
  EXPECT_NEAR(none.right(0.9), 0.83, 0.01);
  EXPECT_LT(sure.right(0.9), 0.3);
  EXPECT_GT(unsure.right(0.9), 0.65);
  for (int i = 0; i < 100; ++i) sure.observe(0.97F, 0.97, true);
  EXPECT_GT(sure.right(0.9), 0.9);
  EXPECT_LE(sure.right(1), 0.99);
}

TEST(RequestOdds, SharesBeginAsThoseOfAll) {
  const GuessOdds::ByClass all = {0.5, 0, 0, 0, 0, 0.5};
  RequestOdds odds;
  EXPECT_EQ(odds.shares(all), all);
  for (int i = 0; i < 50; ++i) odds.observe(0.1F, 0.1, false);
  const GuessOdds::ByClass own = odds.shares(all);
  EXPECT_GT(own.front(), 0.9);
  EXPECT_NEAR(own.front() + own.back(), 1, 1e-9);
}

// A step of 10, of which a row more takes 2, and a guess for each request 1.
GuessProspect prospect(double share_of_sure) {
  GuessProspect prospect = {.num_rows = 1, .plain_time = 10, .row_time = 2, .guess_time = 1};
  prospect.shares.front() = 1 - share_of_sure;
  prospect.shares.back() = share_of_sure;
  for (GuessOdds::ByClass& right : prospect.right) right = {0.1, 0, 0, 0, 0, 0.9};
  return prospect;
}

TEST(GuessProspect, OnlyGuessesThatWillBeCheckedSaveTime) {
  EXPECT_NEAR(prospect(1).saved(0, 1, 1), 7, 1e-9);  // 0.9 of a step, less a row
  EXPECT_NEAR(prospect(0.5).saved(0, 1, 1), 3.5, 1e-9);
  EXPECT_NEAR(prospect(0.5).saved(0, 0.5, 1), 1.25, 1e-9);
  EXPECT_NEAR(prospect(0.5).saved(0, 1, 2), 1.25, 1e-9);  // a token takes 5
  EXPECT_EQ(prospect(0).saved(0, 1, 1), 0);
}

TEST(GuessRound, GoesOnFromSureGuesses) {
  const GuessProspect each = prospect(0.9);
  GuessRound round;
  GuessChain sure = {.prospect = &each};
  GuessChain unsure = {.prospect = &each};
  GuessChain wanted;
  round.begin_guess();
  round.add(sure, 0.99F);
  round.add(unsure, 0.05F);
  round.add(wanted, 0.05F);
  EXPECT_NEAR(sure.chance, 0.9, 1e-9);
  EXPECT_NEAR(unsure.chance, 0.1, 1e-9);
  EXPECT_GT(round.saved(sure), each.guess_time);
  EXPECT_EQ(round.saved(unsure), 0);
  EXPECT_GT(round.saved(wanted), 1e9);
}

}  // namespace
}  // namespace quire
