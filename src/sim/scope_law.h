// The law of scopes: tokens that a request finds computed were computed for a request of its own
// scope.
#pragma once

#include <string>
#include <vector>

#include "core/scheduler.h"

namespace quire {

class ScopeLaw {
 public:
  explicit ScopeLaw(const Scheduler& scheduler) : scheduler_(scheduler) {}

  void end(const Request& request);
  // Of a plan that the scheduler has just made: whoever starts with tokens that are computed has
  // them in common with another request of its scope, or had started before. An empty string, or
  // what is wrong.
  std::string check(const SchedulerOutput& plan) const;

 private:
  struct Sequence {
    CacheScope scope;
    std::vector<TokenId> token_ids;
  };

  const Scheduler& scheduler_;
  std::vector<Sequence> ended_;
};

}  // namespace quire
