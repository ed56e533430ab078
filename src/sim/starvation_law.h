// No request waits for ever: the law behind the order of the scheduler, as a bound on steps.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/scheduler.h"

namespace quire {

// In every step the first of those that run advances. So a request ends after at most the steps for
// itself, for those that were there before it, and for those that came later and go before it: by
// the order of the policy, because it may choose them (which sim/choice_law.h bounds), while blocks
// of the request's prompt were fetched, or because they ran on when the request was preempted.
class StarvationLaw {
 public:
  // `limited`: the scheduler may be given a pace.
  StarvationLaw(const Scheduler& scheduler, bool limited)
      : scheduler_(scheduler), limited_(limited) {}

  void arrive(RequestId request_id, std::int32_t priority);  // ids count arrivals
  void plan(const SchedulerOutput& plan);                    // that the scheduler has just made
  void end(const Request& request);
  // Of a request that ended by itself, once all that ended in the same step have: an empty string,
  // or what is wrong.
  std::string check(RequestId request_id) const;

 private:
  struct Seen {
    std::int64_t rank = 0;              // order_rank()
    std::int64_t num_steps_before = 0;  // of the scheduler, when it came
    std::vector<RequestId> ahead;       // requests that were there when it came
    std::set<RequestId> ran_on;         // that came later, and ran when it had been preempted
    std::int64_t num_steps_alone = 0;   // once it has ended
  };

  std::int64_t steps_alone(const Request& request) const;

  const Scheduler& scheduler_;
  const bool limited_;
  std::map<RequestId, Seen> seen_;
  std::set<RequestId> present_;
};

}  // namespace quire
