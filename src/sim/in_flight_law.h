// The law of waiting for a prefix that another computes: nobody waits in vain, nor long.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/scheduler.h"

namespace quire {

class InFlightLaw {
 public:
  explicit InFlightLaw(const Scheduler& scheduler) : scheduler_(scheduler) {}

  // Of a plan that the scheduler has just made: whoever waits for a prefix in flight waits for one
  // that runs and goes on computing, of its scope, whose prompt begins as its own does. What delays
  // it are the steps that have room left: at most one for each that may be in flight, and as many
  // again after each preemption of the other. An empty string, or what is wrong.
  std::string check(const SchedulerOutput& plan);

 private:
  const Request* who_waits() const;

  const Scheduler& scheduler_;
  std::map<RequestId, std::map<RequestId, std::int64_t>> delays_;  // steps, by who waits for whom
};

}  // namespace quire
