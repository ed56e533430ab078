// The seam between the scheduler and whatever computes: a step's plan goes in, its tokens come out.
// In process (InProcessExecutor), simulated (sim/), later over ranks.
#pragma once

#include "base/status.h"
#include "core/step.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs one step and fills in its result, which holds nothing of an earlier step afterwards. Steps
  // come in the scheduler's order, one at a time.
  virtual Status execute(const SchedulerOutput& step, ModelRunnerOutput& result) = 0;
};

}  // namespace quire
