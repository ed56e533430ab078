// The engine's loop, on a thread of its own that owns all scheduling state: read commands,
// begin steps, apply the result of the oldest one, pass tokens on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "core/scheduler.h"
#include "engine/constraints/running_constraints.h"
#include "engine/output_processor.h"
#include "engine/pin_registry.h"
#include "engine/scheduler_listener.h"
#include "engine/speculator.h"
#include "engine/step_pacer.h"
#include "exec/executor.h"

namespace quire {

class EngineCore {
 public:
  EngineCore(const SchedulerConfig& config, std::unique_ptr<Executor> executor,
             OutputProcessor& outputs, RunningConstraints constraints, const SteadyClock& clock,
             std::function<void(const StepRecord&)> stepped, SpanRecorder* spans,
             std::unique_ptr<SchedulerListener> listener, std::optional<StepPacer> pacer,
             PinRegistry& pins, std::unique_ptr<Speculator> speculator = nullptr);
  ~EngineCore() { stop(); }

  // Fails what runs, then joins the thread. Later commands are refused or ignored.
  void stop();

  // Commands; any thread. add() gives kResourceExhausted when `max_queued` commands wait.
  // `speculation`: where there is a speculator.
  Status add(AddRequest request, RequestConstraint constraint, RequestSpeculation speculation);
  void abort(RequestId request_id);
  void reset_prefix_cache();
  void unpin(PinId pin_id);
  // Calls `look` on the engine's thread between two steps; with null, from any thread, once the
  // engine has ended.
  void inspect(std::function<void(const EngineState*)> look);

  // As Engine says; waits.
  Status update_weights(const std::vector<TensorInfo>& tensors);

  EngineStats stats() const;  // after the last step
  EngineHeartbeat heartbeat() const;

 private:
  struct Add {
    AddRequest request;
    RequestConstraint constraint;
    RequestSpeculation speculation;
  };
  struct Abort {
    RequestId request_id = 0;
  };
  struct Inspect {
    std::function<void(const EngineState*)> look;
  };
  struct ResetPrefixCache {};
  struct Unpin {
    PinId pin_id = 0;
  };
  struct UpdateWeights {
    const std::vector<TensorInfo>* tensors = nullptr;  // of whoever waits
    std::unique_ptr<std::promise<Status>> done;        // null once it is told
  };
  using Command = std::variant<Add, Abort, Inspect, ResetPrefixCache, Unpin, UpdateWeights>;

  // Queues one that is never refused, and wakes the engine's thread.
  void post(Command command);
  void run();
  Status run_round();
  // Moves all queued commands to taken_; waits for one where the scheduler has nothing to do yet.
  // False: stop, and none was moved.
  bool take_commands();
  void apply_all();
  void apply(Command command);
  void apply(const Add& add);
  // Where taken_ has one, steps in flight end first.
  Status make_way_for_updates();
  Status update_now(const std::vector<TensorInfo>& tensors);
  void reset_prefix_cache_now();
  void unpin_now(PinId pin_id);
  // Those whose time is over; and those whose name now belongs to one that is computed.
  void unpin_expired();
  void settle_pins();
  // What has become of the lower tier, since the last round.
  void take_tier_report();
  void tell_scheduler(const TierReport& report);
  std::unique_ptr<const Request> abort_now(RequestId request_id);
  // Plans and submits steps for as long as there may be more in flight and there is one to plan.
  Status begin_steps();
  // Waits for the oldest step in flight and applies its result.
  Status end_step();
  // Ends requests of which no token could be chosen, before what the step gave them counts.
  void fail_stuck(const StepMasks& masks);
  void fail_processed();
  // All outputs of a request: an answer without one of them is none.
  void fail_request(const RunningConstraints::Outputs& outputs, const Status& error);
  // Tells the constraints of what their outputs have got.
  void take_tokens();
  void mark_forced(const StepMasks& masks);
  void set_pace(Instant now);
  void propose_drafts(Instant now);
  // What the result that was just applied tells of drafts, and of requests that ended.
  void follow_step(const SchedulerOutput& plan, Duration time, Duration drafting);
  bool is_wanted(RequestId row) const;
  // Tells the observer of a step whose result is about to be applied.
  void observe_step(const SchedulerOutput& plan, Instant start);
  void fail(const Status& error);
  Status keep_blocks();
  // Tells those who wait for a command that it is not done.
  void end_taken(const Status& error);
  void publish_stats();

  const SteadyClock& clock_;
  OutputProcessor& outputs_;
  struct StepInFlight {
    SchedulerOutput plan;
    StepMasks masks;
    Instant start{};
    Duration drafting{};  // of its guesses, from then on
  };
  // A ring; engine thread only, but the executor reads plans and masks.
  std::vector<StepInFlight> steps_;
  std::unique_ptr<Executor> executor_;
  Scheduler scheduler_;             // engine thread only
  RunningConstraints constraints_;  // likewise
  std::function<void(const StepRecord&)> stepped_;
  SpanRecorder* spans_;                          // null: nothing is recorded
  std::unique_ptr<SchedulerListener> listener_;  // may be null
  std::optional<StepPacer> pacer_;               // engine thread only; none: nothing is measured
  PinRegistry& pins_;
  std::unique_ptr<Speculator> speculator_;  // engine thread only; null: nothing is guessed

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Command> commands_;
  bool stopping_ = false;
  bool tier_told_ = true;  // there is a report, or may be
  Status failure_;         // why the engine has stopped; adds are refused with it
  SchedulerStats stats_;
  SpeculationTimes speculation_times_;
  std::vector<KvCacheManager::GroupUse> group_uses_;
  bool busy_ = true;  // false: the thread waits for a command
  std::uint64_t num_rounds_ = 0;
  // Engine thread only.
  std::deque<Command> taken_;
  TierReport tier_report_;
  std::uint64_t num_begun_ = 0;  // steps that were submitted, and those that ended
  std::uint64_t num_ended_ = 0;
  Instant last_end_{};
  // Reused from step to step.
  StepResult step_;
  std::vector<StepShare> shares_;
  std::vector<TokenId> forced_tokens_;  // of one output
  std::vector<RequestId> forced_ids_;   // those that have any, in this step
  std::thread thread_;
};

}  // namespace quire
