// Times to first token and between tokens as clients get them, over the last seconds, gathered only
// while somebody looks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "base/clock.h"

namespace quire {

enum class LatencyKind : std::uint8_t { kFirstToken, kInterToken };

// Nearest ranks; all zero where count is.
struct LatencySummary {
  std::int64_t count = 0;
  Duration p50{};
  Duration p90{};
  Duration p99{};
  Duration max{};
};

class LatencyWindow {
 public:
  static constexpr Duration kLength = std::chrono::seconds(2);
  static constexpr std::size_t kMaxSamples = 16'384;  // of each kind; of more, the latest

  // Output thread; one atomic load while nobody looks. `now` never goes back.
  void add(LatencyKind kind, Duration value, Instant now);

  // Starts or ends gathering; what was gathered is gone. Any thread.
  void watch(bool on);
  // Of the values added in the window that ends now. Any thread.
  LatencySummary summary(LatencyKind kind, Instant now) const;

 private:
  struct Sample {
    Instant time{};
    Duration value{};
  };

  std::atomic<bool> watched_ = false;
  mutable std::mutex mutex_;
  std::array<std::deque<Sample>, 2> samples_;
};

}  // namespace quire
