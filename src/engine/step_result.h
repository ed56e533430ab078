// A step's results on their way from the engine's thread to the output thread, and what they may be
// at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/scheduler.h"
#include "core/step.h"

namespace quire {

// What a step gave: the scheduler's view of it, and the executor's result that it refers to.
struct StepResult {
  std::vector<RequestStepOutput> outputs;
  ModelRunnerOutput result;
  // Of each of result.sampled whether its mask left no other token, 1 or 0, where a request asks
  // for that (SamplingParams::return_forced_tokens); else empty.
  std::vector<std::uint8_t> forced;

  std::size_t capacity_bytes() const;  // of its lists
};

// The most that a step's results can be.
struct StepResultLimits {
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 512;
  std::int64_t max_logprobs = 20;
  std::int64_t hidden_size = 0;

  std::size_t step_bytes() const;
  // Results that wait for their sinks, and as much again in lists to be filled again. A step that
  // is larger waits alone.
  std::size_t queue_bytes() const;
  // Of an engine's step results all together, for its memory plan.
  std::size_t total_bytes() const;
};

}  // namespace quire
