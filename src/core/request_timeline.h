// Why a request waited, and for how long. The scheduler writes it down as it decides, so that "why
// was this slow?" has an answer that nobody has to guess.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace quire {

enum class WaitCause : std::uint8_t {
  kQueueOrder,    // earlier requests wait before it
  kMaxNumSeqs,    // first in the queue, but max_num_seqs requests run
  kTokenBudget,   // earlier requests used up the step's max_num_batched_tokens
  kNoFreeBlocks,  // first in the queue, but its tokens do not fit into the free blocks
  kPreempted,     // it ran, and gave its blocks to an earlier request
  kBatch,         // a batch is being computed whose members are fixed, or waits for more members
  kForkParent,    // the request's first output computes the prompt that it shares
};
inline constexpr std::size_t kNumWaitCauses = 7;

// "queue_order" and so on; the stable name used in logs and metrics.
std::string_view wait_cause_name(WaitCause cause);

struct WaitSpan {
  WaitCause cause = WaitCause::kQueueOrder;
  Instant begin{};
  Instant end{};
};

// The waits of one request in order of time. Of bounded size: the first kMaxSpans spans are kept,
// further ones are only counted; the totals by cause are always exact.
class RequestTimeline {
 public:
  static constexpr std::size_t kMaxSpans = 32;

  RequestTimeline() { spans_.reserve(kMaxSpans); }  // nothing is allocated later

  // It waits for `cause` from `now` on, until the next call; again for the same cause changes
  // nothing.
  void wait(WaitCause cause, Instant now);
  // It waits no longer.
  void resume(Instant now);

  // Spans that have ended, none empty; neighbours of one cause are merged.
  const std::vector<WaitSpan>& spans() const { return spans_; }
  std::int64_t num_spans_dropped() const { return num_spans_dropped_; }
  std::optional<WaitCause> current() const;  // what it waits for now
  // Time spent waiting for `cause` until `now`, the current wait included.
  Duration total(WaitCause cause, Instant now) const;

 private:
  std::vector<WaitSpan> spans_;
  std::optional<WaitSpan> open_;  // its `end` is unused
  std::array<Duration, kNumWaitCauses> totals_{};
  std::int64_t num_spans_dropped_ = 0;
};

}  // namespace quire
