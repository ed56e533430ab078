#include "nn/sinusoids.h"

#include <cmath>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(SinusoidalRows, AreSinesThenCosinesOfFallingFrequencies) {
  const std::vector<float> rows = sinusoidal_rows(5, 8, 2);
  ASSERT_EQ(rows.size(), 40U);
  for (std::size_t position = 0; position < 5; ++position) {
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle =
          static_cast<double>(position + 2) * std::pow(10000.0, -static_cast<double>(i) / 3.0);
      EXPECT_NEAR(rows[position * 8 + i], std::sin(angle), 2e-6);
      EXPECT_NEAR(rows[position * 8 + 4 + i], std::cos(angle), 2e-6);
    }
  }
}

}  // namespace
}  // namespace quire
