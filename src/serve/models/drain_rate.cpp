#include "serve/models/drain_rate.h"

#include <algorithm>
#include <chrono>

namespace quire {
namespace {

std::int64_t second_of(Instant now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

void DrainRate::record(Instant now) {
  const std::int64_t second = second_of(now);
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = now;
  Second& slot = seconds_[static_cast<std::size_t>(second % kWindowSeconds)];
  if (slot.second != second) slot = {second, 0};
  ++slot.count;
}

std::optional<double> DrainRate::per_second(Instant now) const {
  const std::int64_t second = second_of(now);
  const std::lock_guard lock(mutex_);
  if (!first_) return std::nullopt;
  std::int64_t count = 0;
  for (const Second& slot : seconds_) {
    if (slot.second > second - kWindowSeconds && slot.second <= second) count += slot.count;
  }
  const double elapsed =
      std::clamp(to_seconds(now - *first_), 1.0, static_cast<double>(kWindowSeconds));
  return static_cast<double>(count) / elapsed;
}

}  // namespace quire
