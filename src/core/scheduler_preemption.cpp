// Running requests give up their blocks where others need them: who, and how.
#include <algorithm>

#include "core/preemption.h"
#include "core/scheduler.h"

namespace quire {

std::string_view preemption_method_name(PreemptionMethod method) {
  switch (method) {
    case PreemptionMethod::kRecompute:
      return "recompute";
    case PreemptionMethod::kSwap:
      return "swap";
  }
  return "unknown";
}

// Sees that there are blocks for a running request's next tokens, taken from rows that nobody wants
// and then from next_victim() if need be; false if that was the request itself, which has been
// preempted.
bool Scheduler::make_room(Request& request, std::int32_t num_tokens, SchedulerOutput& plan,
                          Instant now) {
  while (kv_.pages_needed(request.row_ids(), request.num_scheduled_tokens(), num_tokens) >
         kv_.pool().num_free_blocks()) {
    if (!retained_.empty()) {
      drop_retained_rows(retained_.size() - 1);
      continue;
    }
    Request& victim = next_victim(request);
    preempt(victim, request, plan, now);
    if (&victim == &request) return false;
  }
  return true;
}

// Who gives up its blocks for a running request. Of those after it, which are not planned yet, the
// policy says who is to go first; of equals one that has computed something since it was preempted
// itself, so that no work is lost again and again; of these the one whose state costs the least to
// get back for each page that becomes free, and the last where that is the same. The request itself
// only where the policy ranks all after it before it, or there are none.
Request& Scheduler::next_victim(Request& request) const {
  const auto own = std::ranges::find(running_, &request);
  const auto after = std::span(running_).subspan(own - running_.begin() + 1);
  std::int64_t rank = preemption_rank(request);
  bool others = false;
  for (const Request* each : after) {
    if (preemption_rank(*each) < rank) continue;
    rank = preemption_rank(*each);
    others = true;
  }
  if (!others) return request;
  Request* victim = nullptr;
  Standing best;
  for (auto each = after.rbegin(); each != after.rend(); ++each) {
    if (preemption_rank(**each) != rank) continue;
    const Standing standing = standing_of(**each);
    if (victim != nullptr && standing >= best) continue;
    victim = *each;
    best = standing;
  }
  return *victim;
}

Scheduler::Standing Scheduler::standing_of(const Request& request) const {
  const Preemption preemption = assess(request);
  const auto cost = static_cast<double>(preemption.cost.count());
  return {.frees_nothing = preemption.num_pages == 0,
          .recomputes = request.num_computed_tokens() < request.max_computed_so_far(),
          .cost = cost / std::max(preemption.num_pages, 1)};
}

// What it would give up now, in the way that costs less. Where a cost has not been measured yet,
// its blocks go to the lower tier, if there is one, so that it is.
Preemption Scheduler::assess(const Request& request) const {
  const std::span<const RequestId> rows = request.placed_row_ids();
  const KvCacheManager::OwnPages own = kv_.own_pages(rows);
  // Of a beam search one row computes what all have in common.
  const std::int32_t num_tokens = std::min(request.num_scheduled_tokens(), request.num_tokens());
  const std::int32_t num_common = std::min(num_tokens, request.num_common_tokens());
  const std::int32_t num_findable =
      config_.enable_prefix_caching ? std::min(most_found(request), num_common) / config_.block_size
                                    : 0;
  const std::int32_t num_kept = std::min(own.num_shared_blocks, num_findable);
  const auto again = [&](std::int32_t num_blocks) {
    const std::int32_t begin = num_blocks * config_.block_size;
    StepWork work;
    work.add_prompt(begin, num_common - begin);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      work.add_prompt(num_common, num_tokens - num_common);
    }
    return work;
  };
  const auto with = [&](PreemptionMethod method, const StepWork& work, std::int32_t num_blocks) {
    return Preemption{.method = method,
                      .cost = pace_.cost.time_beside(work) + num_blocks * pace_.block_fetch,
                      .num_pages = own.num_pages,
                      .num_tokens = static_cast<std::int32_t>(work.prompt_tokens),
                      .num_blocks = num_blocks};
  };
  const Preemption recompute = with(PreemptionMethod::kRecompute, again(num_kept), 0);
  if (!kv_.tier().stores() || num_findable == num_kept ||
      config_.batching != Batching::kContinuous) {
    return recompute;
  }
  Preemption swap = with(PreemptionMethod::kSwap, again(num_findable), num_findable - num_kept);
  if (!pace_.knows_fetches()) {
    swap.cost = recompute.cost;
    return swap;
  }
  return swap.cost < recompute.cost ? swap : recompute;
}

// `for_request` needs its blocks; it may be the request itself, which then goes before the others
// would have to.
void Scheduler::preempt(Request& request, const Request& for_request, SchedulerOutput& plan,
                        Instant now) {
  const Preemption preemption = assess(request);
  const StepsInFlight::Forgotten in_flight = steps_.forget(request);
  counters_.tokens_discarded += in_flight.num_tokens;
  count_drafts(request, 0, in_flight.num_drafts);
  if (preemption.method == PreemptionMethod::kRecompute) kv_.withhold(request.placed_row_ids());
  let_go(request, in_flight.num_tokens == 0, plan.removed_request_ids);
  request.preempt(preemption, now);
  if (&for_request == &request) {
    request.wait_for(others_running(request));
  } else {
    request.wait_for({.count = 1, .ids = {for_request.id()}});
  }
  std::erase(running_, &request);
  if (request.share() != nullptr) --request.share()->num_running;
  enqueue(request);
  batch_.returned();
  ++counters_.num_preemptions;
  counters_.num_preemptions_by_swap += preemption.method == PreemptionMethod::kSwap ? 1 : 0;
}

}  // namespace quire
