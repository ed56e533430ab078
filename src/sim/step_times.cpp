#include "sim/step_times.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace quire {
namespace {

// On the line through two points of a curve.
double on_line(double x0, double y0, double x1, double y1, double x) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

double curve_at(std::span<const StepTimes::Point> curve, std::int64_t tokens) {
  if (curve.size() == 1 || tokens <= curve.front().tokens) return curve.front().value;
  std::size_t after = 1;
  while (after + 1 < curve.size() && curve[after].tokens < tokens) ++after;
  const StepTimes::Point& before = curve[after - 1];
  return on_line(static_cast<double>(before.tokens), before.value,
                 static_cast<double>(curve[after].tokens), curve[after].value,
                 static_cast<double>(tokens));
}

double factor_at(std::span<const StepTimes::Point> factors, std::int64_t tokens) {
  if (factors.empty()) return 1;
  if (tokens <= factors.front().tokens) return factors.front().value;
  if (tokens >= factors.back().tokens) return factors.back().value;
  std::size_t after = 1;
  while (factors[after].tokens < tokens) ++after;
  const auto place = [](std::int64_t count) { return std::log2(static_cast<double>(count)); };
  const StepTimes::Point& before = factors[after - 1];
  return on_line(place(before.tokens), before.value, place(factors[after].tokens),
                 factors[after].value, place(tokens));
}

}  // namespace

std::int64_t tokens_of(const StepWork& work) { return work.num_rows + work.prompt_tokens; }

Duration StepTimes::time_of(const StepWork& work) const {
  constexpr auto kKeys = static_cast<double>(StepCost::kKeys);
  const std::int64_t count = tokens_of(work);
  const double time = curve_at(tokens, count) + row * static_cast<double>(work.num_rows) +
                      row_keys * static_cast<double>(work.row_keys) / kKeys +
                      prompt_keys * static_cast<double>(work.prompt_keys) / kKeys;
  return Duration(static_cast<Duration::rep>(time * factor_at(factors, count)));
}

}  // namespace quire
