// The law of the pace of admission: who has not run yet starts beside others only when the settings
// let it, and then nothing but a lack of room keeps it waiting; so the pace starves nobody.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "core/scheduler.h"

namespace quire {

// Counts on its own how many steps have passed since a request has started.
class AdmissionPaceLaw {
 public:
  explicit AdmissionPaceLaw(const Scheduler& scheduler) : scheduler_(scheduler) {}

  void before_step();  // that is planned next
  // Of the plan that the scheduler has made since: an empty string, or what is wrong.
  std::string check(const SchedulerOutput& plan);

 private:
  bool passes_at_any_time(const Request& request, const SchedulerOutput& plan) const;

  const Scheduler& scheduler_;
  std::int64_t num_waiting_ = 0;
  std::int64_t num_running_ = 0;
  std::int64_t num_steps_ = 0;    // since one has started
  std::set<RequestId> fetching_;  // now or before
};

}  // namespace quire
