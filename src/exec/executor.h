// The seam between the scheduler's plans and whatever computes them: this process, several ranks,
// or a simulation in virtual time.
#pragma once

#include "base/status.h"
#include "core/step.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs one step to its end and returns the tokens it sampled, one for each scheduled request with
  // `samples`, in the order of the plan. Steps come in the order of their ids. An error ends the
  // executor's usefulness: its copy of the requests' state is then unknown.
  virtual Result<ModelRunnerOutput> execute(const SchedulerOutput& plan) = 0;
};

}  // namespace quire
