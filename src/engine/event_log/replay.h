// Makes the calls of an event log again, on a scheduler of its own, and compares what comes out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/scheduler_snapshot.h"
#include "engine/event_log/reader.h"
#include "engine/event_log/records.h"

namespace quire {

// The first call whose result was another one.
struct ReplayDifference {
  std::string what;  // one line
  std::uint64_t segment = 0;
  StepId step_id = 0;  // of the recorded plan; 0 where it is not about a step
  Instant time{};
  // The two results in lines of text; empty where there is no more to say than `what`.
  std::vector<std::string> recorded;
  std::vector<std::string> replayed;
};

// Of the records that were replayed, up to a difference.
struct ReplaySummary {
  std::uint64_t num_segments = 0;
  std::uint64_t num_runs = 0;  // of an engine
  std::uint64_t num_records = 0;
  std::uint64_t num_lost = 0;  // that the log itself lost
  std::uint64_t num_steps = 0;
  std::uint64_t num_added = 0;  // outputs
  std::uint64_t num_refused = 0;
  std::uint64_t num_finished = 0;
  std::uint64_t num_aborted = 0;
  std::uint64_t num_preemptions = 0;
  std::uint64_t num_scheduled_tokens = 0;
  std::uint64_t num_output_tokens = 0;
  std::uint64_t num_draft_tokens = 0;  // that were computed, and of these right
  std::uint64_t num_accepted_drafts = 0;
  std::uint64_t num_branched_drafts = 0;  // on other paths of their trees than the first
  std::uint64_t num_adopted_blocks = 0;   // table entries of such paths that turned out right
  std::uint64_t num_states_compared = 0;  // snapshots between segments
  Duration recorded{};                    // time that the records span
};

class Replay {
 public:
  // Told of each request that ended, with the time; may be empty.
  using OnEnd = std::function<void(const Request& request, Instant time)>;
  // Told of each step, before the scheduler gets its result: when it was planned, and when its
  // result came; may be empty.
  using OnStep = std::function<void(const SchedulerOutput& plan, Instant planned, Instant ended)>;
  explicit Replay(OnEnd on_end = {}, OnStep on_step = {})
      : on_end_(std::move(on_end)), on_step_(std::move(on_step)) {}

  // Goes on with the next segment, which has begun. Where it follows the one before without a gap,
  // its snapshot is compared with the scheduler as it is; else the replay starts anew from it.
  // kInvalidArgument for a snapshot that can be of no scheduler.
  Status begin_segment(const SegmentReader& segment);
  // One record. Nothing happens after a difference. kInvalidArgument where records come in an order
  // in which no engine gives them.
  Status apply(const EventRecord& record);

  const ReplaySummary& summary() const { return summary_; }
  const std::optional<ReplayDifference>& difference() const { return difference_; }
  // As the last record left it; null before the first segment.
  const Scheduler* scheduler() const { return scheduler_.get(); }
  Instant time() const { return time_; }
  // Why the engine ended, where the log says so.
  const std::optional<std::string>& end_reason() const { return end_reason_; }

 private:
  Status apply_record(const AddRecord& record);
  Status apply_record(const AbortRecord& record);
  Status apply_record(const PlanRecord& record);
  Status apply_record(const ResultRecord& record);
  Status apply_record(const EndRecord& record);
  Status apply_record(const PaceRecord& record);
  Status apply_record(const DraftRecord& record);
  Status apply_record(const PrefixCacheResetRecord& record);
  Status apply_record(const TierRecord& record);
  Status apply_record(const UnpinRecord& record);
  Status check_free(std::string_view what) const;
  Status restore(const SegmentReader& segment);
  void compare_state(const SegmentReader& segment);
  void differ(std::string what);
  void note_preemptions();

  struct PlannedStep {
    SchedulerOutput plan;
    Instant time{};
  };

  OnEnd on_end_;
  OnStep on_step_;
  std::unique_ptr<Scheduler> scheduler_;
  ReplaySummary summary_;
  std::optional<ReplayDifference> difference_;
  std::optional<std::string> end_reason_;
  SegmentHeader header_;
  Instant time_{};
  StepId step_id_ = 0;  // of the recorded plan
  std::int64_t preemptions_before_ = 0;
  std::deque<PlannedStep> plans_;  // of the steps in flight, the oldest first
  // Kept from step to step.
  ModelRunnerOutput result_;
  std::vector<RequestStepOutput> outputs_;
  std::vector<std::uint8_t> recorded_bytes_;
  std::vector<std::uint8_t> replayed_bytes_;
};

// A plan in lines for people: what it removes, starts, copies and computes.
std::vector<std::string> describe_plan(const SchedulerOutput& plan);

}  // namespace quire
