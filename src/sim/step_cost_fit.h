// Costs of a machine's steps from measured ones, for simulations of that machine.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "core/step_pace.h"

namespace quire {

struct MeasuredStep {
  StepWork work;
  Duration time{};
};

struct StepCostFit {
  StepCost cost;
  double mean_error = 0;  // of the steps' times, relative, without sign
};

// The costs, none below zero, with the least sum of relative errors without their signs: what else
// ran during some of the steps changes it no more than it changes a median. kInvalidArgument for
// fewer than 20 steps, or steps that are all alike.
Result<StepCostFit> fit_step_cost(std::span<const MeasuredStep> steps);

}  // namespace quire
