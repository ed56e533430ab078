// How often guesses are right by how sure their drafter is of them. A model that drafts gives its
// tokens probabilities, and they are right about as often as those say; so hard places of a text
// are told from easy ones before anything is checked. A share of right guesses cannot do that: it
// says how hard the text was so far.
//
// Measured over all requests: how often guesses of a class, a range of probabilities, are right at
// a place of the chain. Measured of each request: how its guesses compare with that, and how often
// its drafter is how sure.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "draft/speculative_config.h"

namespace quire {

class GuessOdds {
 public:
  static constexpr std::size_t kPlaces = SpeculativeConfig::kMaxTokens;
  // Probabilities from which on the next class begins.
  static constexpr std::array<float, 5> kSurer = {0.3F, 0.5F, 0.7F, 0.85F, 0.95F};
  static constexpr std::size_t kClasses = kSurer.size() + 1;
  using ByClass = std::array<double, kClasses>;

  static std::size_t class_of(float probability) {
    return static_cast<std::size_t>(
        std::ranges::count_if(kSurer, [&](float least) { return probability >= least; }));
  }

  // Whether a guess was right, where those before it were.
  void observe(std::size_t place, float probability, bool right) {
    const std::size_t which = class_of(probability);
    Count& count = counts_[which][place];
    count.tried = count.tried * kDecay + 1;
    count.right = count.right * kDecay + (right ? 1 : 0);
    observe_share(which, kDecay, shares_);
  }

  // By place; where little was seen there, as at the place before, and as the drafter itself says.
  std::array<ByClass, kPlaces> right() const {
    std::array<ByClass, kPlaces> by_place{};
    ByClass prior = kPrior;
    for (std::size_t place = 0; place < kPlaces; ++place) {
      for (std::size_t i = 0; i < kClasses; ++i) {
        const Count& count = counts_[i][place];
        prior[i] = (count.right + kPriorWeight * prior[i]) / (count.tried + kPriorWeight);
      }
      by_place[place] = prior;
    }
    return by_place;
  }

  // How the guesses are distributed.
  ByClass shares() const { return mixed(shares_, kFirstShares); }

  // Adds one of the class to what counts the less the older it is.
  static void observe_share(std::size_t which, double decay, ByClass& shares) {
    for (double& share : shares) share *= decay;
    shares[which] += 1;
  }
  // What was counted, and `prior` with the weight of kPriorWeight guesses.
  static ByClass mixed(const ByClass& counts, const ByClass& prior) {
    const double total = std::accumulate(counts.begin(), counts.end(), kPriorWeight);
    ByClass shares{};
    for (std::size_t i = 0; i < kClasses; ++i) {
      shares[i] = (counts[i] + kPriorWeight * prior[i]) / total;
    }
    return shares;
  }

 private:
  static constexpr double kDecay = 0.995;
  static constexpr double kPriorWeight = 2;
  static constexpr ByClass kPrior = {0.15, 0.4, 0.6, 0.78, 0.9, 0.98};
  static constexpr ByClass kFirstShares = {0.1, 0.1, 0.1, 0.1, 0.1, 0.5};

  struct Count {
    double right = 0;
    double tried = 0;
  };
  std::array<std::array<Count, kPlaces>, kClasses> counts_{};
  ByClass shares_{};
};

// Of one request. Its guesses may be right less often than such guesses are in all requests, or
// more often: of several factors it is kept how probable each is, after what was seen, of which old
// guesses count less. So a guess of which its drafter was sure, and which was wrong, says more than
// one of which it was not.
class RequestOdds {
 public:
  // `drawn`: its tokens are drawn at random. Whoever guesses draws with the same numbers, so an
  // unlikely token may be a good guess, and other guesses are right than those of the most probable
  // tokens.
  explicit RequestOdds(bool drawn = false) : drawn_(drawn) {}
  bool drawn() const { return drawn_; }

  // `expected`: how often such a guess is right in all requests.
  void observe(float probability, double expected, bool right) {
    double total = 0;
    for (std::size_t i = 0; i < kFactors.size(); ++i) {
      const double chance = std::clamp(by_factor(expected, kFactors[i]), kLeast, kMost);
      evidence_[i] = evidence_[i] * kDecay + std::log(right ? chance : 1 - chance);
      weights_[i] = kPrior[i] * std::exp(evidence_[i]);
      total += weights_[i];
    }
    for (double& weight : weights_) weight /= total;
    GuessOdds::observe_share(GuessOdds::class_of(probability), kShareDecay, shares_);
  }

  // How often a guess is right that is right so often in all requests.
  double right(double expected) const {
    double chance = 0;
    for (std::size_t i = 0; i < kFactors.size(); ++i) {
      chance += weights_[i] * by_factor(expected, kFactors[i]);
    }
    return std::min(chance, kMost);
  }
  // How its guesses are distributed, where those of all are like this.
  GuessOdds::ByClass shares(const GuessOdds::ByClass& all) const {
    return GuessOdds::mixed(shares_, all);
  }

 private:
  // Below 1 of the chance, above it of the odds.
  static constexpr std::array<double, 8> kFactors = {0.05, 0.25, 0.5, 0.75, 1, 3, 10, 30};
  static constexpr std::array<double, 8> kPrior = {0.02, 0.03, 0.05, 0.1, 0.62, 0.1, 0.05, 0.03};
  static double by_factor(double chance, double factor) {
    return factor < 1 ? chance * factor : chance * factor / (1 - chance + chance * factor);
  }
  static constexpr double kDecay = 0.95;
  static constexpr double kShareDecay = 0.9;
  static constexpr double kLeast = 0.01;
  static constexpr double kMost = 0.99;

  bool drawn_;
  std::array<double, kFactors.size()> evidence_{};  // logarithms
  std::array<double, kFactors.size()> weights_ = kPrior;
  GuessOdds::ByClass shares_{};
};

}  // namespace quire
