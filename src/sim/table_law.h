// The law of block tables: an executor's copy, made of changes, is what the scheduler has.
#pragma once

#include <string>

#include "core/scheduler.h"
#include "sim/simulated_executor.h"

namespace quire {

// After a plan was submitted: an empty string, or whose tables differ.
std::string table_error(const Scheduler& scheduler, const SimulatedExecutor& executor,
                        const SchedulerOutput& plan);

}  // namespace quire
