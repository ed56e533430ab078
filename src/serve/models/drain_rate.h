// How fast requests end, measured over the last seconds: what a Retry-After is computed from.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"

namespace quire {

class DrainRate {
 public:
  static constexpr std::int64_t kWindowSeconds = 30;

  void record(Instant now);  // one request has ended; any thread
  // Requests a second over the window, or since the first one ended; nullopt before that.
  std::optional<double> per_second(Instant now) const;

 private:
  struct Second {
    std::int64_t second = -1;
    std::int64_t count = 0;
  };
  mutable std::mutex mutex_;
  std::array<Second, kWindowSeconds> seconds_{};
  std::optional<Instant> first_;
};

}  // namespace quire
