// The governor with drafters that say how sure they are of their guesses.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "draft/governor.h"
#include "draft/guess_prospect.h"

namespace quire {
namespace {

// A token that a drafter guesses: how sure it is, and whether that is right.
struct Guessable {
  float probability = 0;
  bool right = false;
};
using GuessedText = std::vector<Guessable>;

// What a row more, and a guess, take of a step.
struct StepCosts {
  double row = 0;
  double guess = 0;
};

struct Decoded {
  double tokens = 0;
  double time = 0;
  double checked = 0;  // guesses
};
double rate_of(const Decoded& outcome) { return outcome.tokens / outcome.time; }

class Decoder {
 public:
  explicit Decoder(const StepCosts& costs) : costs_(costs) {}

  // Decodes a text from its start, with so many guesses in each step, or the governor's.
  Decoded decode(const GuessedText& text, std::optional<std::size_t> fixed, bool drawn = false) {
    Decoded outcome;
    RequestOdds odds(drawn);
    Acceptance acceptance(0.95);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t room = std::min<std::size_t>(kMost, text.size() - at - 1);
      std::size_t num_made = 0;
      std::size_t num_checked = 0;
      std::vector<float> probabilities;
      if (fixed) {
        num_made = num_checked = std::min(*fixed, room);
      } else {
        probabilities = guess(std::span(text).subspan(at, room + 1), odds, acceptance);
        num_made = probabilities.size();
        num_checked = choose(probabilities, odds);
      }
      std::size_t right = 0;
      while (right < num_made && text[at + right].right) ++right;
      for (std::size_t i = 0; i < std::min(num_made, right + 1) && !fixed; ++i) {
        governor_.observe(0, i, i < right);
        acceptance.observe(0, i, i < right);
        governor_.observe(odds, i, probabilities[i], i < right);
      }
      const std::size_t accepted = std::min(right, num_checked);
      const double guessing = costs_.guess * static_cast<double>(num_made);
      governor_.account(
          1, static_cast<std::int64_t>(num_checked), static_cast<std::int64_t>(accepted),
          [this](std::int64_t rows) { return time_of(rows); }, guessing);
      outcome.tokens += 1 + static_cast<double>(accepted);
      outcome.time += time_of(1 + static_cast<std::int64_t>(num_checked)) + guessing;
      outcome.checked += static_cast<double>(num_checked);
      at += 1 + accepted;
    }
    return outcome;
  }

 private:
  static constexpr std::size_t kMost = 8;

  double time_of(std::int64_t rows) const { return 1 + costs_.row * static_cast<double>(rows - 1); }

  // As a model that drafts does, for the next tokens of a text. Behind a wrong guess it goes on as
  // sure as before.
  std::vector<float> guess(std::span<const Guessable> next, const RequestOdds& odds,
                           const Acceptance& acceptance) {
    DraftOffer offer = {.acceptance = &acceptance,
                        .num_tokens = static_cast<std::int32_t>(next.size()) - 1,
                        .most = kMost,
                        .odds = &odds};
    governor_.choose(
        {&offer, 1}, 1, [this](std::int64_t rows) { return time_of(rows); }, costs_.guess);
    std::vector<float> made;
    if (offer.num_chosen == 0) return made;
    const GuessProspect prospect = governor_.prospect_of(odds, offer.num_chosen);
    GuessChain chain = {.prospect = &prospect};
    GuessRound round;
    do {
      round.begin_guess();
      made.push_back(next[made.size()].probability);
      round.add(chain, made.back());
    } while (std::ssize(made) < offer.num_chosen && round.saved(chain) > costs_.guess);
    return made;
  }

  std::size_t choose(std::span<const float> made, const RequestOdds& odds) {
    DraftOffer offer = {
        .num_tokens = static_cast<std::int32_t>(made.size()), .odds = &odds, .probabilities = made};
    governor_.choose_made(
        {&offer, 1}, 1, [this](std::int64_t rows) { return time_of(rows); },
        costs_.guess * static_cast<double>(made.size()));
    return static_cast<std::size_t>(offer.num_chosen);
  }

  StepCosts costs_;
  Governor governor_;
};

// Of each kind of text the governor's speed, relative to that with the best fixed number.
struct TextKind {
  const char* name;
  std::function<Guessable(double one, double other)> token;  // by two random numbers
  double least;
  bool drawn = false;
};

TEST(Governor, ADrafterThatSaysHowSureItIsBeatsTheBestFixedNumber) {
  const std::array<TextKind, 8> kinds = {
      {{"hard and easy places",
        [](double one, double other) -> Guessable {
          const double p = one < 0.5 ? 0.97 : one * 2 - 1;
          return {static_cast<float>(p), other < p};
        },
        1.04},
       {"all right",
        [](double, double) -> Guessable {
          return {0.98F, true};
        },
        0.95},
       {"always as sure, often right",
        [](double one, double) -> Guessable {
          return {0.95F, one < 0.8};
        },
        0.95},
       {"always as sure, seldom right",
        [](double one, double) -> Guessable {
          return {0.95F, one < 0.5};
        },
        0.92},
       {"unsure and wrong",
        [](double one, double other) -> Guessable {
          return {static_cast<float>(0.05 + 0.35 * one), other < 0.05};
        },
        0.95},
       {"sure and wrong",
        [](double one, double) -> Guessable {
          return {static_cast<float>(0.7 + 0.3 * one), false};
        },
        0.94},
       {"unlikely tokens, drawn alike",
        [](double one, double other) -> Guessable {
          return {static_cast<float>(0.05 + 0.07 * one), other < 0.97};
        },
        0.95, true},
       {"unlikely tokens, often drawn alike",
        [](double one, double other) -> Guessable {
          return {static_cast<float>(0.02 + 0.28 * one), other < 0.6};
        },
        0.94, true}}};
  for (const std::size_t num_tokens : {64, 200}) {
    for (const StepCosts& costs :
         {StepCosts{0.165, 0.125}, StepCosts{0.27, 0.1}, StepCosts{0.1, 0.1}}) {
      std::uint64_t counter = 0;
      const auto random = [&] { return random_uniform(99, counter++); };
      Decoder governed(costs);
      std::array<Decoded, kinds.size()> own{};
      std::array<std::array<Decoded, 9>, kinds.size()> fixed{};
      const auto add = [](const Decoded& outcome, Decoded& sum) {
        sum.tokens += outcome.tokens;
        sum.time += outcome.time;
      };
      for (int i = 0; i < 600; ++i) {
        const auto which = static_cast<std::size_t>(random() * kinds.size());
        GuessedText text(num_tokens);
        for (Guessable& token : text) {
          const double one = random();
          token = kinds[which].token(one, random());
        }
        add(governed.decode(text, std::nullopt, kinds[which].drawn), own[which]);
        for (std::size_t k = 0; k < fixed[which].size(); ++k) {
          add(Decoder(costs).decode(text, k), fixed[which][k]);
        }
      }
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        double best = 0;
        for (const Decoded& outcome : fixed[i]) best = std::max(best, rate_of(outcome));
        EXPECT_GE(rate_of(own[i]) / best, kinds[i].least)
            << kinds[i].name << ", " << num_tokens << " tokens, " << costs.row << ", "
            << costs.guess;
      }
    }
  }
}

TEST(Governor, GuessesThatAreLikelyWrongAreNotChecked) {
  Decoder governed({.row = 0.2, .guess = 0.1});
  GuessedText text(200);
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = i % 2 == 0 ? Guessable{0.99F, true} : Guessable{0.05F, false};
  }
  for (int i = 0; i < 3; ++i) governed.decode(text, std::nullopt);
  const Decoded outcome = governed.decode(text, std::nullopt);
  EXPECT_NEAR(outcome.checked, 100, 4);
  EXPECT_GT(rate_of(outcome),
            1.3);  // two tokens for 1.4, of which a guess that is not checked is 0.1
}

}  // namespace
}  // namespace quire
