// Time as the engine sees it: nanoseconds since the clock's own start, always passed as an argument
// to code that must replay (core, sim).
#pragma once

#include <chrono>
#include <cstdint>

namespace quire {

using Instant = std::chrono::nanoseconds;   // a point in time, counted from the clock's start
using Duration = std::chrono::nanoseconds;  // a length of time

// The system's steady clock itself, in nanoseconds: for measuring, never in code that must replay.
inline std::int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// Monotonic wall clock. The one implementation used outside simulations.
class SteadyClock {
 public:
  Instant now() const {
    return std::chrono::duration_cast<Instant>(std::chrono::steady_clock::now() - start_);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace quire
