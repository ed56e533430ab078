// Activations of MLPs on every level against double arithmetic, with and without a gate.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"

namespace quire {
namespace {

class Activations : public RowOps {};

// The gated form with an `up` of ones.
TEST_P(Activations, GeluTanhInPlace) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t count : {1, 8, 9, 16, 31, 20'003}) {
    const auto before = random_floats(static_cast<std::size_t>(count), 3.0F, 48);
    const std::vector<float> ones(before.size(), 1.0F);
    std::vector<float> expected(before.size());
    ctx_.table.rows.gelu_tanh_and_mul(before.data(), ones.data(), count, expected.data());
    auto x = before;
    activate_in_place(ctx_, Activation::kGeluTanh, count, x.data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], expected[i]) << before[i];
  }
}

TEST_P(Activations, ActivationsWithoutAGate) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t count : {1, 8, 9, 16, 31, 20'003}) {
    auto before = random_floats(static_cast<std::size_t>(count), 3.0F, 49);
    before.back() = -0.03F;
    auto gelu = before;
    auto relu2 = before;
    activate_in_place(ctx_, Activation::kGelu, count, gelu.data());
    activate_in_place(ctx_, Activation::kRelu2, count, relu2.data());
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double x = before[i];
      const double expected = 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
      ASSERT_NEAR(gelu[i], expected, 3e-7 * std::abs(x)) << x;
      ASSERT_EQ(relu2[i], before[i] > 0.0F ? before[i] * before[i] : 0.0F) << x;
    }
  }
}

TEST_P(Activations, ActivationsOfSpecialValues) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<float> before = {kNan,  kInfinity, -1e19F, 0.0F,  3e38F, -3e38F,
                                     1e19F, 5.0F,      -5.0F,  20.0F, -20.0F};
  const std::vector<float> gelus = {kNan,  kInfinity,  0.0F,          0.0F,  3e38F, 0.0F,
                                    1e19F, 4.9999986F, -1.433258e-6F, 20.0F, 0.0F};
  const auto n = static_cast<std::int64_t>(before.size());
  auto gelu = before;
  auto relu2 = before;
  activate_in_place(ctx_, Activation::kGelu, n, gelu.data());
  activate_in_place(ctx_, Activation::kRelu2, n, relu2.data());
  EXPECT_TRUE(std::isnan(gelu[0]));
  EXPECT_TRUE(std::isnan(relu2[0]));
  for (std::size_t i = 1; i < before.size(); ++i) {
    if (std::abs(gelus[i]) < 1e-5F || std::abs(before[i]) == 5.0F) {
      EXPECT_NEAR(gelu[i], gelus[i], 1e-6) << before[i];
    } else {
      EXPECT_EQ(gelu[i], gelus[i]) << before[i];
    }
    EXPECT_EQ(relu2[i], before[i] > 0.0F ? before[i] * before[i] : 0.0F) << before[i];
  }
}

TEST_P(Activations, Xielu) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const Xielu curve = {.alpha_p = 0.7F, .alpha_n = 1.3F, .beta = 0.5F, .epsilon = -0.25F};
  for (const std::int64_t count : {1, 8, 9, 16, 31, 20'003}) {
    auto before = random_floats(static_cast<std::size_t>(count), 3.0F, 50);
    before.back() = -0.1F;  // between epsilon and 0
    auto x = before;
    xielu_in_place(ctx_, curve, count, x.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = before[i];
      const double expected =
          v > 0 ? double{curve.alpha_p} * v * v + 0.5 * v
                : double{curve.alpha_n} * (std::expm1(std::min(v, -0.25)) - v) + 0.5 * v;
      ASSERT_NEAR(x[i], expected, 3e-7 * (1.0 + std::abs(expected))) << v;
    }
  }
  std::vector<float> special = {kNan, kInfinity, -kInfinity, 0.0F, 1e30F, -1e30F};
  xielu_in_place(ctx_, curve, std::ssize(special), special.data());
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], kInfinity);
  EXPECT_TRUE(std::isnan(special[2]));  // alpha_n infinity - beta infinity
  EXPECT_NEAR(special[3], 1.3 * std::expm1(-0.25), 1e-6);
  EXPECT_EQ(special[4], kInfinity);
  EXPECT_NEAR(special[5] / 0.8e30F, 1.0F, 1e-6);
}

TEST_P(Activations, ClampedAndMul) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const ClampedGate clamped = {.alpha = 1.702F, .limit = 2.5F};
  for (const std::int64_t width : {1, 8, 9, 16, 31, 5000}) {
    const auto n = static_cast<std::size_t>(width);
    const auto gate = random_floats(n, 3.0F, 51);
    const auto up = random_floats(n, 3.0F, 52);
    std::vector<float> out(n, kNan);
    ctx_.table.rows.clamped_and_mul(clamped, gate.data(), up.data(), width, out.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double g = std::min(double{gate[i]}, 2.5);
      const double u = std::clamp(double{up[i]}, -2.5, 2.5);
      const double expected = g / (1.0 + std::exp(-double{clamped.alpha} * g)) * (u + 1.0);
      ASSERT_NEAR(out[i], expected, 2e-6 * (std::abs(expected) + std::abs(g))) << gate[i];
    }
  }
  const std::vector<float> gate = {kNan, 1.0F, kInfinity, -kInfinity, 100.0F, -1e30F};
  const std::vector<float> up = {1.0F, kNan, kInfinity, 1.0F, -100.0F, 0.0F};
  std::vector<float> out(gate.size());
  ctx_.table.rows.clamped_and_mul(clamped, gate.data(), up.data(), std::ssize(gate), out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
  const double full = 2.5 / (1.0 + std::exp(-1.702 * 2.5));
  EXPECT_NEAR(out[2], full * 3.5, 1e-5);
  EXPECT_NEAR(out[4], full * -1.5, 1e-5);
  EXPECT_EQ(out[5], 0.0F);
}

TEST_P(Activations, GeluTanhAndMul) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t width : {1, 8, 9, 16, 31, 2048, 5000}) {
    const std::int64_t rows = 3;
    const auto n = static_cast<std::size_t>(width);
    auto x = random_floats(static_cast<std::size_t>(rows) * 2 * n, 3.0F, 27);
    x[0] = -200.0F;
    x[2 * n] = 200.0F;
    std::vector<float> out(static_cast<std::size_t>(rows) * n, kNan);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const float* gate = x.data() + r * 2 * n;
      ctx_.table.rows.gelu_tanh_and_mul(gate, gate + n, width, out.data() + r * n);
    }
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      for (std::size_t c = 0; c < n; ++c) {
        const double gate = x[r * 2 * n + c];
        const double up = x[r * 2 * n + n + c];
        const double u = std::sqrt(2.0 / std::acos(-1.0)) * (gate + 0.044715 * gate * gate * gate);
        const double expected = 0.5 * gate * (1.0 + std::tanh(u)) * up;
        ASSERT_NEAR(out[r * n + c], expected, 1e-6 * std::abs(expected) + 1e-6 * std::abs(up))
            << gate;
      }
    }
  }
}

TEST_P(Activations, GeluTanhOfSpecialValues) {
  QUIRE_SKIP_ABSENT_LEVEL();
  std::vector<float> x = {kNan, kInfinity, 0.0F, -0.0F, 3e38F, -3e38F, 1e-38F, 1.0F, 2.0F, -1.0F};
  const std::size_t n = x.size();
  x.resize(2 * n, 1.0F);
  std::vector<float> out(n);
  ctx_.table.rows.gelu_tanh_and_mul(x.data(), x.data() + n, static_cast<std::int64_t>(n),
                                    out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], kInfinity);
  EXPECT_EQ(out[2], 0.0F);
  EXPECT_EQ(out[3], 0.0F);
  EXPECT_EQ(out[4], 3e38F);
  EXPECT_EQ(out[5], 0.0F);
  EXPECT_FLOAT_EQ(out[6], 5e-39F);
  EXPECT_NEAR(out[7], 0.8411919906, 1e-6);
  EXPECT_NEAR(out[8], 1.9545976, 1e-6);
  EXPECT_NEAR(out[9], -0.1588080094, 1e-6);
}

TEST_P(Activations, SiluAndMul) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t width : {1, 8, 9, 16, 31, 1536, 5000}) {
    const std::int64_t rows = 3;
    const auto n = static_cast<std::size_t>(width);
    auto x = random_floats(static_cast<std::size_t>(rows) * 2 * n, 5.0F, 5);
    x[0] = -200.0F;
    x[2 * n] = 200.0F;
    std::vector<float> out(static_cast<std::size_t>(rows) * n, kNan);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const float* gate = x.data() + r * 2 * n;
      ctx_.table.rows.silu_and_mul(gate, gate + n, width, out.data() + r * n);
    }
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      for (std::size_t c = 0; c < n; ++c) {
        const double gate = x[r * 2 * n + c];
        const double expected = gate / (1.0 + std::exp(-gate)) * x[r * 2 * n + n + c];
        ASSERT_NEAR(out[r * n + c], expected, 1e-6 * std::abs(expected) + 1e-37) << gate;
      }
    }
  }
}

// exp() is reached through silu: silu(-x) / -x = 1 / (1 + exp(x)).
TEST_P(Activations, SiluOverTheWholeRangeAndSpecialValues) {
  QUIRE_SKIP_ABSENT_LEVEL();
  std::vector<float> gate;
  for (int i = -12200; i < 16800; ++i) gate.push_back(static_cast<float>(i) * 0.00713F);
  const std::size_t finite = gate.size();
  for (const float x : {kNan, kInfinity, 0.0F, -0.0F, 1e-38F, 3e38F}) gate.push_back(x);
  const std::size_t n = gate.size();
  gate.resize(2 * n, 1.0F);
  std::vector<float> out(n);
  ctx_.table.rows.silu_and_mul(gate.data(), gate.data() + n, static_cast<std::int64_t>(n),
                               out.data());
  for (std::size_t i = 0; i < finite; ++i) {
    const double expected = double{gate[i]} / (1.0 + std::exp(-double{gate[i]}));
    ASSERT_NEAR(out[i], expected, 5e-7 * std::abs(expected)) << gate[i];
  }
  EXPECT_TRUE(std::isnan(out[finite]));
  EXPECT_EQ(out[finite + 1], kInfinity);
  EXPECT_EQ(out[finite + 2], 0.0F);
  EXPECT_EQ(out[finite + 3], 0.0F);
  EXPECT_FLOAT_EQ(out[finite + 4], 5e-39F);
  EXPECT_EQ(out[finite + 5], 3e38F);
}

INSTANTIATE_TEST_SUITE_P(Levels, Activations, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
