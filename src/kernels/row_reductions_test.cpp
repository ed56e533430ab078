// What is taken from a whole row, on every level: its largest number, and the logarithm of the sum
// of exponentials against double arithmetic.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"

namespace quire {
namespace {

class RowReductions : public RowOps {};

TEST_P(RowReductions, LogSumExp) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 2, 7, 8, 9, 16, 31, 33, 100, 512, 49152}) {
    const std::int64_t rows = 4;
    const auto n = static_cast<std::size_t>(cols);
    const auto logits = random_floats(static_cast<std::size_t>(rows) * n, 8.0F, 8);
    std::vector<float> log_sum(4);
    std::vector<RowBest> best(4);
    for (std::size_t r = 0; r < 4; ++r) {
      best[r] = ctx_.table.rows.best_of_row(logits.data() + r * n, cols);
    }
    log_sum_exp(ctx_, logits.data(), best.data(), rows, cols, log_sum.data());
    for (std::size_t r = 0; r < 4; ++r) {
      const float* x = logits.data() + r * n;
      const float largest = *std::max_element(x, x + n);
      double sum = 0.0;
      for (std::size_t i = 0; i < n; ++i) sum += std::exp(double{x[i]} - largest);
      EXPECT_NEAR(log_sum[r], largest + std::log(sum), 4e-6 * (1.0 + std::abs(largest)));
    }
  }
}

TEST_P(RowReductions, TokenWeightsAreTheSameAtEveryLevel) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t count : {1, 15, 16, 17, 63, 64, 65, 200, 49152}) {
    const auto n = static_cast<std::size_t>(count);
    std::vector<float> logits = random_floats(n, 8.0F, 8);
    if (n > 2) logits[1] = -kInfinity;
    const float largest = *std::ranges::max_element(logits);
    const auto num_blocks = static_cast<std::size_t>(TokenBlock::count(count));
    struct Weighed {
      std::vector<float> weights;
      std::vector<TokenBlock> blocks;
    };
    const auto weigh = [&](const RowKernels& kernels) {
      Weighed weighed = {.weights = std::vector<float>(n),
                         .blocks = std::vector<TokenBlock>(num_blocks)};
      kernels.token_weights(logits.data(), count, largest, 1.25F, weighed.weights.data(),
                            weighed.blocks.data());
      return weighed;
    };
    const Weighed got = weigh(ctx_.table.rows);
    const Weighed expected = weigh(op_table(IsaLevel::kRef).rows);
    EXPECT_EQ(got.weights, expected.weights);
    for (std::size_t i = 0; i < n; ++i) {
      const double exponent = (double{logits[i]} - largest) * 1.25;
      const double error = 4e-7 * (1 + std::min(-exponent, 87.0));  // the exponent is rounded
      EXPECT_NEAR(got.weights[i], std::exp(exponent), error * std::exp(exponent) + 2e-38);
    }
    for (std::size_t block = 0; block < num_blocks; ++block) {
      EXPECT_EQ(got.blocks[block].sum, expected.blocks[block].sum);
      double sum = 0;
      float heaviest = 0;
      for (std::size_t i = block * TokenBlock::kTokens;
           i < std::min(n, (block + 1) * TokenBlock::kTokens); ++i) {
        sum += got.weights[i];
        heaviest = std::max(heaviest, got.weights[i]);
      }
      EXPECT_NEAR(got.blocks[block].sum, sum, 2e-6 * sum);
      EXPECT_EQ(got.blocks[block].largest, heaviest);
    }
  }
}

TEST_P(RowReductions, LogSumExpOfNanAndInfinity) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::size_t n : {3U, 8U, 16U, 19U, 70U}) {
    const auto run = [&](const std::vector<float>& x) {
      float log_sum = 0.0F;
      const auto cols = static_cast<std::int64_t>(n);
      const RowBest best = ctx_.table.rows.best_of_row(x.data(), cols);
      log_sum_exp(ctx_, x.data(), &best, 1, cols, &log_sum);
      return log_sum;
    };
    std::vector<float> x(n, 1.5F);
    EXPECT_NEAR(run(x), 1.5 + std::log(static_cast<double>(n)), 1e-5);
    x[n - 1] = kNan;
    EXPECT_TRUE(std::isnan(run(x)));
    x[1] = kInfinity;
    EXPECT_TRUE(std::isnan(run(x)));
    x.assign(n, -kInfinity);
    EXPECT_EQ(run(x), -kInfinity);
    x[n - 2] = 2.0F;  // everything else masked
    EXPECT_EQ(run(x), 2.0F);
    x[1] = kInfinity;
    EXPECT_EQ(run(x), kInfinity);
  }
}

// Against a plain loop: every length of a tail, the largest anywhere, ties, numbers without bound.
TEST_P(RowReductions, BestOfRow) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto best_of = [&](const std::vector<float>& x) {
    return ctx_.table.rows.best_of_row(x.data(), std::ssize(x));
  };
  for (const std::size_t n : {1U, 2U, 7U, 8U, 9U, 31U, 64U, 100U, 2047U, 2049U, 4133U, 49152U}) {
    std::vector<float> x = random_floats(n, 8.0F, 8);
    for (float& value : x) value = std::round(value * 4) / 4;  // ties
    const auto wanted = std::ranges::max_element(x) - x.begin();
    EXPECT_EQ(best_of(x).index, wanted) << n;
    EXPECT_EQ(best_of(x).value, x[static_cast<std::size_t>(wanted)]);
    for (const std::size_t at : {std::size_t{0}, n / 3, n - 1}) {
      std::vector<float> y = x;
      y[at] = kInfinity;
      EXPECT_EQ(best_of(y).index, static_cast<std::int32_t>(at)) << n;
      EXPECT_EQ(best_of(y).value, kInfinity);
      y[at] = kNan;
      EXPECT_TRUE(std::isnan(best_of(y).value)) << n;
      y.assign(n, -kInfinity);
      EXPECT_EQ(best_of(y).index, 0);
      EXPECT_EQ(best_of(y).value, -kInfinity);
      y[at] = -2.0F;
      EXPECT_EQ(best_of(y).index, static_cast<std::int32_t>(at));
      EXPECT_EQ(best_of(y).value, -2.0F);
    }
  }
}

TEST_P(RowReductions, BestOfTiesAndOfRowsWithNan) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::size_t n : {3U, 8U, 16U, 19U, 70U, 2050U}) {
    const auto best_of = [&](const std::vector<float>& x) {
      return ctx_.table.rows.best_of_row(x.data(), static_cast<std::int64_t>(n));
    };
    std::vector<float> x(n, 1.5F);
    EXPECT_EQ(best_of(x).index, 0);
    EXPECT_EQ(best_of(x).value, 1.5F);
    x[0] = 1.0F;
    EXPECT_EQ(best_of(x).index, 1);
    x.assign(n, kNan);
    EXPECT_TRUE(std::isnan(best_of(x).value));
    x[n - 1] = -kInfinity;
    EXPECT_TRUE(std::isnan(best_of(x).value));
    x[n - 1] = kInfinity;
    EXPECT_TRUE(std::isnan(best_of(x).value));
    x.assign(n, -kInfinity);
    x[n - 2] = 2.0F;  // everything else masked
    EXPECT_EQ(best_of(x).index, static_cast<std::int32_t>(n - 2));
    x[n - 1] = 2.0F;
    EXPECT_EQ(best_of(x).index, static_cast<std::int32_t>(n - 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, RowReductions, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
