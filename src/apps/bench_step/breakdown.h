// Recorded spans to a sum: for every stage, how often and how long, over the steps that were
// measured. A stage's time is its own, without that of stages inside it; so the times of all stages
// and the time in none add up to that of the steps, to the nanosecond.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/span_recorder.h"

namespace quire {

// Of all steps together.
struct StageSum {
  std::string_view name;
  StageKind kind = StageKind::kWhole;
  std::int64_t calls = 0;
  std::int64_t own_ns = 0;
  std::int64_t median_call_ns = 0;
  std::int64_t others_ns = 0;  // as Span::others_ns
  SpanCost cost{};

  // What all calls took, had each taken as long as the middle one. A call is short beside the time
  // for which other work has the CPU, so on a busy machine this is near what a quiet one would
  // show.
  std::int64_t typical_ns() const { return calls * median_call_ns; }

  // Threads that worked at a time, mean.
  double threads_busy() const {
    return own_ns == 0 ? 0.0 : 1.0 + static_cast<double>(others_ns) / static_cast<double>(own_ns);
  }
};

struct Breakdown {
  std::int64_t num_steps = 0;  // that were still in the recorder; the last ones of those asked for
  std::int64_t total_ns = 0;
  std::vector<StageSum> stages;            // in the order in which a step first enters them
  std::int64_t unaccounted_ns = 0;         // in spans that only contain others
  std::int64_t median_unaccounted_ns = 0;  // of a step
  // From the first step's start to the last one's end, on the recorder's clock.
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;

  std::int64_t sum_of(StageKind kind) const;
  std::int64_t typical_sum_of(StageKind kind) const;
  std::int64_t typical_unaccounted_ns() const { return num_steps * median_unaccounted_ns; }
  std::int64_t typical_total_ns() const;
};

// The account of a thread that waits, in spans that only contain others, while another works: with
// what that one does in place of the waiting. Both are of the same steps, and times still add up.
Breakdown join(Breakdown waiting, const Breakdown& working);

// `step_ids` ascending.
Breakdown break_down(const SpanRecorder& spans, std::span<const StepId> step_ids);

}  // namespace quire
