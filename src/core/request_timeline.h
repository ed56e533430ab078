// What a request did with its life: every wait with its cause and whom it waited for, every chunk
// of its prompt, its runs of decoding. The scheduler writes it down as it decides, so that "why was
// this slow?" has an answer that nobody has to guess.
//
// One span follows the other without a gap, from the arrival to the end, so that their durations
// add up to the whole life.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/beam_report.h"
#include "core/preemption.h"
#include "core/prefix_miss.h"

namespace quire {

enum class WaitCause : std::uint8_t {
  kQueueOrder,      // earlier requests wait before it
  kMaxNumSeqs,      // first in the queue, but max_num_seqs requests run
  kTokenBudget,     // earlier requests used up the step's max_num_batched_tokens
  kNoFreeBlocks,    // first in the queue, but its tokens do not fit into the free blocks
  kPreempted,       // it ran, and gave its blocks to an earlier request
  kBatch,           // a batch is being computed whose members are fixed, or waits for more members
  kForkParent,      // the request's first output computes the prompt that it shares
  kStepTime,        // earlier requests used up the time that a step may take
  kPrefixInFlight,  // a request that runs computes the prefix that they share
  kKvFetch,         // what is computed of its prompt comes from the tier below the KV cache
  kAdmissionPace,   // too few wait to start beside those that run (core/batch_former.h)
};
inline constexpr std::size_t kNumWaitCauses = 11;

// "queue_order" and so on; the stable name used in logs and metrics.
std::string_view wait_cause_name(WaitCause cause);

enum class SpanKind : std::uint8_t {
  kWait,
  kPrefill,  // a step computes tokens of its prompt, or of its output again after a preemption
  kDecode,   // steps that compute its last token and sample the next one
};
inline constexpr std::size_t kNumSpanKinds = 3;
std::string_view span_kind_name(SpanKind kind);  // "wait", "prefill", "decode"

// Requests that a wait is for: the number of them, and the first few.
struct Blockers {
  static constexpr std::size_t kMaxIds = 3;

  void add(RequestId request_id) {
    if (static_cast<std::size_t>(count) < kMaxIds)
      ids[static_cast<std::size_t>(count)] = request_id;
    ++count;
  }
  std::int32_t num_ids() const { return count < std::int32_t{kMaxIds} ? count : kMaxIds; }

  std::int32_t count = 0;
  std::array<RequestId, kMaxIds> ids{};
};

// Times that core reads from a snapshot: none overflows when it is added to another.
inline constexpr Instant kMaxInstant{std::int64_t{1} << 60};  // 36 years
inline bool plausible(Instant instant) {
  return instant >= Instant::zero() && instant <= kMaxInstant;
}

// A step lasts from its planning to the next planning: the engine's own work between two steps is
// part of it.
struct TimelineSpan {
  SpanKind kind = SpanKind::kWait;
  WaitCause cause = WaitCause::kQueueOrder;  // of a wait
  Blockers blockers;                         // of a wait: when it began
  Preemption preemption;                     // of a wait for kPreempted: what it began with
  Instant begin{};
  Instant end{};
  // Not of a wait.
  std::int32_t num_steps = 0;
  std::int32_t num_tokens = 0;             // computed
  std::int32_t num_recomputed_tokens = 0;  // of them: again, after a preemption
  // Tokens before those that were found computed as it started: prefix cache, or fork.
  std::int32_t num_cached_tokens = 0;
};

// What a step computes of a request.
struct ScheduledWork {
  SpanKind kind = SpanKind::kPrefill;  // not kWait
  std::int32_t num_tokens = 0;
  std::int32_t num_recomputed_tokens = 0;
  std::int32_t num_cached_tokens = 0;  // of a request that starts with this step
};

// Of bounded size: the first kMaxSpans spans are kept, of further ones only the totals, which are
// always exact.
class RequestTimeline {
 public:
  static constexpr std::size_t kMaxSpans = 48;

  RequestTimeline() { spans_.reserve(kMaxSpans); }  // nothing is allocated later

  // It waits for `cause` from `now` on, until the next call; again for the same cause changes
  // nothing. True: a new wait has begun, and block() may say for whom.
  bool wait(WaitCause cause, Instant now);
  void block(const Blockers& blockers);  // a wait must be open
  void explain(const Preemption& preemption) { open_->preemption = preemption; }  // likewise
  // A step planned at `now` computes tokens of it. Steps of decoding that follow one another are
  // one span, each chunk of a prompt is its own.
  void compute(const ScheduledWork& work, Instant now);
  void finish(Instant now);

  // Why its prompt was not in the prefix cache, or not to its end, when it first started; nothing
  // before that, and where it shares its prompt with another output.
  void explain(const PrefixMiss& miss) { prefix_miss_ = miss; }
  const std::optional<PrefixMiss>& prefix_miss() const { return prefix_miss_; }

  // What its beam search has come to, after each of its steps; nothing where there is none.
  void explain(const BeamReport& beams) { beams_ = beams; }
  const std::optional<BeamReport>& beams() const { return beams_; }

  // Spans that have ended, none empty; neighbouring waits of one cause are merged.
  const std::vector<TimelineSpan>& spans() const { return spans_; }
  std::int64_t num_spans_dropped() const { return num_spans_dropped_; }
  const std::optional<TimelineSpan>& open() const { return open_; }  // its `end` is unused
  std::optional<WaitCause> current() const;                          // what it waits for now
  // Time until `now`, the open span included: waiting for `cause`; or in spans of that kind.
  Duration total(WaitCause cause, Instant now) const;
  Duration total(SpanKind kind, Instant now) const;

  // All of its state but prefix_miss(), which what a cache has lost decides too, and beams(), which
  // follows from the search.
  struct Snapshot {
    std::vector<TimelineSpan> spans;
    std::optional<TimelineSpan> open;
    std::array<Duration, kNumWaitCauses> wait_totals{};
    std::array<Duration, kNumSpanKinds> totals{};
    std::int64_t num_spans_dropped = 0;
  };
  Snapshot snapshot() const { return {spans_, open_, wait_totals_, totals_, num_spans_dropped_}; }
  // kInvalidArgument where it could be that of no timeline.
  static Result<RequestTimeline> restore(const Snapshot& snapshot);

 private:
  void close(Instant now);

  std::vector<TimelineSpan> spans_;
  std::optional<TimelineSpan> open_;
  std::array<Duration, kNumWaitCauses> wait_totals_{};
  std::array<Duration, kNumSpanKinds> totals_{};
  std::int64_t num_spans_dropped_ = 0;
  std::optional<PrefixMiss> prefix_miss_;
  std::optional<BeamReport> beams_;
};

}  // namespace quire
