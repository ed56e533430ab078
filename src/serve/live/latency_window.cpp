#include "serve/live/latency_window.h"

#include <algorithm>

namespace quire {

void LatencyWindow::add(LatencyKind kind, Duration value, Instant now) {
  if (!watched_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  auto& samples = samples_.at(static_cast<std::size_t>(kind));
  samples.push_back({now, value});
  while (samples.size() > kMaxSamples || samples.front().time < now - kLength) samples.pop_front();
}

void LatencyWindow::watch(bool on) {
  watched_.store(on, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  for (auto& samples : samples_) samples.clear();
}

LatencySummary LatencyWindow::summary(LatencyKind kind, Instant now) const {
  std::vector<Duration> values;
  {
    const std::lock_guard lock(mutex_);
    for (const Sample& sample : samples_.at(static_cast<std::size_t>(kind))) {
      if (sample.time >= now - kLength) values.push_back(sample.value);
    }
  }
  if (values.empty()) return {};
  const auto rank = [&](std::size_t percent) {
    const std::size_t index = (values.size() * percent + 99) / 100 - 1;
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
    std::ranges::nth_element(values, at);
    return *at;
  };
  return {.count = std::ssize(values),
          .p50 = rank(50),
          .p90 = rank(90),
          .p99 = rank(99),
          .max = rank(100)};
}

}  // namespace quire
