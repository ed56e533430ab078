// The times of a machine's steps from measured ones, for simulations of that machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "sim/step_times.h"

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

struct StepTimesFit {
  StepTimes times;
  double mean_error = 0;  // of the steps' times, relative, without sign
};

// The times with the least sum of relative errors without their signs: what else ran during some
// of the steps changes them no more than it changes a median. No cost is below zero, and more
// tokens take no less. The curve has points at powers of two; where no step was measured between
// two of them, it is as straight as may be. kInvalidArgument for fewer than 20 steps, or steps that
// all have as many tokens.
Result<StepTimesFit> fit_step_times(std::span<const MeasuredStep> steps);

double mean_error(const StepTimes& times, std::span<const MeasuredStep> steps);

// Of measured steps, those whose tokens are from one power of two to below the next.
struct StepKind {
  std::int64_t first_tokens = 0;  // the power of two
  std::int64_t tokens = 0;        // in the middle of its steps
  std::int64_t num_steps = 0;
  double factor = 1;  // what they took to what they were expected to take, in the middle
};

// The kinds of which there are four steps or more, by their tokens.
std::vector<StepKind> step_kinds(const StepTimes& times, std::span<const MeasuredStep> steps);
// The one of a step of so many tokens; nullptr: none.
const StepKind* find_kind(std::span<const StepKind> kinds, std::int64_t tokens);
std::string tokens_text(const StepKind& kind);  // "1", "2 to 3", "4 to 7", ...

// `times` with factors, so that steps of each kind take what these did, those of other kinds in
// proportion to the nearest, and all of these together what they took: then what else ran meanwhile
// counts, in the mean.
StepTimes in_proportion(const StepTimes& times, std::span<const MeasuredStep> steps);

}  // namespace quire
