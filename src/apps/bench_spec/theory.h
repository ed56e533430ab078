// What the published analysis says of guesses (Leviathan et al. 2023, arXiv:2211.17192): each is
// right with one probability, where those before it are.
#pragma once

#include <cstdint>
#include <optional>

#include "apps/bench_spec/measure.h"

namespace quire {

// Tokens of a step with so many guesses: (1 - a^(K+1)) / (1 - a), their equation 1.
double expected_tokens(double acceptance, std::int32_t num_guesses);

// By what was measured with a fixed number of guesses, of one output at a time.
struct SpecTheory {
  double acceptance = 0;      // share of right ones among the guesses that those before them allow
  double guessing_share = 0;  // of the steps: those with guesses

  // nullopt where nothing was guessed. A step with fewer right guesses than `outcome.setting` had a
  // wrong one, if any were wrong: where matches are short the acceptance comes out too low.
  static std::optional<SpecTheory> of(const SpecOutcome& outcome);

  double block_efficiency(std::int32_t num_guesses) const {
    return expected_tokens(acceptance, num_guesses);
  }
  // Of all steps together; nullopt where it is unknown what rows cost.
  std::optional<double> speedup(std::int32_t num_guesses, const RowCosts& costs) const;
};

}  // namespace quire
