#include "apps/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quire {

double percentile(std::span<const double> sorted, double p) {
  const double rank = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(rank));
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  const double share = rank - static_cast<double>(low);
  return sorted[low] * (1 - share) + sorted[high] * share;
}

Statistics statistics(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  return {.mean = std::accumulate(samples.begin(), samples.end(), 0.0) /
                  static_cast<double>(samples.size()),
          .p50 = percentile(samples, 0.5),
          .p90 = percentile(samples, 0.9),
          .p95 = percentile(samples, 0.95),
          .p99 = percentile(samples, 0.99)};
}

json::object to_json(const Statistics& statistics) {
  return {{"mean", statistics.mean},
          {"p50", statistics.p50},
          {"p90", statistics.p90},
          {"p95", statistics.p95},
          {"p99", statistics.p99}};
}

}  // namespace quire
