// The seam between the scheduler and whatever computes: a step's plan goes in, its tokens come out.
// In process (InProcessExecutor), simulated (sim/), later over ranks.
//
//   executor.submit(plan);     // the step begins; the caller is free
//   ...                        // masks for its rows, the plan of the next step
//   executor.sample(masks);    // its tokens may be chosen
//   executor.collect(result);  // waits for them
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/step.h"

namespace quire {

struct TensorInfo;

// Which tokens a request may be given at a position: token i where bit i % 32 of word i / 32 is
// set.
struct TokenMask {
  RequestId request_id = 0;
  std::int32_t draft = 0;  // the position after so many of the step's drafts
  std::span<const std::uint32_t> words;
};

// Called by one thread. Several steps may be in flight; sample() and collect() are for the oldest
// that has not had that call yet.
class Executor {
 public:
  virtual ~Executor() = default;

  // Begins a step. Steps come in the scheduler's order, and `step` must stay as it is until its
  // result is collected. kInternal where more are in flight than the executor was made for.
  virtual Status submit(const SchedulerOutput& step) = 0;

  // Lets the step choose its tokens, among those of `masks` where a row has one; they must stay as
  // they are until its result is collected.
  virtual Status sample(std::span<const TokenMask> masks) = 0;

  // Waits for the step and fills in its result, which has nothing of an earlier step afterwards.
  // An error of the step comes here, and no later step can be counted on then.
  virtual Status collect(ModelRunnerOutput& result) = 0;

  // Replaces tensors of the model, by their names in its checkpoint, while no step is in flight.
  // After an error they are as they were. kUnimplemented where there is no model to change.
  virtual Status update_weights(const std::vector<TensorInfo>& tensors);

  // Moves into `report` what has become of the lower tier since the last call; false: nothing, and
  // `report` is empty. And sets what to call, from any thread, when there is something; it must be
  // quick.
  virtual bool take_tier_report(TierReport& report);
  virtual void on_tier_report(std::function<void()> tell);
  // Numbers of the lower tier; any thread.
  virtual TierStats tier_stats() const { return {}; }

  // Stores blocks, in this order, for as long as `limit` allows; returns how many. No step is in
  // flight, and none comes afterwards.
  virtual std::int64_t keep_blocks(std::span<const BlockStore> blocks, Duration limit);

  // A number that goes on changing while a step is computed, so that one that takes long can be
  // told from one that hangs. Any thread.
  virtual std::uint64_t progress() const { return 0; }
};

}  // namespace quire
