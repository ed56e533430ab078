#include "serve/models/drain_rate.h"

#include <chrono>

#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;

TEST(DrainRate, CountsWhileThereAreRequests) {
  DrainRate rate;
  EXPECT_FALSE(rate.per_second(100s));
  for (int i = 0; i < 40; ++i) rate.begun(100s);
  EXPECT_FALSE(rate.per_second(101s));
  for (int i = 0; i < 10; ++i) rate.ended(101s + i * 100ms);
  EXPECT_DOUBLE_EQ(*rate.per_second(102s), 5);
  rate.refused();
  EXPECT_DOUBLE_EQ(*rate.per_second(110s), 1);
  EXPECT_FALSE(rate.per_second(140s));  // none of late
  rate.ended(140s);
  EXPECT_DOUBLE_EQ(*rate.per_second(140s), 1.0 / DrainRate::kWindowSeconds);
}

// What was before a pause says nothing of how long the machine takes.
TEST(DrainRate, BeginsAnewAfterAPause) {
  DrainRate rate;
  rate.begun(0s);
  rate.ended(1s);
  rate.begun(20s);
  rate.begun(20s);
  EXPECT_FALSE(rate.per_second(21s));
  rate.ended(22s);
  EXPECT_DOUBLE_EQ(*rate.per_second(22s), 0.5);
}

}  // namespace
}  // namespace quire
