// Which server of a fleet a request goes to.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "sim/fleet.h"

namespace quire {

class FleetRouter {
 public:
  // At least one server; they outlive it.
  FleetRouter(RouterPolicy policy, std::vector<SimulatedServer*> servers)
      : policy_(policy), servers_(std::move(servers)) {}

  SimulatedServer& choose(const Arrival& arrival);

 private:
  std::size_t least_loaded() const;
  std::size_t with_prefix(const Arrival& arrival);

  RouterPolicy policy_;
  std::vector<SimulatedServer*> servers_;
  std::size_t next_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> server_of_;  // that was given a piece last
};

}  // namespace quire
