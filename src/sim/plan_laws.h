// The laws of who starts, and with what, and of the time of steps, together.
#pragma once

#include <string>

#include "sim/admission_pace_law.h"
#include "sim/choice_law.h"
#include "sim/in_flight_law.h"
#include "sim/scope_law.h"

namespace quire {

class PlanLaws {
 public:
  explicit PlanLaws(const Scheduler& scheduler)
      : scopes_(scheduler),
        choices_(scheduler),
        in_flight_(scheduler),
        admission_pace_(scheduler) {}

  void arrive(const Request& request) { choices_.arrive(request); }
  void end(const Request& request) {
    scopes_.end(request);
    choices_.end(request);
    step_time_ += request.step_time();
  }
  // When all have ended.
  std::string check_end(const SchedulerStats& stats) const {
    if (stats.step_time_charged_ns == step_time_.count()) return {};
    return "of the time of steps something was divided among nobody";
  }
  void before_step() { admission_pace_.before_step(); }
  std::string check(const SchedulerOutput& plan) {
    auto error = scopes_.check(plan);
    if (error.empty()) error = choices_.check(plan);
    if (error.empty()) error = admission_pace_.check(plan);
    return error.empty() ? in_flight_.check(plan) : error;
  }

 private:
  ScopeLaw scopes_;
  ChoiceLaw choices_;
  InFlightLaw in_flight_;
  AdmissionPaceLaw admission_pace_;
  Duration step_time_{};
};

}  // namespace quire
