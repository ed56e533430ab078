#include "sim/order_law.h"

#include <optional>

#include <fmt/format.h>

namespace quire {

std::string order_error(const Scheduler& scheduler, const SchedulerOutput& plan,
                        const std::map<RequestId, std::int32_t>& priorities) {
  const bool by_priority = scheduler.config().policy == SchedulingPolicy::kPriority;
  const auto goes_before = [&](RequestId a, RequestId b) {
    const std::int32_t priority_of_a = by_priority ? priorities.at(a) : 0;
    const std::int32_t priority_of_b = by_priority ? priorities.at(b) : 0;
    return priority_of_a != priority_of_b ? priority_of_a < priority_of_b : a < b;
  };
  std::optional<RequestId> first_running;
  std::optional<RequestId> last_running;
  std::optional<RequestId> first_waiting;
  for (const auto& [id, priority] : priorities) {
    if (scheduler.find(id)->state() != RequestState::kRunning) {
      if (!first_waiting || goes_before(id, *first_waiting)) first_waiting = id;
      continue;
    }
    if (!first_running || goes_before(id, *first_running)) first_running = id;
    if (!last_running || goes_before(*last_running, id)) last_running = id;
  }
  if (first_running && scheduler.find(*first_running)->num_in_flight_tokens() == 0) {
    return fmt::format("step {} leaves out request {}, the first", plan.step_id, *first_running);
  }
  if (!first_running && !priorities.empty() && scheduler.config().batching != Batching::kDynamic) {
    return fmt::format("nothing runs in step {}", plan.step_id);
  }
  for (const NewRequestData& each : plan.new_requests) {
    if (first_waiting && !goes_before(each.request_id, *first_waiting)) {
      return fmt::format("request {} overtakes request {}", each.request_id, *first_waiting);
    }
  }
  for (const RequestId id : plan.removed_request_ids) {
    // It may return at once, where others have the blocks that it gave up.
    if (!priorities.contains(id) || scheduler.find(id)->state() == RequestState::kRunning) continue;
    if (last_running && !goes_before(*last_running, id)) {
      return fmt::format("request {} is preempted, and {} is not", id, *last_running);
    }
  }
  return {};
}

}  // namespace quire
