// A run's steps, gathered from the engine: who held which batch slot at each step, what each step
// took, what of it was wanted.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/api.h"
#include "serve/live/slot_map.h"

namespace quire {

// One row of a step.
struct SlotUse {
  std::int32_t slot = 0;
  std::int64_t request = 0;  // counted from 0 in the order in which they first ran
  std::int32_t num_tokens = 0;
  bool samples = false;
  bool wanted = true;
};

struct TracedStep {
  double start_s = 0;  // since the first step's start
  double end_s = 0;
  std::vector<SlotUse> rows;
};

// What a trace comes to.
struct TraceSummary {
  std::int64_t num_steps = 0;
  std::int64_t tokens_computed = 0;   // prompt and output tokens, thrown away ones included
  std::int64_t tokens_discarded = 0;  // computed for outputs that had ended
  std::int64_t outputs_wanted = 0;    // tokens sampled and kept
  double slot_occupancy = 0;          // share of slot-steps that gave a wanted token
  double busy_s = 0;                  // sum of the steps' times
  // The same steps, had rows without a wanted token been left out: by a straight line through the
  // measured times of steps over their tokens.
  double busy_without_discarded_s = 0;
};

class StepTrace {
 public:
  explicit StepTrace(std::int32_t num_slots) : num_slots_(num_slots) {}

  // An engine's observer; call add() from one thread at a time.
  void add(const StepRecord& step);
  void clear();

  std::int32_t num_slots() const { return num_slots_; }
  const std::vector<TracedStep>& steps() const { return steps_; }
  TraceSummary summary() const;

 private:
  std::int32_t num_slots_;
  SlotMap slots_;
  Instant origin_{};
  std::vector<TracedStep> steps_;
};

}  // namespace quire
