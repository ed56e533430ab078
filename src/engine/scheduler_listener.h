// Who is told of every call of an engine's scheduler, with its arguments and its result: enough to
// make the same calls again elsewhere. All on the engine's thread, so it must be quick.
#pragma once

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/scheduler.h"

namespace quire {

class SchedulerListener {
 public:
  virtual ~SchedulerListener() = default;

  // Whether between_steps() should come soon: no step begins then before those in flight are done.
  virtual bool wants_pause() const { return false; }
  // No step is in flight; the calls that follow start from this state.
  virtual void between_steps(const Scheduler& scheduler, Instant now) = 0;
  // Each right after the call.
  virtual void added(const AddRequest& request, Instant now, const Status& status) = 0;
  virtual void aborted(RequestId request_id, Instant now, bool found) = 0;
  virtual void paced(const StepPace& pace, Instant now) = 0;
  virtual void proposed(RequestId request_id, DraftTreeView drafts, Instant now) = 0;
  virtual void prefix_cache_reset(Instant now) = 0;
  virtual void unpinned(PinId pin_id, Instant now, bool found) = 0;
  virtual void tier_reported(const TierReport& report, Instant now) = 0;
  virtual void scheduled(const SchedulerOutput& plan, Instant now) = 0;
  virtual void updated(const ModelRunnerOutput& result, Instant now) = 0;
  // The engine ends, for this reason; the last call.
  virtual void ended(const Status& reason, Instant now) = 0;
};

}  // namespace quire
