#include "sim/choice_law.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sim/beam_law.h"

namespace quire {

std::int64_t ChoiceLaw::served(const User& user) const {
  std::int64_t tokens = user.lifted + user.ended;
  for (const auto& [id, prompt] : user.prompt) {
    tokens += prompt + FairShares::kOutputWeight * num_given_tokens(*scheduler_.find(id));
  }
  return tokens;
}

std::int64_t ChoiceLaw::least(std::int64_t otherwise) const {
  std::optional<std::int64_t> least;
  for (const auto& [name, user] : users_) {
    if (user.prompt.empty()) continue;
    least = std::min(least.value_or(served(user)), served(user));
  }
  return least.value_or(otherwise);
}

void ChoiceLaw::arrive(const Request& request) {
  User& user = users_[request.user()];
  if (user.prompt.empty()) {
    floor_ = least(floor_);
    user.lifted += std::max<std::int64_t>(floor_ - served(user), 0);
  }
  user.prompt.emplace(request.id(), 0);
}

void ChoiceLaw::end(const Request& request) {
  User& user = users_.at(request.user());
  user.ended +=
      user.prompt.at(request.id()) + FairShares::kOutputWeight * num_given_tokens(request);
  user.prompt.erase(request.id());
  // Others that have ended in the same step may still be counted as present: only who is the last
  // says where the next one starts.
  const bool last =
      std::ranges::all_of(users_, [](const auto& each) { return each.second.prompt.empty(); });
  if (last) floor_ = std::max(floor_, served(user));
}

std::string ChoiceLaw::check(const SchedulerOutput& plan) {
  const SchedulingPolicy policy = scheduler_.config().policy;
  std::set<RequestId> waiting;
  for (const Request* request : scheduler_.waiting()) waiting.insert(request->id());
  for (const NewRequestData& each : plan.new_requests) waiting.insert(each.request_id);
  std::map<std::string, int> running;  // requests of each user, as the choices go on
  for (const Request* request : scheduler_.running()) ++running[request->user()];
  for (const NewRequestData& each : plan.new_requests) {
    --running[scheduler_.find(each.request_id)->user()];
  }
  for (const NewRequestData& each : plan.new_requests) {  // in the order of the choices
    const Request& chosen = *scheduler_.find(each.request_id);
    const auto preempted = std::ranges::find_if(
        waiting, [&](RequestId id) { return scheduler_.find(id)->num_preemptions() > 0; });
    const bool has_fewer = policy == SchedulingPolicy::kFair && preempted != waiting.end() &&
                           running[chosen.user()] < running[scheduler_.find(*preempted)->user()];
    const bool resumes = preempted != waiting.end() && !has_fewer;
    const bool chooses =
        policy == SchedulingPolicy::kFair || policy == SchedulingPolicy::kLongestPrefix;
    if (chooses && resumes && *preempted != chosen.id()) {
      return fmt::format("request {} starts before request {}, which was preempted", chosen.id(),
                         *preempted);
    }
    if (policy == SchedulingPolicy::kLongestPrefix) {
      const bool first = *waiting.begin() == chosen.id();
      num_overtaken_ = first ? 0 : num_overtaken_ + (resumes ? 0 : 1);
      if (num_overtaken_ > scheduler_.config().max_overtaken) {
        return fmt::format("request {} is overtaken for the {}th time", *waiting.begin(),
                           num_overtaken_);
      }
    }
    if (policy == SchedulingPolicy::kFair && !resumes) {
      for (const RequestId id : waiting) {
        const std::int64_t less = served(*scheduler_.find(id));
        if (std::pair(less, id) >= std::pair(served(chosen), chosen.id())) continue;
        return fmt::format("request {}, whose user has had {}, starts before request {}: {}",
                           chosen.id(), served(chosen), id, less);
      }
    }
    waiting.erase(chosen.id());
    ++running[chosen.user()];
    std::int64_t& prompt = users_.at(chosen.user()).prompt.at(chosen.id());
    if (chosen.num_preemptions() == 0) {
      prompt =
          FairShares::kPromptWeight * (chosen.num_prompt_tokens() - chosen.num_cached_tokens());
    }
  }
  return {};
}

}  // namespace quire
