// The law of a scheduler's pace: prompts beside a request that gets a token leave the step as short
// as it is to be.
#pragma once

#include <string>

#include "core/scheduler.h"

namespace quire {

// Of a plan that the scheduler has just made: an empty string, or what is wrong.
std::string pace_error(const Scheduler& scheduler, const SchedulerOutput& plan);

}  // namespace quire
