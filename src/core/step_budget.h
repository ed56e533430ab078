// What is left of a step while it is planned: tokens, and time for prompts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/request_timeline.h"
#include "core/step_pace.h"

namespace quire {

// Rows (requests that compute their last known token) are never cut: the time that they take is set
// aside first, and prompts share the rest, in their order. A step without rows keeps nobody waiting
// for a token, so there the first prompt is cut only where max_num_batched_tokens says so.
class StepBudget {
 public:
  // `rows`: those that run now.
  StepBudget(std::int32_t max_num_batched_tokens, bool chunked, const StepPace& pace,
             const StepWork& rows);

  std::int32_t tokens_left() const { return tokens_left_; }
  // Whether not even one token of a prompt fits.
  bool full() const { return std::min(tokens_left_, tokens_in_time(0, 1)) == 0; }
  // What there is too little of.
  WaitCause cause() const;

  // How many of a prompt's `num_pending` tokens after `num_computed` others fit. What is `urgent`
  // gets one at least, if there are any: who goes before all others advances in every step.
  std::int32_t tokens_for_prompt(std::int32_t num_computed, std::int32_t num_pending,
                                 bool urgent) const;

  void take_rows(std::int32_t num_rows) { tokens_left_ -= num_rows; }
  void take_prompt(std::int32_t num_computed, std::int32_t num_tokens);

 private:
  bool unlimited() const { return !pace_.limited() || (!has_rows_ && !has_prompt_); }
  std::int32_t tokens_in_time(std::int32_t num_computed, std::int32_t most) const;

  const StepPace pace_;
  const bool chunked_;
  const bool has_rows_;
  bool has_prompt_ = false;
  std::int32_t tokens_left_;
  std::int32_t prompt_tokens_left_;
  StepWork work_;
};

}  // namespace quire
