#include "draft/governor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "draft/row_times.h"

namespace quire {
namespace {

// Requests whose drafts are right with probability `right` each, on a machine where one more row
// costs `row` of a step.
struct World {
  double right = 0;
  double row = 0;
  std::int64_t num_requests = 1;
  std::int32_t num_tokens = 8;
  // Of computing one guess for each request, in steps; none: guesses are looked up, and known to be
  // right or not even where they were not chosen.
  std::optional<double> guess = std::nullopt;
};

struct Outcome {
  double tokens = 0;
  double time = 0;
  double drafts = 0;  // of a request and step, over the last half
};

// Tells `observe(place, right)` of a draft of so many tokens, of which the first so many were
// right.
template <typename Observe>
void tell(std::int32_t num_right, std::int32_t num_tokens, const Observe& observe) {
  for (std::int32_t place = 0; place < std::min(num_tokens, num_right + 1); ++place) {
    observe(static_cast<std::size_t>(place), place < num_right);
  }
}

double step_time(const World& world, std::int64_t rows) {
  return 1 + world.row * static_cast<double>(rows - 1);
}

// `fixed`: so many drafts in each step, without the governor.
Outcome run(const World& world, int num_steps, std::int32_t fixed = -1) {
  Governor governor;
  std::vector<Acceptance> acceptances(static_cast<std::size_t>(world.num_requests),
                                      Acceptance(0.95));
  const auto time_of = [&](std::int64_t rows) { return step_time(world, rows); };
  Outcome outcome;
  std::uint64_t counter = 0;
  for (int step = 0; step < num_steps; ++step) {
    std::vector<DraftOffer> offers;
    for (const Acceptance& acceptance : acceptances) {
      offers.push_back({.acceptance = &acceptance, .match = 8, .num_tokens = world.num_tokens});
    }
    if (fixed < 0) {
      governor.choose(offers, world.num_requests, time_of, world.guess);
    } else {
      for (DraftOffer& offer : offers) offer.num_chosen = fixed;
    }
    std::int64_t num_drafts = 0;
    std::int64_t num_accepted = 0;
    std::int32_t longest = 0;
    for (std::size_t i = 0; i < offers.size(); ++i) {
      std::int32_t num_right = 0;
      while (num_right < world.num_tokens && random_uniform(17, counter++) < world.right) {
        ++num_right;
      }
      num_drafts += offers[i].num_chosen;
      num_accepted += std::min(num_right, offers[i].num_chosen);
      longest = std::max(longest, offers[i].num_chosen);
      const std::int32_t num_known = world.guess ? offers[i].num_chosen : world.num_tokens;
      tell(num_right, num_known, [&](std::size_t place, bool right) {
        acceptances[i].observe(Acceptance::class_of(8), place, right);
        governor.observe(8, place, right);
      });
    }
    const double guessing = world.guess.value_or(0) * longest;
    if (fixed < 0) {
      governor.account(world.num_requests, num_drafts, num_accepted, time_of, guessing);
    }
    outcome.tokens += static_cast<double>(world.num_requests + num_accepted);
    outcome.time += time_of(world.num_requests + num_drafts) + guessing;
    if (2 * step >= num_steps) {
      outcome.drafts += 2.0 * static_cast<double>(num_drafts) /
                        static_cast<double>(world.num_requests * num_steps);
    }
  }
  return outcome;
}

double rate(const Outcome& outcome) { return outcome.tokens / outcome.time; }

// A text of one request, of which a step's first guess is right with one probability, and each
// further one with another.
struct Text {
  std::int32_t num_tokens = 0;
  double first = 0;
  double further = 0;
  std::int32_t first_match = 8;
  std::int32_t match = 8;  // after it
};

// `fixed`: so many drafts in each step, or as many as the governor says. `counter`: of the random
// numbers that were drawn.
Outcome decode(const Text& text, const World& world, std::optional<std::int32_t> fixed,
               Governor& governor, std::uint64_t& counter) {
  const auto time_of = [&](std::int64_t rows) { return step_time(world, rows); };
  Acceptance acceptance(0.95);
  RequestOdds odds;
  Outcome outcome;
  for (std::int32_t at = 0; at < text.num_tokens;) {
    DraftOffer offer = {.acceptance = &acceptance,
                        .match = at == 0 ? text.first_match : text.match,
                        .num_tokens = std::min(world.num_tokens, text.num_tokens - at - 1),
                        .odds = world.guess ? nullptr : &odds};
    if (fixed) {
      offer.num_chosen = std::min(*fixed, offer.num_tokens);
    } else {
      governor.choose({&offer, 1}, 1, time_of, world.guess);
    }
    const std::int32_t known = world.guess ? offer.num_chosen : offer.num_tokens;
    std::int32_t right = 0;
    while (right < known &&
           random_uniform(17, counter++) < (right == 0 ? text.first : text.further)) {
      ++right;
    }
    tell(right, known, [&](std::size_t place, bool is_right) {
      acceptance.observe(Acceptance::class_of(offer.match), place, is_right);
      governor.observe_found(odds, offer.match, place, is_right, Acceptance::kOnly);
      governor.observe(offer.match, place, is_right);
    });
    const std::int32_t accepted = std::min(right, offer.num_chosen);
    const double guessing = world.guess.value_or(0) * offer.num_chosen;
    governor.account(1, offer.num_chosen, accepted, time_of, guessing);
    outcome.tokens += 1 + accepted;
    outcome.time += time_of(1 + offer.num_chosen) + guessing;
    at += 1 + accepted;
  }
  return outcome;
}

TEST(Governor, IsCloseToTheBestFixedLengthAndNeverBelowNone) {
  for (const double right : {0.0, 0.1, 0.3, 0.6, 0.8, 0.95}) {
    for (const double row : {0.0, 0.02, 0.1, 0.3, 0.6, 1.0}) {
      for (const std::int64_t num_requests : {1, 4, 16}) {
        const World world = {.right = right, .row = row, .num_requests = num_requests};
        double best = 0;
        for (std::int32_t fixed = 0; fixed <= world.num_tokens; ++fixed) {
          best = std::max(best, rate(run(world, 2000, fixed)));
        }
        const double plain = rate(run(world, 2000, 0));
        const double own = rate(run(world, 2000));
        EXPECT_GE(own, 0.95 * best) << right << " " << row << " " << num_requests;
        EXPECT_GE(own, 0.98 * plain) << right << " " << row << " " << num_requests;
      }
    }
  }
}

TEST(Governor, CountsTheTimeOfGuessesThatAreComputed) {
  for (const double right : {0.0, 0.3, 0.6, 0.9}) {
    for (const double guess : {0.05, 0.2, 0.6, 1.0}) {
      for (const std::int64_t num_requests : {1, 4, 16}) {
        const World world = {
            .right = right, .row = 0.05, .num_requests = num_requests, .guess = guess};
        double best = 0;
        for (std::int32_t fixed = 0; fixed <= world.num_tokens; ++fixed) {
          best = std::max(best, rate(run(world, 2000, fixed)));
        }
        const double own = rate(run(world, 2000));
        // What is not guessed is not learned, so that looking costs a little more than above.
        EXPECT_GE(own, 0.94 * best) << right << " " << guess << " " << num_requests;
        EXPECT_GE(own, 0.98 * rate(run(world, 2000, 0))) << right << " " << guess;
      }
    }
  }
}

TEST(Governor, DraftsNothingWhereItCannotPayAndAllWhereItIsFree) {
  EXPECT_LT(run({.right = 0.1, .row = 1.0}, 1000).drafts, 0.05);
  EXPECT_GT(run({.right = 0.9, .row = 0.001}, 1000).drafts, 7);
}

// Texts of one length one after the other, each of which is one of three kinds: nothing of what is
// guessed is right, or a step's first guess in two thirds and each further one in 0.95 of the
// cases, or all is. What a text teaches about itself costs a short one more.
TEST(Governor, ATextGetsWhatItIsWorthWhateverOthersWere) {
  struct Kind {
    double first;
    double further;
  };
  constexpr std::array<Kind, 3> kKinds = {{{0, 0}, {2.0 / 3, 0.95}, {1, 1}}};
  struct Case {
    double row;
    std::optional<double> guess;
    std::int32_t tokens;
    std::array<double, 3> least;  // by kind, of the best fixed number of guesses
  };
  for (const Case& texts :
       {Case{0.27, std::nullopt, 200, {0.98, 0.95, 0.95}}, Case{0.27, 0.1, 200, {0.98, 0.95, 0.95}},
        Case{0.27, std::nullopt, 48, {0.98, 0.95, 0.95}}, Case{0.27, 0.1, 48, {0.97, 0.94, 0.95}},
        Case{0.09, 0.01, 200, {0.98, 0.95, 0.95}}, Case{0.09, 0.01, 48, {0.97, 0.95, 0.95}}}) {
    const World world = {.row = texts.row, .guess = texts.guess};
    // Tokens a step of plain decoding would take, of each kind; `fixed`: drafts, or the governor.
    const auto rates = [&](std::optional<std::int32_t> fixed) {
      Governor governor;
      std::array<Outcome, kKinds.size()> outcomes;
      std::uint64_t counter = 0;
      for (std::uint64_t text = 0; text < 600; ++text) {
        const auto which = static_cast<std::size_t>(random_uniform(5, text) * 3);
        const Outcome outcome = decode({.num_tokens = texts.tokens,
                                        .first = kKinds[which].first,
                                        .further = kKinds[which].further},
                                       world, fixed, governor, counter);
        outcomes[which].tokens += outcome.tokens;
        outcomes[which].time += outcome.time;
      }
      std::array<double, kKinds.size()> all{};
      std::ranges::transform(outcomes, all.begin(), rate);
      return all;
    };
    std::array<double, kKinds.size()> best{};
    for (std::int32_t fixed = 0; fixed <= 8; ++fixed) {
      const auto of_fixed = rates(fixed);
      for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::max(best[i], of_fixed[i]);
    }
    const auto own = rates(std::nullopt);
    for (std::size_t i = 0; i < best.size(); ++i) {
      EXPECT_GE(own[i], texts.least[i] * best[i])
          << i << ", " << texts.tokens << " tokens, a row " << texts.row << ", a guess "
          << texts.guess.value_or(0);
    }
  }
}

// Random digits after texts that repeat themselves: a few of them have always been there before,
// and what followed is right one time in ten.
TEST(Governor, WhatRepeatedTextsWonIsNotSpentOnAShortMatch) {
  const World world = {.row = 0.17};
  const Text repeated = {.num_tokens = 96, .first = 1, .further = 1, .first_match = 2};
  const Text random = {
      .num_tokens = 96, .first = 0.1, .further = 0.1, .first_match = 2, .match = 2};
  Outcome first;  // of a number of servers
  Outcome later;
  for (std::uint64_t server = 0; server < 40; ++server) {
    Governor governor;
    std::uint64_t counter = server << 32;
    const auto add = [&](const Text& text, Outcome& sum) {
      const Outcome outcome = decode(text, world, std::nullopt, governor, counter);
      sum.tokens += outcome.tokens;
      sum.time += outcome.time;
    };
    Outcome before;
    for (int text = 0; text < 20; ++text) add(repeated, before);
    EXPECT_GE(rate(before), 3.5);  // of 3.77
    add(random, first);
    for (int text = 0; text < 10; ++text) add(random, later);
  }
  EXPECT_GE(rate(first), 0.985);
  EXPECT_GE(rate(later), 0.98);
}

// What others got says eight, and so does a long match of its own.
TEST(Governor, AFewTokensAreTrustedNoFurtherWhereFirstGuessesWereMostlyWrong) {
  Governor governor;
  for (int i = 0; i < 200; ++i) {
    for (const std::int32_t match : {8, 20}) {
      tell(8, 8, [&](std::size_t place, bool right) { governor.observe(match, place, right); });
    }
  }
  const auto chosen = [&](const Acceptance& own, std::int32_t match) {
    DraftOffer offer = {.acceptance = &own, .match = match, .num_tokens = 8};
    governor.choose({&offer, 1}, 1,
                    [](std::int64_t rows) { return 1 + 0.05 * static_cast<double>(rows); });
    return offer.num_chosen;
  };
  Acceptance own(0.95);
  EXPECT_EQ(chosen(own, 8), 8);
  for (int i = 0; i < 6; ++i) own.observe(Acceptance::class_of(2), 0, false);
  EXPECT_TRUE(own.mostly_wrong());
  EXPECT_EQ(chosen(own, 8), 1);
  EXPECT_EQ(chosen(own, 20), 8);
  own.observe(Acceptance::class_of(8), 0, true);
  EXPECT_EQ(own.num_right_since_wrong(), 1);
  EXPECT_EQ(chosen(own, 8), 3);
  for (int i = 0; i < 6; ++i) own.observe(Acceptance::class_of(2), 0, true);
  EXPECT_FALSE(own.mostly_wrong());
  EXPECT_EQ(chosen(own, 8), 8);
}

// Of requests whose text nothing is known of; others' guesses were all right.
TEST(Governor, FirstGuessesThatAreComputedTakeTwoFifthsOfAStepOrAreOne) {
  Governor governor;
  for (int i = 0; i < 200; ++i) {
    tell(8, 8, [&](std::size_t place, bool right) { governor.observe(0, place, right); });
  }
  const auto chosen = [&](double row, double guess, std::span<const Acceptance> own) {
    std::vector<DraftOffer> offers;
    for (const Acceptance& acceptance : own) {
      offers.push_back({.acceptance = &acceptance, .num_tokens = 8});
    }
    const World world = {.row = row};
    governor.choose(
        offers, std::ssize(offers), [&](std::int64_t rows) { return step_time(world, rows); },
        guess);
    std::vector<std::int32_t> counts;
    for (const DraftOffer& offer : offers) counts.push_back(offer.num_chosen);
    return counts;
  };
  std::vector<Acceptance> own(1, Acceptance(0.95));
  EXPECT_THAT(chosen(0.02, 0.02, own), ::testing::ElementsAre(8));
  EXPECT_THAT(chosen(0.1, 0.02, own), ::testing::ElementsAre(3));
  EXPECT_THAT(chosen(0.27, 0.1, own), ::testing::ElementsAre(1));
  own.emplace_back(0.95);  // the price is for both
  EXPECT_THAT(chosen(0.07, 0.01, own), ::testing::ElementsAre(2, 2));
  own[0].observe(0, 0, true);
  EXPECT_THAT(chosen(0.07, 0.01, own), ::testing::ElementsAre(3, 5));
  own[0].observe(0, 0, false);
  own[1].observe(0, 0, false);
  EXPECT_THAT(chosen(0.07, 0.01, own), ::testing::ElementsAre(3, 1));
}

// A text that could be looked up, then one that cannot: what is drafted in vain meanwhile is
// little.
TEST(Governor, TheAccountBoundsWhatWrongEstimatesCost) {
  Governor governor;
  Acceptance acceptance(0.95);
  for (int i = 0; i < 1000; ++i) {
    tell(8, 8, [&](std::size_t place, bool right) {
      acceptance.observe(1, place, right);
      governor.observe(8, place, right);
    });
  }
  const auto time_of = [](std::int64_t rows) { return static_cast<double>(rows); };
  double lost = 0;
  for (int step = 0; step < 1000; ++step) {
    // Nobody learns that all of it is wrong now, and rows cost as much as steps.
    DraftOffer offer = {.acceptance = &acceptance, .match = 8, .num_tokens = 8};
    governor.choose({&offer, 1}, 1,
                    [](std::int64_t rows) { return 1 + 0.1 * static_cast<double>(rows); });
    lost += offer.num_chosen;
    governor.account(1, offer.num_chosen, 0, time_of);
  }
  EXPECT_GT(lost, 0);
  EXPECT_LE(lost, Governor::kFirstSaved * 1.1 + 0.011 * 1000 + 2 * 8);
}

// Else nobody would know any more what a step takes without drafts.
TEST(Governor, OfStepsInARowThatHaveDraftsOneHasNone) {
  Governor governor;
  const Acceptance acceptance(0.95);
  std::vector<std::int32_t> plain;
  for (std::int32_t step = 0; step < 1000; ++step) {
    governor.observe(8, 0, true);
    DraftOffer offer = {.acceptance = &acceptance, .match = 8, .num_tokens = 1};
    governor.choose({&offer, 1}, 1,
                    [](std::int64_t rows) { return 1 + 0.1 * static_cast<double>(rows); });
    if (offer.num_chosen == 0) plain.push_back(step);
  }
  ASSERT_EQ(plain.size(), 1000 / (Governor::kPlainEvery + 1));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i] + 1, static_cast<std::int32_t>(i + 1) * (Governor::kPlainEvery + 1));
  }
}

// First choices are right in half of the steps, second ones as often or never; a row costs a fifth.
TEST(Governor, SecondChoicesAreTakenWhereTheyAreOftenRight) {
  const std::vector<std::int32_t> parents = {-1, 0, -1, 2, 0};
  for (const bool often : {false, true}) {
    Governor governor;
    Acceptance acceptance(0.99);
    for (int i = 0; i < 400; ++i) {
      const auto observe = [&](std::size_t place, bool right, std::size_t rank) {
        acceptance.observe(1, place, right, rank);
        governor.observe(8, place, right, rank);
      };
      const bool first = i % 2 == 0;
      observe(0, first, 1);
      observe(0, often && !first, 2);
      if (first) {
        observe(1, i % 20 < 2, 1);
        observe(1, false, 2);
      } else if (often) {
        observe(1, i % 20 < 2, Acceptance::kOnly);
      }
    }
    DraftOffer offer = {.acceptance = &acceptance, .match = 8, .num_tokens = 5, .parents = parents};
    governor.choose({&offer, 1}, 1,
                    [](std::int64_t rows) { return 0.8 + 0.2 * static_cast<double>(rows); });
    EXPECT_EQ(offer.num_chosen, often ? 2 : 1);
    EXPECT_EQ(offer.chosen, often ? 0b101U : 0b1U);
  }
}

TEST(Acceptance, CountsByPlaceAndKindOfMatch) {
  Acceptance acceptance(1.0);
  const std::size_t kind = Acceptance::class_of(20);
  for (int i = 0; i < 1000; ++i) {
    tell(i % 2 == 0 ? 1 : 3, 3,
         [&](std::size_t place, bool right) { acceptance.observe(kind, place, right); });
  }
  EXPECT_NEAR(acceptance.probability(kind, 0, 0.5), 1.0, 0.01);
  EXPECT_NEAR(acceptance.probability(kind, 1, 0.5), 0.5, 0.01);
  EXPECT_NEAR(acceptance.probability(kind, 2, 0.5), 1.0, 0.01);
  EXPECT_EQ(acceptance.probability(kind, 3, 0.25), 0.25);  // nothing seen
  EXPECT_EQ(acceptance.probability(Acceptance::class_of(2), 0, 0.25), 0.25);
  EXPECT_EQ(Acceptance::class_of(3), 0U);
  EXPECT_EQ(Acceptance::class_of(4), 1U);
  EXPECT_EQ(Acceptance::class_of(12), 2U);
}

TEST(Acceptance, WhatIsOldCountsLess) {
  Acceptance acceptance(0.9);
  for (int i = 0; i < 100; ++i) acceptance.observe(0, 0, true);
  EXPECT_GT(acceptance.probability(0, 0, 0.5), 0.9);
  for (int i = 0; i < 50; ++i) acceptance.observe(0, 0, false);
  EXPECT_LT(acceptance.probability(0, 0, 0.5), 0.1);
}

TEST(RowTimes, KnowsWhatWasSeenAndInterpolates) {
  RowTimes times;
  EXPECT_EQ(times.ratio(5), 1);
  times.observe(1, 10, 10);
  EXPECT_DOUBLE_EQ(times.ratio(9), 1);
  times.observe(5, 10, 20);
  EXPECT_DOUBLE_EQ(times.ratio(5), 2);
  EXPECT_DOUBLE_EQ(times.ratio(3), 1.5);
  EXPECT_DOUBLE_EQ(times.ratio(50), 2);
  for (int i = 0; i < 200; ++i) times.observe(5, 10, 10);
  EXPECT_NEAR(times.ratio(5), 1, 0.02);
  times.observe(5, 10, 10'000);  // one that lost its CPUs
  EXPECT_LT(times.ratio(5), 1.05);
  times.observe(9, 10, 50);
  EXPECT_DOUBLE_EQ(times.ratio(9), 5);
  for (int i = 0; i < 300; ++i) times.observe(1, 10, 10);
  EXPECT_LT(times.ratio(9), 1.05);  // seen once, and long ago
  EXPECT_LT(times.ratio(5), 1.05);
}

}  // namespace
}  // namespace quire
