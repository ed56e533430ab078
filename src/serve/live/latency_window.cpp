#include "serve/live/latency_window.h"

#include <algorithm>
#include <utility>

namespace quire {

void LatencyWindow::add(LatencyKind kind, Duration value) {
  if (!watched_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  Samples& samples = samples_.at(static_cast<std::size_t>(kind));
  ++samples.count;
  if (samples.values.size() < kMaxSamples) samples.values.push_back(value);
}

void LatencyWindow::watch(bool on) {
  watched_.store(on, std::memory_order_relaxed);
  (void)exchange(LatencyKind::kFirstToken);
  (void)exchange(LatencyKind::kInterToken);
}

LatencyWindow::Samples LatencyWindow::exchange(LatencyKind kind) {
  const std::lock_guard lock(mutex_);
  return std::exchange(samples_.at(static_cast<std::size_t>(kind)), {});
}

LatencySummary LatencyWindow::take(LatencyKind kind) {
  Samples samples = exchange(kind);
  if (samples.values.empty()) return {};
  std::ranges::sort(samples.values);
  const auto rank = [&](std::size_t percent) {
    const std::size_t size = samples.values.size();
    return samples.values[(size * percent + 99) / 100 - 1];
  };
  return {.count = samples.count,
          .p50 = rank(50),
          .p90 = rank(90),
          .p99 = rank(99),
          .max = samples.values.back()};
}

}  // namespace quire
