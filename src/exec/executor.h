// The seam between the scheduler and whatever computes: a step's plan goes in, its tokens come out.
// In process (InProcessExecutor), simulated (sim/), later over ranks.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "core/step.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs one step and fills in its result, which holds nothing of an earlier step afterwards. Steps
  // come in the scheduler's order, one at a time.
  virtual Status execute(const SchedulerOutput& step, ModelRunnerOutput& result) = 0;

  // A number that goes on changing while a step is computed, so that one that takes long can be
  // told from one that hangs. Any thread.
  virtual std::uint64_t progress() const { return 0; }
};

}  // namespace quire
