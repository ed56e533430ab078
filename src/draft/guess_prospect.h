// What one guess more of each chain of a step is worth before it is made. A guess takes time to be
// made, and its row takes time if it is checked. How sure its drafter will be is not known before,
// only how often it is how sure; a guess of which it is not will not be checked.
//
//   GuessChain chain = {.prospect = &prospect};  // of each request
//   GuessRound round;
//   do {
//     round.begin_guess();
//     for (...) round.add(chain, probability);   // guesses that were made, one of each chain
//   } while (the sum of round.saved(chain) > prospect.guess_time);
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "draft/guess_odds.h"

namespace quire {

// Of a request in a step.
struct GuessProspect {
  GuessOdds::ByClass shares{};                                 // of what the drafter will say
  std::array<GuessOdds::ByClass, GuessOdds::kPlaces> right{};  // by place
  // Of the step, in the governor's unit of time: the same for all its requests.
  double num_rows = 1;    // without guesses
  double plain_time = 0;  // with these rows alone
  double row_time = 0;    // of a row more
  double guess_time = 0;  // of computing one guess more for each request

  // That a guess is right which has this probability.
  double chance(std::size_t place, float probability) const {
    return right[place][GuessOdds::class_of(probability)];
  }
  // Time that a guess at a place saves, where tokens come `speed_up` times as fast as without any,
  // if it is only checked where that saves time; those before it are right with probability
  // `before`.
  double saved(std::size_t place, double before, double speed_up) const {
    const double token_time = plain_time / num_rows / speed_up;
    double sum = 0;
    for (std::size_t i = 0; i < GuessOdds::kClasses; ++i) {
      sum += shares[i] * std::max(before * right[place][i] * token_time - row_time, 0.0);
    }
    return sum;
  }
};

// The guesses of a request so far.
struct GuessChain {
  const GuessProspect* prospect = nullptr;  // null: guesses are wanted whatever they are worth
  std::size_t length = 0;
  double chance = 1;  // that all are right
};

// Those of all requests of a step.
class GuessRound {
 public:
  // One more is made for each chain that goes on.
  void begin_guess() { ++num_steps_; }
  void add(GuessChain& chain, float probability) {
    if (chain.prospect != nullptr) {
      chain.chance *= chain.prospect->chance(chain.length, probability);
      ++num_guesses_;
      num_right_ += chain.chance;
    }
    ++chain.length;
  }
  // Time that one guess more saves. The chain must be shorter than GuessOdds::kPlaces.
  double saved(const GuessChain& chain) const {
    if (chain.prospect == nullptr) return std::numeric_limits<double>::infinity();
    return chain.prospect->saved(chain.length, chain.chance, speed_up(*chain.prospect));
  }

 private:
  // By the guesses so far; at least 1, since they need not be checked.
  double speed_up(const GuessProspect& step) const {
    const double time =
        step.plain_time + num_steps_ * step.guess_time + num_guesses_ * step.row_time;
    return std::max((step.num_rows + num_right_) / step.num_rows * step.plain_time / time, 1.0);
  }

  double num_steps_ = 0;
  double num_guesses_ = 0;
  double num_right_ = 0;  // on average
};

}  // namespace quire
