// The laws of who starts, and with what, together.
#pragma once

#include <string>

#include "sim/choice_law.h"
#include "sim/in_flight_law.h"
#include "sim/scope_law.h"

namespace quire {

class PlanLaws {
 public:
  explicit PlanLaws(const Scheduler& scheduler)
      : scopes_(scheduler), choices_(scheduler), in_flight_(scheduler) {}

  void arrive(const Request& request) { choices_.arrive(request); }
  void end(const Request& request) {
    scopes_.end(request);
    choices_.end(request);
  }
  std::string check(const SchedulerOutput& plan) {
    auto error = scopes_.check(plan);
    if (error.empty()) error = choices_.check(plan);
    return error.empty() ? in_flight_.check(plan) : error;
  }

 private:
  ScopeLaw scopes_;
  ChoiceLaw choices_;
  InFlightLaw in_flight_;
};

}  // namespace quire
