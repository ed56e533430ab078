#include "apps/bench_serve/arrivals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

constexpr std::size_t kCount = 20000;

struct Gaps {
  double mean = 0;
  double variation = 0;    // standard deviation over mean
  double below_tenth = 0;  // share of gaps below a tenth of the mean
};

Gaps gaps_of(const std::vector<double>& arrivals, double mean) {
  Gaps gaps;
  double before = 0;
  double squares = 0;
  for (const double arrival : arrivals) {
    const double gap = arrival - before;
    gaps.mean += gap;
    squares += gap * gap;
    if (gap < mean / 10) gaps.below_tenth += 1;
    before = arrival;
  }
  const auto count = static_cast<double>(arrivals.size());
  gaps.mean /= count;
  gaps.variation = std::sqrt(squares / count - gaps.mean * gaps.mean) / gaps.mean;
  gaps.below_tenth /= count;
  return gaps;
}

TEST(Arrivals, PoissonHasExponentialGaps) {
  const auto arrivals = draw_arrivals({.rate = 8, .burstiness = 1}, kCount, 1);
  ASSERT_EQ(arrivals.size(), kCount);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  const Gaps gaps = gaps_of(arrivals, 1.0 / 8);
  EXPECT_NEAR(gaps.mean, 1.0 / 8, 0.03 / 8);
  EXPECT_NEAR(gaps.variation, 1, 0.03);
  EXPECT_NEAR(gaps.below_tenth, 1 - std::exp(-0.1), 0.01);
}

TEST(Arrivals, BurstinessIsTheShapeOfTheGaps) {
  for (const double burstiness : {0.1, 0.5, 4.0, 100.0}) {
    const auto arrivals = draw_arrivals({.rate = 2, .burstiness = burstiness}, kCount, 3);
    const Gaps gaps = gaps_of(arrivals, 0.5);
    const double variation = 1 / std::sqrt(burstiness);
    EXPECT_NEAR(gaps.mean, 0.5, 0.5 * 4 * variation / std::sqrt(kCount)) << burstiness;
    EXPECT_NEAR(gaps.variation, variation, 0.08 * variation) << burstiness;
  }
}

TEST(Arrivals, AnInfiniteRateIsAllAtOnce) {
  const auto arrivals =
      draw_arrivals({.rate = std::numeric_limits<double>::infinity(), .burstiness = 1}, 5, 0);
  EXPECT_EQ(arrivals, std::vector<double>(5, 0.0));
}

TEST(Arrivals, TheSeedDecides) {
  const ArrivalProcess process = {.rate = 3, .burstiness = 0.7};
  EXPECT_EQ(draw_arrivals(process, 50, 7), draw_arrivals(process, 50, 7));
  EXPECT_NE(draw_arrivals(process, 50, 7), draw_arrivals(process, 50, 8));
  // A longer run begins as a shorter one.
  const auto longer = draw_arrivals(process, 60, 7);
  const auto shorter = draw_arrivals(process, 50, 7);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

}  // namespace
}  // namespace quire::bench
