#include "sim/order_law.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace quire {

std::int64_t order_rank(SchedulingPolicy policy, const Request& request, std::int32_t priority) {
  switch (policy) {
    case SchedulingPolicy::kPriority:
      return priority;
    case SchedulingPolicy::kShortest:
      return static_cast<std::int64_t>(request.arrival_index()) + request.num_prompt_tokens() +
             request.max_output_tokens();
    case SchedulingPolicy::kDeadline:
      return (request.arrival() + request.deadline()).count();
    default:
      return 0;
  }
}

std::string order_error(const Scheduler& scheduler, const SchedulerOutput& plan,
                        const std::map<RequestId, std::int32_t>& priorities) {
  const SchedulingPolicy policy = scheduler.config().policy;
  // Those that choose among the waiting have a law of their own (sim/choice_law.h).
  const bool chooses =
      policy == SchedulingPolicy::kFair || policy == SchedulingPolicy::kLongestPrefix;
  const auto rank = [&](RequestId id) {
    return std::pair(order_rank(policy, *scheduler.find(id), priorities.at(id)), id);
  };
  const auto goes_before = [&](RequestId a, RequestId b) { return rank(a) < rank(b); };
  std::optional<RequestId> first_running;
  std::optional<std::int64_t> last_rank;  // of those that run
  std::optional<RequestId> first_waiting;
  for (const auto& [id, priority] : priorities) {
    if (scheduler.find(id)->fetch_id() != 0) continue;  // others start meanwhile
    if (scheduler.find(id)->state() != RequestState::kRunning) {
      if (!first_waiting || goes_before(id, *first_waiting)) first_waiting = id;
      continue;
    }
    if (!first_running || goes_before(id, *first_running)) first_running = id;
    last_rank = std::max(last_rank.value_or(rank(id).first), rank(id).first);
  }
  if (first_running && scheduler.find(*first_running)->num_in_flight_tokens() == 0) {
    return fmt::format("step {} leaves out request {}, the first", plan.step_id, *first_running);
  }
  if (!first_running && !priorities.empty() && scheduler.num_fetches_in_flight() == 0 &&
      scheduler.config().batching != Batching::kDynamic) {
    return fmt::format("nothing runs in step {}", plan.step_id);
  }
  for (const NewRequestData& each : plan.new_requests) {
    if (!chooses && first_waiting && !goes_before(each.request_id, *first_waiting)) {
      return fmt::format("request {} overtakes request {}", each.request_id, *first_waiting);
    }
  }
  for (const RequestId id : plan.removed_request_ids) {
    // It may return at once, where others have the blocks that it gave up, or wait for a fetch, so
    // that others start.
    if (!priorities.contains(id) || scheduler.find(id)->state() == RequestState::kRunning ||
        scheduler.find(id)->fetch_id() != 0) {
      continue;
    }
    if (first_running && goes_before(id, *first_running)) {
      return fmt::format("request {} is preempted, and goes before all that run", id);
    }
    if (last_rank && *last_rank > rank(id).first) {
      return fmt::format("request {} is preempted, and one that the policy ranks after it is not",
                         id);
    }
  }
  return {};
}

}  // namespace quire
