#include "apps/bench_spec/theory.h"

#include <algorithm>
#include <cmath>

namespace quire {

double expected_tokens(double acceptance, std::int32_t num_guesses) {
  if (acceptance >= 1) return 1.0 + num_guesses;
  return (1 - std::pow(acceptance, num_guesses + 1)) / (1 - acceptance);
}

std::optional<SpecTheory> SpecTheory::of(const SpecOutcome& outcome) {
  if (!outcome.setting || outcome.num_drafted == 0) return std::nullopt;
  const auto last = static_cast<std::size_t>(*outcome.setting) - 1;
  const std::int64_t all_right = last < outcome.accepted_at.size() ? outcome.accepted_at[last] : 0;
  // In each step that had a wrong guess one more than the right ones was looked at.
  const std::int64_t wrong =
      std::min(outcome.num_drafted - all_right, outcome.num_drafts - outcome.num_accepted);
  const std::int64_t tried = outcome.num_accepted + wrong;
  // The first token comes from the prompt.
  const std::int64_t steps = outcome.num_tokens - 1 - outcome.num_accepted;
  SpecTheory theory;
  theory.acceptance = static_cast<double>(outcome.num_accepted) /
                      static_cast<double>(std::max<std::int64_t>(tried, 1));
  theory.guessing_share = std::min(static_cast<double>(outcome.num_drafted) /
                                       static_cast<double>(std::max<std::int64_t>(steps, 1)),
                                   1.0);
  return theory;
}

std::optional<double> SpecTheory::speedup(std::int32_t num_guesses, const RowCosts& costs) const {
  const std::optional<double> time = costs.in_steps(1 + std::int64_t{num_guesses});
  if (!time) return std::nullopt;
  return (1 + guessing_share * (block_efficiency(num_guesses) - 1)) /
         (1 + guessing_share * (*time - 1));
}

}  // namespace quire
