// One's own server's run, from its event log: settings, traffic, steps, and what came of it in the
// words of a simulation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/scheduler.h"
#include "core/step_pace.h"
#include "sim/fleet.h"
#include "sim/recorded_drafts.h"
#include "sim/step_times_fit.h"
#include "sim/traffic.h"

namespace quire {

struct RecordedRun {
  SchedulerConfig scheduler;
  StepPace pace;    // with the limit of steps that is in the middle of all; no limit: no pace
  Traffic traffic;  // of the requests that ended; the first comes at zero
  std::vector<MeasuredStep> steps;
  std::shared_ptr<const RecordedDrafts> drafts;  // of these requests; null if there were none
  FleetResult result;                            // of these requests, from the arrival of the first
  std::vector<std::string> notes;                // on what is left out or missing
};

// `name` is the log's, or one segment's; of several runs the last. Errors: those of reading;
// kInvalidArgument where no request has ended, or this program schedules otherwise.
Result<RecordedRun> read_recorded_run(const std::string& name);

}  // namespace quire
