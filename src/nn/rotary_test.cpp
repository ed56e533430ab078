// Rotary positions against their formulas in double precision. Those of published checkpoints are
// compared with the reference's numbers in models/rope_config_test.cpp.
#include "nn/rotary.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr std::int32_t kDim = 32;
constexpr double kTheta = 10000.0;

double plain(std::size_t pair, double theta = kTheta) {
  return std::pow(theta, -2.0 * static_cast<double>(pair) / kDim);
}

void expect_frequencies(RopeSpec rope, std::int64_t max_positions, auto expected) {
  rope.rotary_dim = kDim;
  const auto frequencies = rotary_frequencies(rope, max_positions);
  ASSERT_EQ(frequencies.size(), std::size_t{kDim / 2});
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    EXPECT_NEAR(frequencies[i], expected(i), 1e-6 * expected(i)) << "pair " << i;
  }
}

TEST(RotaryFrequencies, PlainOnesFallGeometrically) {
  expect_frequencies({.factors = {}}, 100, [](std::size_t i) { return plain(i); });
  expect_frequencies({.theta = 500.0, .factors = {}}, 100,
                     [](std::size_t i) { return plain(i, 500.0); });
}

TEST(RotaryFrequencies, LinearScalingDividesAll) {
  expect_frequencies({.scaling = RopeScaling::kLinear, .factor = 4.0, .factors = {}}, 100,
                     [](std::size_t i) { return plain(i) / 4.0; });
}

TEST(RotaryFrequencies, EachPairHasItsOwnFactor) {
  RopeSpec rope = {.scaling = RopeScaling::kFactors, .factors = {}};
  for (int i = 0; i < kDim / 2; ++i) rope.factors.push_back(1.0F + static_cast<float>(i) / 4.0F);
  expect_frequencies(rope, 100,
                     [](std::size_t i) { return plain(i) / (1.0 + static_cast<double>(i) / 4.0); });
}

// The base that makes the slowest pair turn as far within max_positions as the formula says.
TEST(RotaryFrequencies, OnlyTheFirstPairsTurnAsFastAsThoseOfAWholeHead) {
  RopeSpec rope = {.scaling = RopeScaling::kProportional, .factors = {}};
  rope.rotary_dim = 8;
  rope.theta = 16.0;
  rope.factor = 2.0;
  rope.turning_pairs = 2;
  EXPECT_EQ(rotary_frequencies(rope, 100), (std::vector<float>{0.5F, 0.25F, 0.0F, 0.0F}));
}

TEST(RotaryFrequencies, DynamicScalingGrowsTheBaseBeyondTheOriginalLength) {
  const RopeSpec rope = {.scaling = RopeScaling::kDynamic,
                         .factor = 2.0,
                         .original_max_positions = 1000.0,
                         .factors = {}};
  for (const std::int64_t within : {100, 1000}) {
    expect_frequencies(rope, within, [](std::size_t i) { return plain(i); });
  }
  const double theta = kTheta * std::pow(2.0 * 4.0 - 1.0, kDim / (kDim - 2.0));
  expect_frequencies(rope, 4000, [&](std::size_t i) { return plain(i, theta); });
}

TEST(RotaryFrequencies, Llama3LeavesFastPairsAndDividesSlowOnes) {
  const RopeSpec rope = {.scaling = RopeScaling::kLlama3,
                         .factor = 8.0,
                         .original_max_positions = 1024.0,
                         .low_freq_factor = 1.0,
                         .high_freq_factor = 4.0,
                         .factors = {}};
  int num_fast = 0;
  int num_between = 0;
  int num_slow = 0;
  expect_frequencies(rope, 100, [&](std::size_t i) {
    const double turns = 1024.0 * plain(i) / (2.0 * std::numbers::pi);
    if (turns > 4.0) return ++num_fast, plain(i);
    if (turns < 1.0) return ++num_slow, plain(i) / 8.0;
    const double fast_share = (turns - 1.0) / (4.0 - 1.0);
    return ++num_between, plain(i) * (fast_share + (1.0 - fast_share) / 8.0);
  });
  EXPECT_GT(num_fast, 0);
  EXPECT_GT(num_between, 0);
  EXPECT_GT(num_slow, 0);
}

// The ramp lies between the pairs that make beta_fast and beta_slow turns in the original length.
TEST(RotaryFrequencies, YarnStretchesOnARampOverPairs) {
  const auto pair_of = [](double turns) {
    return kDim * std::log(2048.0 / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(kTheta));
  };
  for (const bool truncate : {true, false}) {
    const RopeSpec rope = {.scaling = RopeScaling::kYarn,
                           .factor = 4.0,
                           .original_max_positions = 2048.0,
                           .beta_fast = 32.0,
                           .beta_slow = 1.0,
                           .truncate = truncate,
                           .factors = {}};
    const double begin = truncate ? std::floor(pair_of(32.0)) : pair_of(32.0);
    const double end = truncate ? std::ceil(pair_of(1.0)) : pair_of(1.0);
    EXPECT_GT(begin, 0.0);
    EXPECT_LT(end, kDim / 2.0);
    expect_frequencies(rope, 100, [&](std::size_t i) {
      const double at = static_cast<double>(i);
      if (at <= begin) return plain(i);
      if (at >= end) return plain(i) / 4.0;
      const double stretched = (at - begin) / (end - begin);
      return plain(i) * (1.0 - stretched) + plain(i) / 4.0 * stretched;
    });
  }
}

TEST(RotaryTable, HasEveryPosition) {
  RopeSpec rope;
  rope.rotary_dim = kDim;
  rope.attention_factor = 1.25;
  constexpr std::int64_t kPositions = 300;
  const RotaryTable table(kDim, RopeStyle::kInterleaved,
                          DeviceFloats::of_host(rotary_values(kPositions, rope)));
  EXPECT_EQ(table.rotary_dim(), kDim);
  EXPECT_EQ(table.style(), RopeStyle::kInterleaved);
  EXPECT_EQ(RotaryTable::bytes(kPositions, kDim), kPositions * kDim * sizeof(float));
  for (const std::int64_t position : {0, 1, 17, 299}) {
    const float* row = table.data() + position * kDim;
    for (std::size_t i = 0; i < kDim / 2; ++i) {
      // The angle, not the frequency alone, is rounded to float32.
      const double angle = static_cast<double>(position) * plain(i);
      const double tolerance = 1e-6 + 2e-7 * angle;
      EXPECT_NEAR(row[i], 1.25 * std::cos(angle), tolerance) << position << " pair " << i;
      EXPECT_NEAR(row[kDim / 2 + i], 1.25 * std::sin(angle), tolerance)
          << position << " pair " << i;
    }
  }
}

}  // namespace
}  // namespace quire
