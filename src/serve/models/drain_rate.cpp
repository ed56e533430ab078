#include "serve/models/drain_rate.h"

#include <algorithm>
#include <chrono>

namespace quire {
namespace {

std::int64_t second_of(Instant now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

void DrainRate::begun(Instant now) {
  const std::lock_guard lock(mutex_);
  if (num_open_++ > 0) return;
  busy_since_ = now;
  seconds_.fill({});
}

void DrainRate::refused() {
  const std::lock_guard lock(mutex_);
  --num_open_;
}

void DrainRate::ended(Instant now) {
  const std::int64_t second = second_of(now);
  const std::lock_guard lock(mutex_);
  --num_open_;
  Second& slot = seconds_[static_cast<std::size_t>(second % kWindowSeconds)];
  if (slot.second != second) slot = {second, 0};
  ++slot.count;
}

std::optional<double> DrainRate::per_second(Instant now) const {
  const std::int64_t second = second_of(now);
  const std::lock_guard lock(mutex_);
  std::int64_t count = 0;
  for (const Second& slot : seconds_) {
    if (slot.second > second - kWindowSeconds && slot.second <= second) count += slot.count;
  }
  if (count == 0) return std::nullopt;
  constexpr double kLeastSeconds = 0.01;
  const double elapsed =
      std::clamp(to_seconds(now - busy_since_), kLeastSeconds, static_cast<double>(kWindowSeconds));
  return static_cast<double>(count) / elapsed;
}

}  // namespace quire
