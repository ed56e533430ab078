// Row ops on every level against double arithmetic, on odd sizes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

TEST_P(RowOps, RmsNorm) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 7, 8, 15, 16, 17, 63, 64, 100, 576, 2047, 8192}) {
    const std::int64_t rows = 5;
    const auto n = static_cast<std::size_t>(cols);
    auto x = random_floats(static_cast<std::size_t>(rows) * n, 3.0F, 1);
    x[0] = 1000.0F;  // one outlier, as trained models have
    const auto weight = random_floats(n, 1.0F, 2);
    std::vector<float> out(x.size(), kNan);
    rms_norm(ctx_, x.data(), weight.data(), 1e-5F, rows, cols, out.data());
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      double sum = 0.0;
      for (std::size_t c = 0; c < n; ++c) sum += double{x[r * n + c]} * x[r * n + c];
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
      for (std::size_t c = 0; c < n; ++c) {
        const double expected = x[r * n + c] * scale * weight[c];
        ASSERT_NEAR(out[r * n + c], expected, 2e-6 * std::abs(expected) + 1e-30) << cols;
      }
    }
  }
}

// A row's numbers depend neither on the rows around it nor on the threads.
TEST_P(RowOps, RmsNormOfARowIsTheSameInAnyBatch) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto x = random_floats(std::size_t{40} * 577, 1.0F, 3);
  const auto weight = random_floats(577, 1.0F, 4);
  std::vector<float> all(x.size());
  rms_norm(ctx_, x.data(), weight.data(), 1e-6F, 40, 577, all.data());
  std::vector<float> one(577);
  for (std::size_t row = 0; row < 40; ++row) {
    rms_norm(ctx_, x.data() + row * 577, weight.data(), 1e-6F, 1, 577, one.data());
    ASSERT_TRUE(std::equal(one.begin(), one.end(), all.data() + row * 577));
  }
}

TEST_P(RowOps, RmsNormAndAdd) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 7, 8, 17, 63, 64, 100, 577, 640}) {
    const std::int64_t rows = 3;
    const auto n = static_cast<std::size_t>(cols);
    const auto x = random_floats(static_cast<std::size_t>(rows) * n, 3.0F, 21);
    const auto weight = random_floats(n, 1.0F, 22);
    const auto before = random_floats(x.size(), 1.0F, 23);
    auto out = before;
    rms_norm_and_add(ctx_, x.data(), weight.data(), 1e-6F, rows, cols, out.data());
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      double sum = 0.0;
      for (std::size_t c = 0; c < n; ++c) sum += double{x[r * n + c]} * x[r * n + c];
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + 1e-6);
      for (std::size_t c = 0; c < n; ++c) {
        const double added = x[r * n + c] * scale * weight[c];
        const double expected = before[r * n + c] + added;
        ASSERT_NEAR(out[r * n + c], expected,
                    2e-6 * (std::abs(added) + std::abs(before[r * n + c])))
            << cols;
      }
    }
  }
}

TEST_P(RowOps, LayerNormWithAndWithoutParameters) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 7, 8, 15, 16, 17, 63, 64, 100, 577, 2047, 8192}) {
    for (const int parameters : {0, 1, 2}) {  // none, weights, biases, too
      const bool biased = parameters == 2;
      const std::int64_t rows = 3;
      const auto n = static_cast<std::size_t>(cols);
      auto x = random_floats(static_cast<std::size_t>(rows) * n, 3.0F, 41);
      for (float& value : x) value += 2.0F;  // a mean to take away
      const auto weight =
          parameters == 0 ? std::vector<float>(n, 1.0F) : random_floats(n, 1.0F, 42);
      const auto bias = random_floats(n, 1.0F, 43);
      std::vector<float> out(x.size(), kNan);
      layer_norm(ctx_, x.data(), parameters == 0 ? nullptr : weight.data(),
                 biased ? bias.data() : nullptr, 1e-5F, rows, cols, out.data());
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
        double mean = 0.0;
        for (std::size_t c = 0; c < n; ++c) mean += x[r * n + c];
        mean /= static_cast<double>(n);
        double variance = 0.0;
        for (std::size_t c = 0; c < n; ++c) variance += std::pow(x[r * n + c] - mean, 2);
        const double scale = 1.0 / std::sqrt(variance / static_cast<double>(n) + 1e-5);
        for (std::size_t c = 0; c < n; ++c) {
          const double expected =
              (x[r * n + c] - mean) * scale * weight[c] + (biased ? bias[c] : 0.0F);
          ASSERT_NEAR(out[r * n + c], expected, 1e-5 * (1.0 + std::abs(expected))) << cols;
        }
      }
    }
  }
}

// As an op over contiguous rows gives it.
TEST_P(RowOps, RmsNormInPlaceLeavesWhatLiesBetweenTheRows) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto before = random_floats(std::size_t{7} * 50, 1.0F, 44);
  const auto weight = random_floats(33, 1.0F, 45);
  auto x = before;
  rms_norm_in_place(ctx_, weight.data(), 1e-6F, 7, 33, 50, x.data());
  std::vector<float> one(33);
  for (std::size_t row = 0; row < 7; ++row) {
    rms_norm(ctx_, before.data() + row * 50, weight.data(), 1e-6F, 1, 33, one.data());
    for (std::size_t c = 0; c < 50; ++c) {
      ASSERT_EQ(x[row * 50 + c], c < 33 ? one[c] : before[row * 50 + c]) << row << ' ' << c;
    }
  }
}

TEST_P(RowOps, ScaleAndAdd) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto x = random_floats(20'003, 1.0F, 46);
  const auto before = random_floats(x.size(), 1.0F, 47);
  auto out = before;
  scale_and_add(ctx_, x.data(), 0.22F, static_cast<std::int64_t>(x.size()), out.data());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], before[i] + 0.22F * x[i]);
}

TEST_P(RowOps, ScaleByPosition) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<std::int32_t> positions = {0, 7, 8, 100};
  std::vector<float> x(4 * 5, 2.0F);
  scale_by_position(ctx_, {.growth = 0.5F, .interval = 8.0F}, positions.data(), 4, 3, 5, x.data());
  std::vector<float> later(4 * 5, 2.0F);
  scale_by_position(ctx_, {.growth = 0.5F, .interval = 8.0F, .offset = 1}, positions.data(), 4, 3,
                    5, later.data());
  const std::vector<double> factors = {1, 1, 1 + 0.5 * std::log(2), 1 + 0.5 * std::log(13)};
  const std::vector<double> of_later = {1, 1 + 0.5 * std::log(2), 1 + 0.5 * std::log(2),
                                        1 + 0.5 * std::log(13)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x[i], i % 5 < 3 ? 2 * factors[i / 5] : 2, 1e-6) << i;
    EXPECT_NEAR(later[i], i % 5 < 3 ? 2 * of_later[i / 5] : 2, 1e-6) << i;
  }
}

TEST_P(RowOps, ScaleInPlace) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto before = random_floats(20'003, 1.0F, 26);
  auto x = before;
  scale_in_place(ctx_, 25.25F, static_cast<std::int64_t>(x.size()), x.data());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], before[i] * 25.25F);
}

TEST_P(RowOps, ClampInPlace) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto before = random_floats(20'003, 3.0F, 49);
  auto x = before;
  x[5] = kNan;
  clamp_in_place(ctx_, 2.5F, static_cast<std::int64_t>(x.size()), x.data());
  EXPECT_TRUE(std::isnan(x[5]));
  for (std::size_t i = 6; i < x.size(); ++i) {
    ASSERT_EQ(x[i], std::clamp(before[i], -2.5F, 2.5F));
  }
}

TEST_P(RowOps, AddPositionRows) {
  QUIRE_SKIP_ABSENT_LEVEL();
  constexpr std::size_t kCols = 37;
  const std::vector<std::int32_t> positions = {0, 9, 3, 3};
  const auto table = random_floats(10 * kCols, 1.0F, 50);
  const auto before = random_floats(positions.size() * kCols, 1.0F, 51);
  auto x = before;
  add_position_rows(ctx_, table.data(), positions.data(), std::ssize(positions), kCols, x.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<std::size_t>(positions[i / kCols]);
    ASSERT_EQ(x[i], before[i] + table[row * kCols + i % kCols]);
  }
}

TEST_P(RowOps, SoftCapAndTheLargestAfterIt) {
  QUIRE_SKIP_ABSENT_LEVEL();
  constexpr std::size_t kRows = 3;
  for (const std::size_t cols : {1U, 7U, 16U, 33U, 20'003U}) {
    auto before = random_floats(kRows * cols, 60.0F, 48);
    for (std::size_t i = 0; i < before.size(); i += 5) before[i] *= 1e-4F;  // exact near 0, too
    before[0] = 1e30F;
    before.back() = -1e30F;
    auto x = before;
    std::vector<RowBest> best(kRows);
    soft_cap_and_best(ctx_, 30.0F, kRows, static_cast<std::int64_t>(cols), x.data(), best.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = 30.0 * std::tanh(double{before[i]} / 30.0);
      ASSERT_NEAR(x[i], expected, 6e-7 * std::abs(expected)) << before[i];
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * cols);
      const auto largest = std::max_element(row, row + static_cast<std::ptrdiff_t>(cols));
      EXPECT_EQ(best[r].value, *largest);
      EXPECT_EQ(best[r].index, largest - row);
    }
  }
}

// What differed may be equal then: the first is the largest.
TEST_P(RowOps, SoftCapTakesTheFirstOfThoseThatAreEqualAfterIt) {
  QUIRE_SKIP_ABSENT_LEVEL();
  std::vector<float> x = {1.0F, 900.0F, 1000.0F, -900.0F, kNan};
  RowBest best;
  soft_cap_and_best(ctx_, 30.0F, 1, 4, x.data(), &best);
  EXPECT_EQ(best.value, 30.0F);
  EXPECT_EQ(best.index, 1);
  soft_cap_and_best(ctx_, 30.0F, 1, 5, x.data(), &best);
  EXPECT_TRUE(std::isnan(best.value));
}

INSTANTIATE_TEST_SUITE_P(Levels, RowOps, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
