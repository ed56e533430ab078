// What a request finds of its prompt: in the prefix cache, or with one that computes it now; and
// why it is not more.
#include <algorithm>
#include <ranges>

#include "core/scheduler.h"

namespace quire {

// So many tokens need not be computed if the cache has them. The last one always is, for its logits
// or its state. Where the prompt's log probabilities are wanted, and where the last token's state
// is, so is every token that was not computed for this request before. Other poolings need the
// states of earlier tokens, which are lost when a request is preempted.
std::int32_t Scheduler::most_found(const Request& request) {
  if (pools(request.pooling(), 0, request.num_tokens())) return 0;
  const bool all = request.is_pooled() ||
                   (request.sampling_params()->prompt_logprobs && request.sample_index() == 0);
  const std::int32_t most = all ? request.max_computed_so_far() : request.num_tokens();
  return std::min(most, request.num_common_tokens() - 1);
}

KvCacheManager::PrefixMatch Scheduler::match_prefix(const Request& request) const {
  return kv_.match_prefix(request.token_ids(), most_found(request), request.cache_scope());
}

// Of the full blocks at the beginning of its prompt that one of those that run, and go before it,
// has still to compute. That one advances before the request would in every step, so that waiting
// for it costs the request no more than what the last of these steps leave to others: one step, and
// one more for each that may be in flight. It has to be of the prompt: output comes token by token.
Scheduler::PrefixInFlight Scheduler::prefix_in_flight(const Request& request,
                                                      std::int32_t num_found) const {
  PrefixInFlight best;
  if (!config_.enable_prefix_caching || config_.batching != Batching::kContinuous) return best;
  const std::int32_t most = most_found(request);
  if (most < num_found + config_.block_size) return best;
  const auto tokens = std::span(request.token_ids()).first(static_cast<std::size_t>(most));
  for (const Request* other : running_) {
    const auto prompt = other->prompt_token_ids();
    // What differs where the cache ends is not worth comparing from the beginning.
    const auto next = static_cast<std::size_t>(num_found);
    if (other->num_computed_tokens() >= other->num_prompt_tokens() || prompt.size() <= next ||
        prompt[next] != tokens[next] || other->cache_scope() != request.cache_scope() ||
        !goes_before(*other, request)) {
      continue;
    }
    const auto end = std::ranges::mismatch(prompt, tokens).in1;
    const auto num_common = static_cast<std::int32_t>(end - prompt.begin());
    const std::int32_t num_shared = num_common / config_.block_size * config_.block_size;
    if (other->num_computed_tokens() >= num_shared) continue;
    if (num_shared - num_found > best.num_tokens) best = {other, num_shared - num_found};
  }
  return best;
}

// Waiting costs a step at most. Where nobody measures what that is worth, a fixed number of tokens
// is.
bool Scheduler::worth_waiting_for(std::int32_t num_tokens) const {
  if (num_tokens < config_.min_prefix_in_flight) return false;
  return !pace_.limited() || pace_.cost.prompt_token * num_tokens > pace_.cost.step;
}

PrefixMiss Scheduler::explain_miss(const Request& request, const Admission& admission) const {
  const std::int32_t num_found = admission.match.num_tokens;
  PrefixMiss miss{.num_found = num_found};
  const std::int32_t most = most_found(request);
  if (!config_.enable_prefix_caching) {
    miss.cause = PrefixMissCause::kOff;
  } else if (request.num_tokens() == 1) {
    miss.cause = PrefixMissCause::kTooShort;
  } else if (most < request.num_common_tokens() - 1) {
    miss.cause = PrefixMissCause::kWanted;
  } else {
    miss = kv_.explain_miss(request.token_ids(), most, request.cache_scope(), admission.match);
    const bool was_there =
        miss.cause == PrefixMissCause::kNone || miss.cause == PrefixMissCause::kNoRoom;
    const auto in_flight = prefix_in_flight(request, num_found);
    if (was_there || in_flight.computed_by == nullptr) return miss;
    miss = {.cause = PrefixMissCause::kInFlight,
            .num_found = num_found,
            .by = in_flight.computed_by->id()};
  }
  miss.token = request.token_ids()[static_cast<std::size_t>(num_found)];
  return miss;
}

}  // namespace quire
