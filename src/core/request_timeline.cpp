#include "core/request_timeline.h"

#include <algorithm>

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
    case WaitCause::kStepTime:
      return "step_time";
    case WaitCause::kPreempted:
      return "preempted";
    case WaitCause::kPrefixInFlight:
      return "prefix_in_flight";
    case WaitCause::kKvFetch:
      return "kv_fetch";
    case WaitCause::kAdmissionPace:
      return "admission_pace";
  }
  return "unknown";
}

std::string_view span_kind_name(SpanKind kind) {
  switch (kind) {
    case SpanKind::kWait:
      return "wait";
    case SpanKind::kPrefill:
      return "prefill";
    case SpanKind::kDecode:
      return "decode";
  }
  return "unknown";
}

bool RequestTimeline::wait(WaitCause cause, Instant now) {
  if (current() == cause) return false;
  close(now);
  open_ = TimelineSpan{
      .kind = SpanKind::kWait, .cause = cause, .blockers = {}, .preemption = {}, .begin = now};
  return true;
}

void RequestTimeline::block(const Blockers& blockers) { open_->blockers = blockers; }

void RequestTimeline::compute(const ScheduledWork& work, Instant now) {
  const bool goes_on = open_ && open_->kind == SpanKind::kDecode && work.kind == SpanKind::kDecode;
  if (!goes_on) {
    close(now);
    open_ = TimelineSpan{.kind = work.kind, .blockers = {}, .preemption = {}, .begin = now};
  }
  ++open_->num_steps;
  open_->num_tokens += work.num_tokens;
  open_->num_recomputed_tokens += work.num_recomputed_tokens;
  open_->num_cached_tokens += work.num_cached_tokens;
}

void RequestTimeline::finish(Instant now) { close(now); }

void RequestTimeline::close(Instant now) {
  if (!open_) return;
  TimelineSpan span = *open_;
  open_.reset();
  span.end = now;
  const Duration duration = span.end - span.begin;
  const bool waited = span.kind == SpanKind::kWait;
  if (waited && duration == Duration::zero()) return;
  totals_[static_cast<std::size_t>(span.kind)] += duration;
  if (waited) wait_totals_[static_cast<std::size_t>(span.cause)] += duration;
  if (waited && !spans_.empty() && spans_.back().kind == SpanKind::kWait &&
      spans_.back().cause == span.cause && spans_.back().end == span.begin) {
    spans_.back().end = span.end;
  } else if (spans_.size() < kMaxSpans) {
    spans_.push_back(span);
  } else {
    ++num_spans_dropped_;
  }
}

std::optional<WaitCause> RequestTimeline::current() const {
  return open_ && open_->kind == SpanKind::kWait ? std::optional(open_->cause) : std::nullopt;
}

Duration RequestTimeline::total(WaitCause cause, Instant now) const {
  const Duration total = wait_totals_[static_cast<std::size_t>(cause)];
  return current() == cause ? total + now - open_->begin : total;
}

Duration RequestTimeline::total(SpanKind kind, Instant now) const {
  const Duration total = totals_[static_cast<std::size_t>(kind)];
  return open_ && open_->kind == kind ? total + now - open_->begin : total;
}

Result<RequestTimeline> RequestTimeline::restore(const Snapshot& snapshot) {
  const auto plausible_count = [](std::int32_t count) { return count >= 0 && count <= 1 << 30; };
  const auto plausible_span = [&](const TimelineSpan& span) {
    return plausible(span.begin) && plausible(span.end) && plausible_count(span.blockers.count) &&
           plausible(span.preemption.cost) && plausible_count(span.preemption.num_pages) &&
           plausible_count(span.preemption.num_tokens) &&
           plausible_count(span.preemption.num_blocks) && plausible_count(span.num_steps) &&
           plausible_count(span.num_tokens) && plausible_count(span.num_recomputed_tokens) &&
           plausible_count(span.num_cached_tokens);
  };
  if (snapshot.spans.size() > kMaxSpans || snapshot.num_spans_dropped < 0 ||
      !std::ranges::all_of(snapshot.spans, plausible_span) ||
      (snapshot.open && !plausible_span(*snapshot.open)) ||
      !std::ranges::all_of(snapshot.wait_totals, plausible) ||
      !std::ranges::all_of(snapshot.totals, plausible)) {
    return Status::invalid_argument("its timeline cannot be");
  }
  RequestTimeline timeline;
  timeline.spans_.insert(timeline.spans_.end(), snapshot.spans.begin(), snapshot.spans.end());
  timeline.open_ = snapshot.open;
  timeline.wait_totals_ = snapshot.wait_totals;
  timeline.totals_ = snapshot.totals;
  timeline.num_spans_dropped_ = snapshot.num_spans_dropped;
  return timeline;
}

}  // namespace quire
