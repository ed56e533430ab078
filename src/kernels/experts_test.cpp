// A mixture of experts: that a row's sum has the bits that the products of its experts have on
// their own, added in the order of the experts, at every level and for every number of rows and
// threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "kernels/route_test_support.h"
#include "kernels/row_ops_test_support.h"
#include "kernels/sizing.h"
#include "tensor/buffer.h"

namespace quire {
namespace experts_test {

using Values = std::vector<float>;

struct Case {
  Encoding encoding = Encoding::kBF16;
  std::int64_t hidden_size = 64;
  std::int64_t width = 48;
  ActivationMode mode = ActivationMode::kInt16;
  LoadQuantization quantization = LoadQuantization::kNone;
  Activation activation = Activation::kSilu;
  bool biases = false;
  std::optional<ClampedGate> clamped = {};
  bool weigh_inputs = false;
};

class Experts : public testing::TestWithParam<IsaLevel> {
 protected:
  static constexpr std::int64_t kNumExperts = 7;
  static constexpr std::int64_t kPerRow = 3;

  PackedWeight pack(const Case& c, std::int64_t outputs, std::int64_t inputs, std::size_t seed) {
    const TestMatrix matrix(c.encoding, outputs, inputs, static_cast<unsigned>(seed));
    const EncodedMatrix view = matrix.view();
    PackOptions options;
    options.quantization = c.quantization;
    return std::move(PackedWeight::pack(pool_, &view, 1, options)).value();
  }

  void make_experts(const Case& c) {
    experts_.clear();
    for (std::size_t i = 0; i < kNumExperts; ++i) {
      experts_.push_back({.gate = pack(c, c.width, c.hidden_size, 10 * i),
                          .up = pack(c, c.width, c.hidden_size, 10 * i + 1),
                          .down = pack(c, c.hidden_size, c.width, 10 * i + 2)});
    }
    const auto biases = [&](std::int64_t width, unsigned seed) {
      return c.biases ? random_floats(static_cast<std::size_t>(kNumExperts * width), 1.0F, seed)
                      : Values();
    };
    gate_biases_ = biases(c.width, 7);
    up_biases_ = biases(c.width, 8);
    down_biases_ = biases(c.hidden_size, 9);
  }

  OpContext context(ThreadPool& pool, std::span<std::byte> workspace) const {
    return {pool, op_table(GetParam()), workspace};
  }

  // Each row on its own, with one op for each product.
  Values apart(const Case& c, const Values& x, const Routed& routes) {
    const std::int64_t inputs = std::max(c.hidden_size, c.width);
    auto workspace =
        Buffer::allocate(matmul_workspace_bytes(1, inputs) + gated_scratch_bytes(3)).value();
    OpContext ctx = context(pool_, workspace.bytes());
    Values out(x.size(), 0.0F);
    Values gated(static_cast<std::size_t>(c.width));
    Values result(static_cast<std::size_t>(c.hidden_size));
    for (std::int64_t row = 0; row < std::ssize(x) / c.hidden_size; ++row) {
      float* const sum = out.data() + row * c.hidden_size;
      for (std::int32_t e = 0; e < kNumExperts; ++e) {
        const auto first = routes.experts.begin() + row * kPerRow;
        const auto chosen = std::find(first, first + kPerRow, e);
        if (chosen == first + kPerRow) continue;
        const ExpertWeights& expert = experts_[static_cast<std::size_t>(e)];
        float weight = routes.weights[static_cast<std::size_t>(chosen - routes.experts.begin())];
        Values input(x.begin() + row * c.hidden_size, x.begin() + (row + 1) * c.hidden_size);
        if (c.weigh_inputs) {
          for (float& number : input) number *= weight;
          weight = 1.0F;
        }
        gated_matmul(ctx, input.data(), 1, c.mode,
                     {.gate = &expert.gate,
                      .up = &expert.up,
                      .gate_bias = c.biases ? gate_biases_.data() + e * c.width : nullptr,
                      .up_bias = c.biases ? up_biases_.data() + e * c.width : nullptr,
                      .activation = c.activation,
                      .clamped = c.clamped},
                     gated.data());
        const MatmulPart down = {
            .weight = &expert.down,
            .out = result.data(),
            .out_stride = c.hidden_size,
            .bias = c.biases ? down_biases_.data() + e * c.hidden_size : nullptr};
        matmul(ctx, gated.data(), c.width, 1, ActivationMode::kInt8, std::span(&down, 1));
        for (std::size_t i = 0; i < result.size(); ++i) sum[i] += weight * result[i];
      }
    }
    return out;
  }

  // In a workspace of just the size that is planned for `max_rows` rows, of which no more is
  // touched.
  Values together(const Case& c, const Values& x, const Routed& routes, std::int64_t max_rows,
                  ThreadPool& pool) {
    constexpr std::uint64_t kGuard = 4096;
    constexpr std::byte kUntouched{0xA5};
    const std::uint64_t bytes = expert_workspace_bytes(max_rows,
                                                       {.num_experts = kNumExperts,
                                                        .experts_per_row = kPerRow,
                                                        .hidden_size = c.hidden_size,
                                                        .intermediate_size = c.width},
                                                       pool.num_threads());
    auto workspace = Buffer::allocate(bytes + kGuard).value();
    std::ranges::fill(workspace.bytes(), kUntouched);
    OpContext ctx = context(pool, workspace.bytes().first(bytes));
    Values out(x.size(), kNan);
    expert_mlp(ctx, x.data(), std::ssize(x) / c.hidden_size,
               {.experts = experts_,
                .gate_biases = c.biases ? gate_biases_.data() : nullptr,
                .up_biases = c.biases ? up_biases_.data() : nullptr,
                .down_biases = c.biases ? down_biases_.data() : nullptr,
                .activation = c.activation,
                .clamped = c.clamped,
                .gate_up_mode = c.mode,
                .down_mode = ActivationMode::kInt8,
                .experts_per_row = kPerRow,
                .chosen = routes.experts.data(),
                .weights = routes.weights.data(),
                .weigh_inputs = c.weigh_inputs},
               out.data());
    for (const std::byte byte : workspace.bytes().subspan(bytes)) {
      EXPECT_EQ(byte, kUntouched) << "the workspace was too small";
      if (byte != kUntouched) break;
    }
    return out;
  }

  void check(const Case& c, const std::vector<std::int64_t>& row_counts) {
    make_experts(c);
    for (const std::int64_t rows : row_counts) {
      const Values x = random_floats(static_cast<std::size_t>(rows * c.hidden_size), 2.0F, 5);
      // Some experts get most rows, one gets none.
      Values logits = random_floats(static_cast<std::size_t>(rows * kNumExperts), 1.0F, 6);
      for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] += i % kNumExperts == 4 ? -100.0F : 0.7F * static_cast<float>(i % kNumExperts);
      }
      const Routed routes = routed(logits, rows, kPerRow, {});
      const Values expected = apart(c, x, routes);
      for (ThreadPool* pool : {&pool_, &serial_}) {
        const Values actual = together(c, x, routes, rows, *pool);
        for (std::size_t i = 0; i < actual.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]),
                    std::bit_cast<std::uint32_t>(expected[i]))
              << encoding_traits(c.encoding).name << ", " << rows << " rows, number " << i;
        }
      }
    }
  }

  ThreadPool pool_{3};
  ThreadPool serial_{1};
  std::vector<ExpertWeights> experts_;
  Values gate_biases_;
  Values up_biases_;
  Values down_biases_;
};

// With more than 256 pairs of rows and experts there are several waves.
TEST_P(Experts, GiveEachRowTheBitsOfItsExpertsOnTheirOwn) {
  QUIRE_SKIP_ABSENT_LEVEL();
  check({}, {1, 2, 5, 40, 120, 300});
  check({.encoding = Encoding::kF32, .hidden_size = 40, .width = 24}, {1, 7, 300});
  check({.encoding = Encoding::kQ4_K, .hidden_size = 256, .width = 256}, {1, 9, 110});
  check({.activation = Activation::kGeluTanh}, {3});
  check({.biases = true}, {1, 9, 300});
  check({.clamped = ClampedGate{.alpha = 1.702F, .limit = 2.0F}}, {9});
  check({.biases = true, .clamped = ClampedGate{.alpha = 1.5F, .limit = 7.0F}}, {3});
  check({.weigh_inputs = true}, {1, 9, 300});
}

TEST_P(Experts, EveryModeAndQuantizationAtLoad) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const ActivationMode mode :
       {ActivationMode::kFloat32, ActivationMode::kInt8, ActivationMode::kInt16}) {
    check({.mode = mode}, {1, 90});
    for (const LoadQuantization quantization : {LoadQuantization::kInt8, LoadQuantization::kInt4}) {
      check({.width = 32, .mode = mode, .quantization = quantization}, {1, 6, 90});
    }
  }
}

TEST_P(Experts, ManyRowsAndFewShareAWorkspace) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const Case c;
  make_experts(c);
  for (const std::int64_t rows : {1, 50, 128}) {
    const Values x = random_floats(static_cast<std::size_t>(rows * c.hidden_size), 2.0F, 5);
    const Values logits = random_floats(static_cast<std::size_t>(rows * kNumExperts), 1.0F, 6);
    const Routed routes = routed(logits, rows, kPerRow, {.weights_sum_to_one = true});
    EXPECT_EQ(together(c, x, routes, 128, pool_), apart(c, x, routes)) << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Experts, kAllLevels, level_test_name);

TEST(AddGated, AddsWhatTheGateLetsThrough) {
  ThreadPool pool(2);
  OpContext ctx{pool, op_table(IsaLevel::kRef), {}};
  const Values x = {1, 2, 3, 4, 5, 6};
  const Values gates = {0, 100, -100};
  Values out(6, 1.0F);
  add_gated(ctx, x.data(), gates.data(), 3, 2, out.data());
  EXPECT_EQ(out, Values({1.5F, 2, 4, 5, 1, 1}));
}

}  // namespace experts_test
}  // namespace quire
