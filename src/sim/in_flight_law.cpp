#include "sim/in_flight_law.h"

#include <algorithm>

#include <fmt/format.h>

namespace quire {

// Who waits, if the scheduler has just looked at it: the next one, where that is no choice.
const Request* InFlightLaw::who_waits() const {
  const auto waiting = scheduler_.waiting();
  const SchedulingPolicy policy = scheduler_.config().policy;
  const bool chooses =
      policy == SchedulingPolicy::kFair || policy == SchedulingPolicy::kLongestPrefix;
  if (waiting.empty() || (chooses && waiting.size() > 1)) return nullptr;
  const bool waits = waiting.back()->timeline().current() == WaitCause::kPrefixInFlight;
  return waits ? waiting.back() : nullptr;
}

std::string InFlightLaw::check(const SchedulerOutput& plan) {
  const Request* request = who_waits();
  if (request == nullptr) return {};
  const SchedulerConfig& config = scheduler_.config();
  const auto computes = [&](const Request* other) {
    const auto own = request->prompt_token_ids();
    const auto prompt = other->prompt_token_ids();
    const auto num_common = std::ranges::mismatch(own, prompt).in1 - own.begin();
    const auto num_shared = num_common / config.block_size * config.block_size;
    return other->cache_scope() == request->cache_scope() &&
           other->num_computed_tokens() < num_shared && other->num_in_flight_tokens() > 0;
  };
  const auto other = std::ranges::find_if(scheduler_.running(), computes);
  if (other == scheduler_.running().end()) {
    return fmt::format("request {} waits for a prefix that nobody computes", request->id());
  }
  const bool room = plan.total_num_scheduled_tokens < config.max_num_batched_tokens;
  if (!room || scheduler_.pace().limited()) return {};
  const std::int64_t most =
      std::int64_t{config.max_steps_in_flight} * (1 + (*other)->num_preemptions());
  if (++delays_[request->id()][(*other)->id()] <= most) return {};
  return fmt::format("request {} waits for request {} in more than {} steps that had room for it",
                     request->id(), (*other)->id(), most);
}

}  // namespace quire
