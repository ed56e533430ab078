#include "nn/sinusoids.h"

#include <cmath>

namespace quire {

std::vector<float> sinusoidal_rows(std::int64_t num_positions, std::int64_t width,
                                   std::int64_t offset) {
  const std::int64_t half = width / 2;
  const auto step = static_cast<float>(std::log(10000.0) / static_cast<double>(half - 1));
  std::vector<float> rows;
  rows.reserve(static_cast<std::size_t>(num_positions * width));
  for (std::int64_t position = offset; position < offset + num_positions; ++position) {
    const auto angle_of = [&](std::int64_t i) {
      return static_cast<float>(position) * std::exp(static_cast<float>(i) * -step);
    };
    for (std::int64_t i = 0; i < half; ++i) rows.push_back(std::sin(angle_of(i)));
    for (std::int64_t i = 0; i < half; ++i) rows.push_back(std::cos(angle_of(i)));
  }
  return rows;
}

}  // namespace quire
