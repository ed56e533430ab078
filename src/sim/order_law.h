// The law of a scheduler's order: who goes first is computed first.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/scheduler.h"

namespace quire {

// Where a request of this priority stands in the order of a policy: the lower goes first, of equals
// the earlier.
std::int64_t order_rank(SchedulingPolicy policy, const Request& request, std::int32_t priority);

// Of a plan that the scheduler has just made, for the requests that are there, with their
// priorities (ids count arrivals): those that run are computed in their order, the first of them in
// every step unless one in flight computes it; nobody starts before one that waits, for no fetch,
// and goes before it; who is preempted is none that goes before all that run, or that the policy
// ranks before one of them. An empty string, or what is wrong.
std::string order_error(const Scheduler& scheduler, const SchedulerOutput& plan,
                        const std::map<RequestId, std::int32_t>& priorities);

}  // namespace quire
