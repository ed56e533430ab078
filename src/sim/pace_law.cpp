#include "sim/pace_law.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/step_pace.h"

namespace quire {

std::string pace_error(const Scheduler& scheduler, const SchedulerOutput& plan) {
  const StepPace& pace = scheduler.pace();
  if (!pace.limited() || !scheduler.config().enable_chunked_prefill) return {};
  const auto starts = [&](RequestId id) {
    return std::ranges::any_of(plan.new_requests,
                               [id](const NewRequestData& data) { return data.request_id == id; });
  };
  const bool has_rows = std::ranges::any_of(plan.scheduled, [&](const ScheduledRequest& each) {
    return each.num_scheduled_tokens == 1 + each.num_drafts && each.use == RowUse::kTokens &&
           !starts(each.request_id);
  });
  const StepWork work = work_of(plan);
  if (work.prompt_tokens > pace.max_prompt_tokens) {
    return fmt::format("step {} computes {} tokens of prompts, at most {} are wanted", plan.step_id,
                       work.prompt_tokens, pace.max_prompt_tokens);
  }
  const Duration time = pace.cost.time_of(work);
  if (!has_rows || work.prompt_tokens == 0 || time <= pace.max_step) return {};
  return fmt::format("step {} takes {} ns, at most {} are wanted", plan.step_id, time.count(),
                     pace.max_step.count());
}

}  // namespace quire
