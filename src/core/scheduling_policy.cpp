// Who goes first: the order of those that have one, and the choice among those that wait.
#include <algorithm>

#include "core/scheduler.h"

namespace quire {

std::string_view policy_name(SchedulingPolicy policy) {
  switch (policy) {
    case SchedulingPolicy::kFcfs:
      return "fcfs";
    case SchedulingPolicy::kPriority:
      return "priority";
    case SchedulingPolicy::kShortest:
      return "shortest";
    case SchedulingPolicy::kDeadline:
      return "deadline";
    case SchedulingPolicy::kFair:
      return "fair";
    case SchedulingPolicy::kLongestPrefix:
      return "longest-prefix";
  }
  return "unknown";
}

namespace {

// The lower goes first; it never changes, so a queue stays in order. One more token weighs as much
// as having come one request later, so a request of so many tokens is overtaken by as many at most.
std::int64_t rank_of(SchedulingPolicy policy, const Request& request) {
  switch (policy) {
    case SchedulingPolicy::kPriority:
      return request.priority();
    case SchedulingPolicy::kShortest:
      return static_cast<std::int64_t>(request.arrival_index()) + request.num_prompt_tokens() +
             request.max_output_tokens();
    case SchedulingPolicy::kDeadline:
      return (request.arrival() + request.deadline()).count();
    case SchedulingPolicy::kFcfs:
    case SchedulingPolicy::kFair:
    case SchedulingPolicy::kLongestPrefix:
      break;
  }
  return 0;
}

}  // namespace

bool Scheduler::goes_before(const Request& a, const Request& b) const {
  if (config_.policy != SchedulingPolicy::kFcfs) {
    const std::int64_t rank_of_a = rank_of(config_.policy, a);
    const std::int64_t rank_of_b = rank_of(config_.policy, b);
    if (rank_of_a != rank_of_b) return rank_of_a < rank_of_b;
  }
  return a.arrival_index() < b.arrival_index();
}

// Of those that run, the ones with the highest are preempted before the others: where the policy is
// to be fair those of the user with most running, else the last of its order.
std::int64_t Scheduler::preemption_rank(const Request& request) const {
  return config_.policy == SchedulingPolicy::kFair ? request.share()->num_running
                                                   : rank_of(config_.policy, request);
}

// Where the policy chooses, those that were preempted go first, the earliest of them: the blocks
// that they gave up are for those that run, and another request that got them would soon be
// preempted, too. But not before a request that they may have given way to.
Request& Scheduler::next_waiting() const {
  const bool fair = config_.policy == SchedulingPolicy::kFair;
  if (!fair && config_.policy != SchedulingPolicy::kLongestPrefix) return *waiting_.back();
  const auto preempted = std::find_if(
      waiting_.rbegin(), waiting_.rend(),
      [](const Request* request) { return request->state() == RequestState::kPreempted; });
  if (preempted == waiting_.rend()) return fair ? least_served() : longest_prefix();
  if (!fair) return **preempted;
  Request& least = least_served();
  return least.share()->num_running < (*preempted)->share()->num_running ? least : **preempted;
}

// Before a step is planned: the user who was served least need not wait until a request of a user
// with more running ends.
void Scheduler::give_way(SchedulerOutput& plan, Instant now) {
  if (config_.policy != SchedulingPolicy::kFair || config_.batching != Batching::kContinuous ||
      waiting_.empty()) {
    return;
  }
  const Request& least = least_served();
  if (batch_obstacle(least)) return;
  while (Request* gives_way = who_gives_way_to(least)) {
    if (!lacks_place(least)) return;
    preempt(*gives_way, least, plan, now);
  }
}

// The last in order of those whose user would have no fewer running than `request`'s, once the one
// has replaced the other; nullptr if there is none. So nobody gives way twice in turn.
Request* Scheduler::who_gives_way_to(const Request& request) const {
  const auto gives_way = std::find_if(running_.rbegin(), running_.rend(), [&](const Request* each) {
    return each->share()->num_running >= request.share()->num_running + 2;
  });
  return gives_way == running_.rend() ? nullptr : *gives_way;
}

bool Scheduler::lacks_place(const Request& request) const {
  if (num_rows_running() + request.max_rows() > config_.max_num_seqs) return true;
  return pages_to_start(request) - match_prefix(request).num_used_pages >
         kv_.pool().num_free_blocks();
}

// Of those of the user that has had the least, the earliest.
Request& Scheduler::least_served() const {
  const auto has_had_less = [](const Request* a, const Request* b) {
    return a->share()->served < b->share()->served;
  };
  return **std::min_element(waiting_.rbegin(), waiting_.rend(), has_had_less);
}

// Of the earliest few the one of which most is computed already, unless the first has been
// overtaken often enough.
Request& Scheduler::longest_prefix() const {
  constexpr std::size_t kLooks = 16;
  Request* best = waiting_.back();
  if (num_overtaken_ >= config_.max_overtaken) return *best;
  std::int32_t most = match_prefix(*best).num_tokens;
  const std::size_t count = std::min(kLooks, waiting_.size());
  for (std::size_t i = 1; i < count; ++i) {
    Request* request = waiting_.rbegin()[i];
    const std::int32_t num_tokens = match_prefix(*request).num_tokens;
    if (num_tokens <= most) continue;
    most = num_tokens;
    best = request;
  }
  return *best;
}

// It starts: out of the queue.
void Scheduler::leave_queue(Request& request) {
  const bool first = waiting_.back() == &request;
  if (config_.policy == SchedulingPolicy::kLongestPrefix) {
    if (first) num_overtaken_ = 0;
    if (!first && request.num_preemptions() == 0) ++num_overtaken_;
  }
  if (first) {
    waiting_.pop_back();
  } else {
    std::erase(waiting_, &request);
  }
}

}  // namespace quire
