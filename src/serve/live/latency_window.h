// Times to first token and between tokens as clients get them, gathered for whoever looks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
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
  // Of each kind between two takes; more are counted and left out of the ranks.
  static constexpr std::size_t kMaxSamples = 16'384;

  // Output thread; one atomic load while nobody looks.
  void add(LatencyKind kind, Duration value);

  // Starts or ends gathering; what was gathered is gone. Any thread.
  void watch(bool on);
  // What came since the last time. Any thread.
  LatencySummary take(LatencyKind kind);

 private:
  struct Samples {
    std::vector<Duration> values;
    std::int64_t count = 0;
  };
  Samples exchange(LatencyKind kind);

  std::atomic<bool> watched_ = false;
  std::mutex mutex_;
  std::array<Samples, 2> samples_;
};

}  // namespace quire
