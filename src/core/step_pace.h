// How long a step may take, and what its work takes: what the scheduler needs to cut prompts so
// that those who get their output token by token do not wait for long, and to know what preempting
// a request costs. Whoever has a clock measures
// (engine/step_pacer.h); here are only whole numbers, so that the same numbers give the same plan
// everywhere.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "core/step.h"

namespace quire {

// What a step computes, by what costs differ. A row is one token of a request, most often its last
// known one, or a draft after it; more tokens of one request are a prompt's. Keys are those that
// the tokens see, each counted for each token.
struct StepWork {
  std::int64_t num_rows = 0;
  std::int64_t row_keys = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t prompt_keys = 0;

  // Tokens of one request, > 0, after `num_computed` others.
  void add(std::int64_t num_computed, std::int64_t num_tokens);
  void add_row(std::int64_t num_computed);
  void add_prompt(std::int64_t num_computed, std::int64_t num_tokens);
};
StepWork work_of(const SchedulerOutput& plan);

// The time of a step is the sum over its work, in nanoseconds.
struct StepCost {
  static constexpr std::int64_t kKeys = 1024;

  std::int64_t step = 0;
  std::int64_t row = 0;
  std::int64_t row_keys = 0;  // of kKeys
  std::int64_t prompt_token = 0;
  std::int64_t prompt_keys = 0;  // of kKeys

  Duration time_of(const StepWork& work) const;
  // What a step that there is anyway takes longer with that work.
  Duration time_beside(const StepWork& work) const { return time_of(work) - Duration(step); }
  bool operator==(const StepCost&) const = default;
};

struct StepPace {
  Duration max_step{};  // zero: steps may take as long as they like
  // Of one step that is limited, whatever they are thought to take: costs are not known far from
  // what was measured.
  std::int32_t max_prompt_tokens = 1;
  StepCost cost;           // none: not known
  Duration block_fetch{};  // of one KV block, from the lower tier; zero: not known

  bool limited() const { return max_step > Duration::zero(); }
  // Whether fetching can be compared with computing.
  bool knows_fetches() const { return block_fetch > Duration::zero() && cost != StepCost{}; }
  // kInvalidArgument for a number below zero, or so large that sums could overflow.
  Status validate() const;
  bool operator==(const StepPace&) const = default;
};

}  // namespace quire
