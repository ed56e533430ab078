// Costs of a machine's steps from measured ones, for simulations of that machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "core/step_pace.h"

namespace quire {

struct MeasuredStep {
  StepWork work;
  Duration time{};
};

// What steps took that come one after the other: where one follows another at once, what lies
// between them is a part of it.
class StepStopwatch {
 public:
  Duration taken(Instant start, Instant end) {
    constexpr Duration kAtOnce = std::chrono::milliseconds(2);
    const bool follows = last_end_ && start - *last_end_ < kAtOnce;
    const Duration time = end - (follows ? *last_end_ : start);
    last_end_ = end;
    return time;
  }

 private:
  std::optional<Instant> last_end_;
};

struct StepCostFit {
  StepCost cost;
  double mean_error = 0;  // of the steps' times, relative, without sign
};

// The costs, none below zero, with the least sum of relative errors without their signs: what else
// ran during some of the steps changes it no more than it changes a median. kInvalidArgument for
// fewer than 20 steps, or steps that are all alike.
Result<StepCostFit> fit_step_cost(std::span<const MeasuredStep> steps);

// `cost` in proportion, so that these steps take together what they took: then what else ran
// meanwhile counts, in the mean.
StepCost in_proportion(const StepCost& cost, std::span<const MeasuredStep> steps);

}  // namespace quire
