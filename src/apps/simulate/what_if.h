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

// What the steps of a recorded run take, and which kinds of them it has.
struct RecordedStepTimes {
  StepTimes times;
  double mean_error = 0;        // of the log's own steps, relative, without sign
  std::vector<StepKind> kinds;  // of which the log has some steps
};

// Fitted to the log's own steps; or `given`, measured elsewhere, which the log's steps correct
// where it has some. In either case all together take what they took, with whatever else the
// machine did. kInvalidArgument where none are given and the log's are too few or too much alike.
Result<RecordedStepTimes> recorded_step_times(const RecordedRun& run,
                                              const std::optional<StepTimes>& given);

// What was recorded, and the run again with `settings`, which began as recorded_settings() and have
// step_times. kInvalidArgument for a setting of which a log does not say what it would change.
// `kinds`: the log's, for the summary's recorded_step_share.
SimulationOutcome recorded_outcome(const RecordedRun& run, const SimulationSettings& settings,
                                   std::optional<double> usd_per_hour);
Result<SimulationOutcome> simulate_recorded(const RecordedRun& run,
                                            const SimulationSettings& settings,
                                            const std::vector<StepKind>& kinds,
                                            std::optional<double> usd_per_hour,
                                            const std::function<void(std::size_t)>& progress);

}  // namespace quire
