// How fast requests end while there are any, measured over the last seconds: what is said of how
// long others will wait is computed from it.
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

  // All of any thread. A request comes in; it goes without having been accepted; it has ended.
  void begun(Instant now);
  void refused();
  void ended(Instant now);
  // Requests a second over the window, or since there are any without a pause; nullopt before the
  // first of these has ended.
  std::optional<double> per_second(Instant now) const;

 private:
  struct Second {
    std::int64_t second = -1;
    std::int64_t count = 0;
  };
  mutable std::mutex mutex_;
  std::array<Second, kWindowSeconds> seconds_{};
  std::int64_t num_open_ = 0;
  Instant busy_since_{};  // while there are any
};

}  // namespace quire
