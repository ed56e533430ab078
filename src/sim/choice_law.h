// The laws of the policies that choose among those that wait: fair shares and the longest prefix.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/scheduler.h"

namespace quire {

// Counts on its own what each user has been given, and how often whoever came first is overtaken.
class ChoiceLaw {
 public:
  explicit ChoiceLaw(const Scheduler& scheduler) : scheduler_(scheduler) {}

  void arrive(const Request& request);
  void end(const Request& request);
  // Of a plan that the scheduler has just made: nobody starts before one that waits whose user has
  // had less; and the first of those that wait is not overtaken more often than the configuration
  // says. An empty string, or what is wrong.
  std::string check(const SchedulerOutput& plan);

 private:
  struct User {
    std::int64_t lifted = 0;                   // given to it without having had it, see FairShares
    std::int64_t ended = 0;                    // of requests that have ended
    std::map<RequestId, std::int64_t> prompt;  // those that are there, what their prompts have cost
  };

  std::int64_t served(const User& user) const;
  std::int64_t served(const Request& request) const { return served(users_.at(request.user())); }
  std::int64_t least(std::int64_t otherwise) const;

  const Scheduler& scheduler_;
  std::map<std::string, User> users_;
  std::int64_t floor_ = 0;
  std::int64_t num_overtaken_ = 0;
};

}  // namespace quire
