// The laws of who starts, and with what, together.
#pragma once

#include <string>

#include "sim/choice_law.h"
#include "sim/scope_law.h"

namespace quire {

class PlanLaws {
 public:
  explicit PlanLaws(const Scheduler& scheduler) : scopes_(scheduler), choices_(scheduler) {}

  void arrive(const Request& request) { choices_.arrive(request); }
  void end(const Request& request) {
    scopes_.end(request);
    choices_.end(request);
  }
  std::string check(const SchedulerOutput& plan) {
    auto error = scopes_.check(plan);
    return error.empty() ? choices_.check(plan) : error;
  }

 private:
  ScopeLaw scopes_;
  ChoiceLaw choices_;
};

}  // namespace quire
