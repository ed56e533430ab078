#include "core/step_budget.h"

#include <algorithm>
#include <limits>

namespace quire {

StepBudget::StepBudget(std::int32_t max_num_batched_tokens, bool chunked, const StepPace& pace,
                       const StepWork& rows)
    : pace_(pace),
      chunked_(chunked),
      has_rows_(rows.num_rows > 0),
      tokens_left_(max_num_batched_tokens),
      prompt_tokens_left_(pace.limited() ? pace.max_prompt_tokens
                                         : std::numeric_limits<std::int32_t>::max()),
      work_(rows) {}

WaitCause StepBudget::cause() const {
  return tokens_left_ == 0 || !pace_.limited() ? WaitCause::kTokenBudget : WaitCause::kStepTime;
}

std::int32_t StepBudget::tokens_for_prompt(std::int32_t num_computed, std::int32_t num_pending,
                                           bool urgent) const {
  const std::int32_t most = std::min(num_pending, tokens_left_);
  if (!chunked_) {  // all or none
    const bool fits = most == num_pending && (urgent || tokens_in_time(num_computed, 1) > 0);
    return fits ? num_pending : 0;
  }
  const std::int32_t num_tokens = tokens_in_time(num_computed, most);
  return urgent && num_tokens == 0 ? std::min(most, 1) : num_tokens;
}

// The time of a prompt's tokens grows with their number.
std::int32_t StepBudget::tokens_in_time(std::int32_t num_computed, std::int32_t most) const {
  most = std::min(most, std::max(prompt_tokens_left_, 0));
  if (unlimited() || most <= 0) return most;
  const auto fits = [&](std::int32_t num_tokens) {
    StepWork work = work_;
    work.add_prompt(num_computed, num_tokens);
    return pace_.cost.time_of(work) <= pace_.max_step;
  };
  std::int32_t low = 0;  // fits
  std::int32_t high = most;
  while (low < high) {
    const std::int32_t middle = high - (high - low) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void StepBudget::take_prompt(std::int32_t num_computed, std::int32_t num_tokens) {
  has_prompt_ = true;
  tokens_left_ -= num_tokens;
  prompt_tokens_left_ -= std::min(num_tokens, prompt_tokens_left_);
  work_.add_prompt(num_computed, num_tokens);
}

}  // namespace quire
