// What a step gave, as drafters read it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/step.h"

namespace quire {

// Calls take(scheduled, states, sampled) for each request of `step`: the states of its known tokens
// from scheduled.num_computed_tokens on, [count][state_size], and the tokens that were sampled
// behind them, of which none or some are.
template <typename Take>
void for_each_states(const SchedulerOutput& step, const ModelRunnerOutput& result,
                     std::size_t state_size, const Take& take) {
  std::span<const float> states = result.states;
  std::span<const SampledToken> sampled = result.sampled;
  for (const ScheduledRequest& each : step.scheduled) {
    const auto is_its = [&](const SampledToken& token) {
      return token.request_id == each.request_id;
    };
    const auto own = sampled.first(
        static_cast<std::size_t>(std::ranges::find_if_not(sampled, is_its) - sampled.begin()));
    sampled = sampled.subspan(own.size());
    auto count = static_cast<std::size_t>(each.end_without_drafts() - each.num_computed_tokens);
    if (!own.empty()) count += own.size() - 1;
    const auto given = states.first(count * state_size);
    states = states.subspan(given.size());
    take(each, given, own);
  }
}

// The token that was sampled, and behind it the others that came with it, the most probable first.
inline void take_choices(const ModelRunnerOutput& result, const SampledToken& sampled,
                         std::vector<TokenId>& choices) {
  choices.assign(1, sampled.token_id);
  const auto others = std::span(result.top_logprobs)
                          .subspan(static_cast<std::size_t>(sampled.first_top_logprob),
                                   static_cast<std::size_t>(sampled.num_top_logprobs));
  for (const TokenLogprob& other : others) {
    if (other.token_id != sampled.token_id) choices.push_back(other.token_id);
  }
}

}  // namespace quire
