#include "sim/account_law.h"

#include <fmt/format.h>

namespace quire {
namespace {

// Its spans follow one another without a gap and say all that was computed for it.
// `fetches`: blocks may be wanted for a fetch, which is no request.
std::string check_story(const Request& request, Duration waited, Duration life, Instant now,
                        bool fetches) {
  const RequestTimeline& timeline = request.timeline();
  Duration total{};
  for (std::size_t kind = 0; kind < kNumSpanKinds; ++kind) {
    total += timeline.total(static_cast<SpanKind>(kind), now);
  }
  if (total != life || timeline.open() || timeline.total(SpanKind::kWait, now) != waited) {
    return fmt::format("request {}: its spans are not its life", request.id());
  }
  if (timeline.num_spans_dropped() > 0) return {};
  Instant at = request.arrival();
  std::int64_t num_tokens = 0;
  std::int64_t num_again = 0;
  std::int64_t num_preempted = 0;
  for (const TimelineSpan& span : timeline.spans()) {
    if (span.begin != at || span.end < at) {
      return fmt::format("request {}: a gap between its spans", request.id());
    }
    at = span.end;
    num_tokens += span.num_tokens + span.num_cached_tokens;
    num_again += span.num_recomputed_tokens;
    const bool preempted = span.kind == SpanKind::kWait && span.cause == WaitCause::kPreempted;
    num_preempted += preempted ? 1 : 0;
    if (preempted && span.blockers.count == 0 && !fetches) {
      return fmt::format("request {} was preempted for nobody", request.id());
    }
  }
  if (num_again < request.num_recomputed_tokens()) {  // what a step in flight at its end lost
    return fmt::format("request {}: recomputed tokens are missing in its spans", request.id());
  }
  if (num_preempted > request.num_preemptions() || num_tokens < request.num_computed_tokens()) {
    return fmt::format("request {}: its spans are not what it did", request.id());
  }
  return {};
}

}  // namespace

std::string check_account(const Request& request, const SchedulerConfig& config, Instant now) {
  Duration waited{};
  for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
    waited += request.timeline().total(static_cast<WaitCause>(i), now);
  }
  const Duration life = *request.finish_time() - request.arrival();
  auto error = check_story(request, waited, life, now, config.kv_tier);
  if (!error.empty()) return error;
  if (request.step_time() < Duration::zero() || request.step_time() > life) {
    return fmt::format("request {} has more of the time of steps than it was there", request.id());
  }
  if (request.num_preemptions() == 0 && request.num_recomputed_tokens() != 0) {
    return fmt::format("request {} recomputed without a preemption", request.id());
  }
  if (!request.first_scheduled() && waited != life) {
    return fmt::format("request {} never ran, and not all of its life is explained", request.id());
  }
  const bool may_share =
      !request.is_pooled() && (config.enable_prefix_caching || request.sampling_params()->n > 1);
  if (request.num_cached_tokens() >= request.num_prompt_tokens() ||
      (request.num_cached_tokens() > 0 && !may_share)) {
    return fmt::format("request {}: {} of {} prompt tokens are cached", request.id(),
                       request.num_cached_tokens(), request.num_prompt_tokens());
  }
  return {};
}

std::string totals_error(const SchedulerStats& stats, std::int64_t num_scheduled_tokens,
                         std::int64_t num_drafts) {
  const std::int64_t num_computed_tokens = stats.prompt_tokens_computed +
                                           stats.output_tokens_computed + stats.tokens_recomputed +
                                           stats.tokens_discarded;
  if (stats.num_aborted == 0 ? num_computed_tokens != num_scheduled_tokens
                             : num_computed_tokens > num_scheduled_tokens) {
    return fmt::format("{} tokens are accounted for, {} were scheduled", num_computed_tokens,
                       num_scheduled_tokens);
  }
  if (stats.draft_tokens != num_drafts ||
      stats.draft_tokens != stats.draft_tokens_accepted + stats.draft_tokens_rejected) {
    return fmt::format("{} drafts were computed, but {} are counted: {} accepted, {} rejected",
                       num_drafts, stats.draft_tokens, stats.draft_tokens_accepted,
                       stats.draft_tokens_rejected);
  }
  return {};
}

}  // namespace quire
