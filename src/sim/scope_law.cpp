#include "sim/scope_law.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

namespace quire {

void ScopeLaw::end(const Request& request) {
  ended_.push_back({request.cache_scope(), request.token_ids()});
}

std::string ScopeLaw::check(const SchedulerOutput& plan) const {
  for (const NewRequestData& each : plan.new_requests) {
    const Request& request = *scheduler_.find(each.request_id);
    const auto found = std::span(request.token_ids())
                           .first(static_cast<std::size_t>(request.num_computed_tokens()));
    if (found.empty() || request.num_preemptions() > 0) continue;
    const auto has_had = [&](const CacheScope& scope, const std::vector<TokenId>& tokens) {
      return scope == request.cache_scope() && tokens.size() >= found.size() &&
             std::ranges::equal(std::span(tokens).first(found.size()), found);
    };
    const auto is_source = [&](const Request* other) {
      return other != &request && has_had(other->cache_scope(), other->token_ids());
    };
    const bool explained =
        std::ranges::any_of(
            ended_, [&](const Sequence& other) { return has_had(other.scope, other.token_ids); }) ||
        std::ranges::any_of(scheduler_.running(), is_source) ||
        std::ranges::any_of(scheduler_.waiting(), is_source) ||
        std::ranges::any_of(scheduler_.fetching(), is_source);
    if (!explained) {
      return fmt::format("request {} finds {} tokens that no other of its scope has had",
                         each.request_id, found.size());
    }
  }
  return {};
}

}  // namespace quire
