#include "apps/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quire {

Statistics statistics(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto percentile = [&](double p) {
    const double rank = p * static_cast<double>(samples.size() - 1);
    const auto low = static_cast<std::size_t>(std::floor(rank));
    const std::size_t high = std::min(low + 1, samples.size() - 1);
    const double share = rank - static_cast<double>(low);
    return samples[low] * (1 - share) + samples[high] * share;
  };
  return {.mean = std::accumulate(samples.begin(), samples.end(), 0.0) /
                  static_cast<double>(samples.size()),
          .p50 = percentile(0.5),
          .p90 = percentile(0.9),
          .p95 = percentile(0.95),
          .p99 = percentile(0.99)};
}

json::object to_json(const Statistics& statistics) {
  return {{"mean", statistics.mean},
          {"p50", statistics.p50},
          {"p90", statistics.p90},
          {"p95", statistics.p95},
          {"p99", statistics.p99}};
}

}  // namespace quire
