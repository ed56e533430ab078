// A warning that each of many requests gives cause for: it is logged once a minute, so that it is
// seen and drowns nothing.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string_view>

namespace quire {

class RareWarning {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes kPause{1};

  // Logs `text` unless it logged something within the last minute. Any thread.
  void warn(std::string_view text);
  // Whether a warning at `now` is to be logged; counts as one then.
  bool due(Clock::time_point now);

 private:
  std::mutex mutex_;
  std::optional<Clock::time_point> last_;
};

}  // namespace quire
