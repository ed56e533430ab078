#include "sim/fleet_router.h"

namespace quire {

SimulatedServer& FleetRouter::choose(const Arrival& arrival) {
  switch (policy_) {
    case RouterPolicy::kRoundRobin:
      break;
    case RouterPolicy::kLeastLoaded:
      return *servers_[least_loaded()];
    case RouterPolicy::kPrefix:
      return *servers_[with_prefix(arrival)];
  }
  return *servers_[next_++ % servers_.size()];
}

std::size_t FleetRouter::least_loaded() const {
  std::size_t least = 0;
  for (std::size_t i = 1; i < servers_.size(); ++i) {
    if (servers_[i]->load() < servers_[least]->load()) least = i;
  }
  return least;
}

std::size_t FleetRouter::with_prefix(const Arrival& arrival) {
  constexpr std::size_t kMaxRemembered = 1U << 20;
  constexpr std::size_t kFewMore = 8;
  const std::size_t least = least_loaded();
  std::size_t chosen = least;
  for (auto piece = arrival.pieces.rbegin(); piece != arrival.pieces.rend(); ++piece) {
    const auto known = server_of_.find(*piece);
    if (known == server_of_.end()) continue;
    if (servers_[known->second]->load() <= 2 * servers_[least]->load() + kFewMore) {
      chosen = known->second;
    }
    break;
  }
  if (server_of_.size() > kMaxRemembered) server_of_.clear();
  for (const std::uint64_t piece : arrival.pieces) server_of_[piece] = chosen;
  return chosen;
}

}  // namespace quire
