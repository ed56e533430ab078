// The laws of pinned prefixes, with what pins and unpins some: what is pinned is found to its end
// at any time, and nothing else is pinned.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/scheduler.h"
#include "sim/coverage.h"
#include "sim/workload.h"

namespace quire {

class PinLaw {
 public:
  PinLaw(std::uint64_t seed, Scheduler& scheduler, Coverage& coverage)
      : random_(mix64(seed ^ 0x9171)), scheduler_(scheduler), coverage_(coverage) {}

  // Some requests ask for a pin, where there may be any.
  void ask(AddRequest& request);
  // One that was accepted, and one that has ended.
  void arrive(const AddRequest& request);
  void end(const Request& request);
  // Now and then lets go of one, and seldom of the whole prefix cache.
  void let_go();
  void let_go_of_all();
  // An empty string, or what is wrong.
  std::string check() const;

 private:
  struct Asked {
    CacheScope scope;
    std::vector<TokenId> tokens;  // of full blocks
    bool ended = false;
  };

  RandomStream random_;
  Scheduler& scheduler_;
  Coverage& coverage_;
  std::map<PinId, Asked> asked_;  // of those that have not ended, and those that are pinned
};

}  // namespace quire
