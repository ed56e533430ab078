// Mean and percentiles of measured times, as reports print them.
#pragma once

#include <span>
#include <vector>

#include "base/json.h"

namespace quire {

inline constexpr double kMillisecondsPerSecond = 1e3;

struct Statistics {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
};

// Of samples in ascending order, at least one: linear interpolation between ranks, p from 0 to 1.
double percentile(std::span<const double> sorted, double p);

// All zero for no samples.
Statistics statistics(std::vector<double> samples);

json::object to_json(const Statistics& statistics);

}  // namespace quire
