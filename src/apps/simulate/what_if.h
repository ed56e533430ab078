// What a recorded run would have been with other settings, beside what it was.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/simulate/recorded_run.h"
#include "apps/simulate/simulation.h"

namespace quire {

// The settings of a run's server. `given`: what else was said, limits of goodput most of all.
SimulationSettings recorded_settings(const RecordedRun& run, const SimulationSettings& given);

// What was recorded, and the run again with `settings`, which began as recorded_settings() and have
// a step_cost. kInvalidArgument for a setting of which a log does not say what it would change.
SimulationOutcome recorded_outcome(const RecordedRun& run, const SimulationSettings& settings,
                                   std::optional<double> usd_per_hour);
Result<SimulationOutcome> simulate_recorded(const RecordedRun& run,
                                            const SimulationSettings& settings,
                                            std::optional<double> usd_per_hour,
                                            const std::function<void(std::size_t)>& progress);

}  // namespace quire
