// Running requests give up their blocks where others need them.
#include "core/scheduler.h"

namespace quire {

// Sees that there are blocks for a running request's next tokens, taken from rows that nobody wants
// and then from next_victim() if need be; false if that was the request itself, which has been
// preempted.
bool Scheduler::make_room(const Request& request, std::int32_t num_tokens, SchedulerOutput& plan,
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

// `for_request` needs its blocks; it may be the request itself, which then goes before the others
// would have to.
void Scheduler::preempt(Request& request, const Request& for_request, SchedulerOutput& plan,
                        Instant now) {
  const StepsInFlight::Forgotten in_flight = steps_.forget(request);
  counters_.tokens_discarded += in_flight.num_tokens;
  count_drafts(request, 0, in_flight.num_drafts);
  let_go(request, in_flight.num_tokens == 0, plan.removed_request_ids);
  request.preempt(now);
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
}

// Who gives up its blocks for a running request: the last in order; where the policy is to be fair,
// the last of those whose user has most running. Those before the request are planned already.
Request& Scheduler::next_victim(const Request& request) const {
  Request* victim = running_.back();
  if (config_.policy != SchedulingPolicy::kFair) return *victim;
  for (auto each = running_.rbegin(); *each != &request; ++each) {
    const bool more = (*each)->share()->num_running > victim->share()->num_running;
    victim = more ? *each : victim;
  }
  const bool itself = request.share()->num_running > victim->share()->num_running;
  return itself ? *requests_.at(request.id()) : *victim;
}

}  // namespace quire
