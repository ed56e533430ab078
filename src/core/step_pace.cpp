#include "core/step_pace.h"

#include <algorithm>

namespace quire {

void StepWork::add(std::int64_t num_computed, std::int64_t num_tokens) {
  if (num_tokens == 1) return add_row(num_computed);
  add_prompt(num_computed, num_tokens);
}

void StepWork::add_row(std::int64_t num_computed) {
  ++num_rows;
  row_keys += num_computed + 1;
}

void StepWork::add_prompt(std::int64_t num_computed, std::int64_t num_tokens) {
  prompt_tokens += num_tokens;
  prompt_keys += num_tokens * num_computed + num_tokens * (num_tokens + 1) / 2;
}

StepWork work_of(const SchedulerOutput& plan) {
  StepWork work;
  for (const ScheduledRequest& each : plan.scheduled) {
    if (each.num_drafts == 0) {
      work.add(each.num_computed_tokens, each.num_scheduled_tokens);
      continue;
    }
    for (std::int32_t i = 0; i < each.num_scheduled_tokens; ++i) {
      work.add_row(each.num_computed_tokens + i);
    }
  }
  return work;
}

Duration StepCost::time_of(const StepWork& work) const {
  // Whole kKeys and the rest apart: the product of all keys and their cost could overflow.
  const auto of_keys = [](std::int64_t keys, std::int64_t cost) {
    return keys / kKeys * cost + keys % kKeys * cost / kKeys;
  };
  return Duration(step + work.num_rows * row + of_keys(work.row_keys, row_keys) +
                  work.prompt_tokens * prompt_token + of_keys(work.prompt_keys, prompt_keys));
}

// A step has at most 2^20 tokens, a sequence 2^24: 2^44 keys.
Status StepPace::validate() const {
  constexpr std::int64_t kMaxStep = std::int64_t{1} << 45;   // 10 hours
  constexpr std::int64_t kMaxToken = std::int64_t{1} << 38;  // 5 minutes
  constexpr std::int64_t kMaxKeys = std::int64_t{1} << 26;   // 67 ms
  const auto within = [](std::int64_t value, std::int64_t most) {
    return value >= 0 && value <= most;
  };
  const bool fits = within(max_step.count(), kMaxStep) && max_prompt_tokens >= 1 &&
                    within(cost.step, kMaxStep) && within(cost.row, kMaxToken) &&
                    within(cost.prompt_token, kMaxToken) && within(cost.row_keys, kMaxKeys) &&
                    within(cost.prompt_keys, kMaxKeys) && within(block_fetch.count(), kMaxToken);
  return fits ? Status() : Status::invalid_argument("the pace of steps is out of range");
}

}  // namespace quire
