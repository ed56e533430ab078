#include "sim/admission_pace_law.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quire {

void AdmissionPaceLaw::before_step() {
  num_waiting_ = std::ssize(scheduler_.waiting());
  num_running_ = std::ssize(scheduler_.running());
}

// Who has run, whose blocks were fetched for its start, the further outputs of a prompt, and who is
// alone.
bool AdmissionPaceLaw::passes_at_any_time(const Request& request,
                                          const SchedulerOutput& plan) const {
  const auto starts = [&](const Request* each) {
    return std::ranges::any_of(plan.new_requests, [&](const NewRequestData& data) {
      return data.request_id == each->id();
    });
  };
  return request.num_preemptions() > 0 || fetching_.contains(request.id()) ||
         request.sample_index() > 0 || std::ranges::all_of(scheduler_.running(), starts);
}

std::string AdmissionPaceLaw::check(const SchedulerOutput& plan) {
  const AdmissionPace& pace = scheduler_.config().admission;
  const bool enough = static_cast<double>(num_waiting_) >=
                      std::floor(pace.waiting_served_ratio * static_cast<double>(num_running_));
  const bool open = enough || num_steps_ >= pace.max_waiting_tokens;
  ++num_steps_;
  for (const NewRequestData& each : plan.new_requests) {
    const Request& request = *scheduler_.find(each.request_id);
    if (request.num_preemptions() == 0) num_steps_ = 1;
    if (open || passes_at_any_time(request, plan)) continue;
    return fmt::format("request {} starts where {} wait and {} run, {} steps after another",
                       request.id(), num_waiting_, num_running_, num_steps_);
  }
  for (const Request* each : scheduler_.fetching()) fetching_.insert(each->id());
  const auto waiting = scheduler_.waiting();
  const SchedulingPolicy policy = scheduler_.config().policy;
  const bool chooses =
      policy == SchedulingPolicy::kFair || policy == SchedulingPolicy::kLongestPrefix;
  if (!open || waiting.empty() || (chooses && waiting.size() > 1)) return {};
  if (waiting.back()->timeline().current() != WaitCause::kAdmissionPace) return {};
  return fmt::format(
      "request {} waits for others to wait where {} wait and {} run, {} steps after "
      "one has started",
      waiting.back()->id(), num_waiting_, num_running_, num_steps_ - 1);
}

}  // namespace quire
