// How much each user has been given, where the policy is to be fair: virtual token counters
// (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024). Whoever has had the least
// goes first, so a user with a thousand requests in the queue delays another by a few of them at
// most, and a machine with one user is his alone.
//
// A counter goes up with what is computed for the user: each prompt token that no cache had counts
// kPromptWeight, each output token kOutputWeight. Who comes after he had nothing to do starts no
// lower than the others are now: nobody saves up what he did not use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

struct FairShare {
  std::int64_t served = 0;
  std::int64_t num_present = 0;  // requests that wait or run
  std::int64_t num_running = 0;
};

class FairShares {
 public:
  static constexpr std::int64_t kPromptWeight = 1;
  static constexpr std::int64_t kOutputWeight = 2;
  // Users without requests that are remembered; of more, those that have had the least are as new.
  static constexpr std::size_t kMaxIdle = 1024;

  // One more request of this user is there. The share stays where it is while any is.
  FairShare& join(std::string_view user);
  void leave(FairShare& share);

  // All of its state; the requests that are there join again after a restore, with rejoin().
  struct Snapshot {
    struct User {
      std::string name;
      std::int64_t served = 0;
    };
    std::vector<User> users;  // in order of their names
    std::int64_t floor = 0;
  };
  Snapshot snapshot() const;
  // Of a new one. kInvalidArgument naming what cannot be.
  Status restore(const Snapshot& snapshot);
  // nullptr if the user is unknown.
  FairShare* rejoin(std::string_view user);

  // Requests that are there, and those of them that run.
  std::int64_t num_present() const { return sum_of(&FairShare::num_present); }
  std::int64_t num_running() const { return sum_of(&FairShare::num_running); }

 private:
  std::int64_t sum_of(std::int64_t FairShare::*count) const;
  std::optional<std::int64_t> least_of_present() const;
  void forget_idle();

  std::map<std::string, FairShare, std::less<>> users_;
  std::int64_t floor_ = 0;  // what the least served of those who were there last had
};

}  // namespace quire
