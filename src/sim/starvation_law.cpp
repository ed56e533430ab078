#include "sim/starvation_law.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "sim/beam_law.h"
#include "sim/order_law.h"

namespace quire {

void StarvationLaw::arrive(RequestId request_id, std::int32_t priority) {
  Seen& seen = seen_[request_id];
  seen.rank = order_rank(scheduler_.config().policy, *scheduler_.find(request_id), priority);
  seen.num_steps_before = scheduler_.stats().num_steps;
  seen.ahead.assign(present_.begin(), present_.end());
  present_.insert(request_id);
}

void StarvationLaw::plan(const SchedulerOutput& plan) {
  for (const RequestId id : plan.removed_request_ids) {
    if (!present_.contains(id)) continue;
    for (const Request* other : scheduler_.running()) {
      if (other->id() > id) seen_.at(id).ran_on.insert(other->id());
    }
  }
}

void StarvationLaw::end(const Request& request) {
  seen_.at(request.id()).num_steps_alone = steps_alone(request);
  present_.erase(request.id());
}

// Steps that a request needs at most when it is the first: in each it computes
// max_num_batched_tokens (one token at least, where steps are limited; all that it knows, where
// prompts are not cut) or samples; and once more what it lost by each preemption, what was in
// flight included. Of several steps in flight each may have to wait for the result of the one
// before.
std::int64_t StarvationLaw::steps_alone(const Request& request) const {
  const std::int64_t rows = request.max_rows();
  const std::int64_t most = limited_ ? rows : scheduler_.config().max_num_batched_tokens;
  const std::int64_t num_output = num_given_tokens(request) / rows;
  // Beams compute what they have in common first.
  const std::int64_t chunks = ceil_div(request.num_prompt_tokens() + num_output, most / rows) +
                              (request.is_beam_search() ? 1 : 0);
  const std::int64_t in_flight = scheduler_.config().max_steps_in_flight;
  return in_flight * ((1 + request.num_preemptions()) * chunks + num_output +
                      (in_flight - 1) * request.num_preemptions());
}

std::string StarvationLaw::check(RequestId request_id) const {
  const Seen& seen = seen_.at(request_id);
  std::int64_t bound = seen.num_steps_alone;
  std::int64_t num_before = 0;
  const auto add = [&](RequestId other) {
    bound += present_.contains(other) ? steps_alone(*scheduler_.find(other))
                                      : seen_.at(other).num_steps_alone;
    ++num_before;
  };
  for (const RequestId ahead : seen.ahead) add(ahead);
  const SchedulingPolicy policy = scheduler_.config().policy;
  const bool chooses = policy == SchedulingPolicy::kFair ||
                       policy == SchedulingPolicy::kLongestPrefix || scheduler_.config().kv_tier;
  std::int64_t num_overtaking = 0;
  for (auto later = seen_.upper_bound(request_id); later != seen_.end(); ++later) {
    const bool goes_first = chooses || later->second.rank < seen.rank;
    if (!goes_first && !seen.ran_on.contains(later->first)) continue;
    add(later->first);
    num_overtaking += goes_first ? 1 : 0;
  }
  if (policy == SchedulingPolicy::kShortest && num_overtaking > seen.rank) {
    return fmt::format("request {} may be overtaken by {} others", request_id, num_overtaking);
  }
  // The steps in flight when it came cannot include it, and before a batch that is not full there
  // may be steps that only end requests.
  bound += scheduler_.config().max_steps_in_flight;
  bound += scheduler_.config().batching == Batching::kDynamic ? num_before : 0;
  // A step may do no more than begin a fetch.
  bound += scheduler_.stats().num_kv_fetches + std::ssize(scheduler_.fetching());
  const std::int64_t steps = scheduler_.stats().num_steps - seen.num_steps_before;
  if (steps <= bound) return {};
  return fmt::format("request {} took {} steps, at most {} are explained", request_id, steps,
                     bound);
}

}  // namespace quire
