#include "core/request_timeline.h"

namespace quire {

std::string_view wait_cause_name(WaitCause cause) {
  switch (cause) {
    case WaitCause::kQueueOrder:
      return "queue_order";
    case WaitCause::kMaxNumSeqs:
      return "max_num_seqs";
    case WaitCause::kTokenBudget:
      return "token_budget";
    case WaitCause::kNoFreeBlocks:
      return "no_free_blocks";
    case WaitCause::kBatch:
      return "batch";
    case WaitCause::kForkParent:
      return "fork_parent";
    case WaitCause::kPreempted:
      return "preempted";
  }
  return "unknown";
}

void RequestTimeline::wait(WaitCause cause, Instant now) {
  if (open_ && open_->cause == cause) return;
  resume(now);
  open_ = WaitSpan{cause, now, now};
}

void RequestTimeline::resume(Instant now) {
  if (!open_) return;
  const WaitSpan span{open_->cause, open_->begin, now};
  open_.reset();
  if (span.begin == span.end) return;
  totals_[static_cast<std::size_t>(span.cause)] += span.end - span.begin;
  if (!spans_.empty() && spans_.back().cause == span.cause && spans_.back().end == span.begin) {
    spans_.back().end = span.end;
  } else if (spans_.size() < kMaxSpans) {
    spans_.push_back(span);
  } else {
    ++num_spans_dropped_;
  }
}

std::optional<WaitCause> RequestTimeline::current() const {
  return open_ ? std::optional(open_->cause) : std::nullopt;
}

Duration RequestTimeline::total(WaitCause cause, Instant now) const {
  Duration total = totals_[static_cast<std::size_t>(cause)];
  if (open_ && open_->cause == cause) total += now - open_->begin;
  return total;
}

}  // namespace quire
