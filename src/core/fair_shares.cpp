#include "core/fair_shares.h"

#include <algorithm>

#include <fmt/format.h>

namespace quire {

std::optional<std::int64_t> FairShares::least_of_present() const {
  std::optional<std::int64_t> least;
  for (const auto& [name, share] : users_) {
    if (share.num_present > 0 && (!least || share.served < *least)) least = share.served;
  }
  return least;
}

FairShare& FairShares::join(std::string_view user) {
  auto found = users_.find(user);
  if (found == users_.end()) found = users_.emplace(std::string(user), FairShare{}).first;
  FairShare& share = found->second;
  if (share.num_present == 0) {
    floor_ = least_of_present().value_or(floor_);
    share.served = std::max(share.served, floor_);
  }
  ++share.num_present;
  return share;
}

void FairShares::leave(FairShare& share) {
  if (--share.num_present > 0) return;
  floor_ = least_of_present().value_or(std::max(floor_, share.served));
  forget_idle();
}

// A user who has had no more than the floor is treated like a new one.
void FairShares::forget_idle() {
  const auto is_idle = [](const auto& each) { return each.second.num_present == 0; };
  std::erase_if(users_,
                [&](const auto& each) { return is_idle(each) && each.second.served <= floor_; });
  while (static_cast<std::size_t>(std::ranges::count_if(users_, is_idle)) > kMaxIdle) {
    auto least = users_.end();
    for (auto each = users_.begin(); each != users_.end(); ++each) {
      if (!is_idle(*each)) continue;
      if (least == users_.end() || each->second.served < least->second.served) least = each;
    }
    users_.erase(least);
  }
}

FairShares::Snapshot FairShares::snapshot() const {
  Snapshot snapshot;
  snapshot.floor = floor_;
  for (const auto& [name, share] : users_) snapshot.users.push_back({name, share.served});
  return snapshot;
}

Status FairShares::restore(const Snapshot& snapshot) {
  constexpr std::int64_t kMaxServed = std::int64_t{1} << 56;
  const auto plausible = [](std::int64_t served) { return served >= 0 && served <= kMaxServed; };
  if (!plausible(snapshot.floor)) {
    return Status::invalid_argument("the floor of fair shares is out of range");
  }
  floor_ = snapshot.floor;
  for (const Snapshot::User& user : snapshot.users) {
    if (!plausible(user.served) || !users_.emplace(user.name, FairShare{user.served, 0}).second) {
      return Status::invalid_argument(fmt::format("the share of user \"{}\" cannot be", user.name));
    }
  }
  return {};
}

FairShare* FairShares::rejoin(std::string_view user) {
  const auto found = users_.find(user);
  if (found == users_.end()) return nullptr;
  ++found->second.num_present;
  return &found->second;
}

std::int64_t FairShares::sum_of(std::int64_t FairShare::*count) const {
  std::int64_t sum = 0;
  for (const auto& [name, share] : users_) sum += share.*count;
  return sum;
}

}  // namespace quire
