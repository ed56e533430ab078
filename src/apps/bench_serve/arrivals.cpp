#include "apps/bench_serve/arrivals.h"

#include <cmath>
#include <numbers>

#include "base/random.h"

namespace quire::bench {
namespace {

// Counted random numbers of one seed, in turn.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}

  double uniform() { return random_uniform(seed_, counter_++); }
  // In (0, 1], for logarithms.
  double positive() { return 1 - uniform(); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(positive()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
};

// Gamma-distributed with scale 1, by Marsaglia and Tsang's method (2000).
double draw_gamma(double shape, Draws& draws) {
  if (shape < 1) {
    const double boost = std::pow(draws.positive(), 1 / shape);
    return boost * draw_gamma(shape + 1, draws);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draws.normal();
    const double base = 1 + c * x;
    if (base <= 0) continue;
    const double v = base * base * base;
    if (std::log(draws.positive()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

std::vector<double> draw_arrivals(const ArrivalProcess& process, std::size_t count,
                                  std::uint64_t seed) {
  std::vector<double> arrivals(count, 0.0);
  if (std::isinf(process.rate)) return arrivals;
  Draws draws(mix64(seed ^ 0xA221'7A15));
  double now = 0;
  for (double& arrival : arrivals) {
    now += draw_gamma(process.burstiness, draws) / (process.rate * process.burstiness);
    arrival = now;
  }
  return arrivals;
}

}  // namespace quire::bench
