// The law of what a request holds of the KV cache.
#pragma once

#include <string>

#include "core/scheduler.h"
#include "sim/coverage.h"

namespace quire {

// Of a plan that the scheduler has just made: no request holds more pages than admission counted
// on. An empty string, or what is wrong; counts in `coverage` what is held no more behind windows.
std::string held_pages_error(const Scheduler& scheduler, const SchedulerOutput& plan,
                             Coverage& coverage);

}  // namespace quire
