// A mixture of experts at every level against its formula in double precision, and the same bits
// however the tokens came.
#include "nn/moe_block.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "nn/nn_test_support.h"

namespace quire {
namespace {

// A mixture as numbers.
struct TestMoe {
  struct Expert {
    TestWeights gate, up, down;

    static Expert random(std::int64_t width, unsigned seed) {
      return {TestWeights::random(width, kHiddenSize, seed),
              TestWeights::random(width, kHiddenSize, seed + 1),
              TestWeights::random(kHiddenSize, width, seed + 2)};
    }
    ExpertWeights weights(Device& device) const {
      return {
          .gate = pack(device, {&gate}), .up = pack(device, {&up}), .down = pack(device, {&down})};
    }
    Numbers of(const Numbers& x) const {
      Numbers inner = product(gate, x);
      const Numbers upward = product(up, x);
      for (std::size_t i = 0; i < inner.size(); ++i) {
        inner[i] *= upward[i] / (1.0 + std::exp(-inner[i]));
      }
      return product(down, inner);
    }
  };

  MoeShape shape;
  TestWeights router, shared_gate;
  Floats choice_bias;
  std::vector<Expert> experts;
  Expert shared;

  static TestMoe random(const MoeShape& shape) {
    TestMoe moe;
    moe.shape = shape;
    moe.router = TestWeights::random(shape.num_experts, kHiddenSize, 1);
    for (float& value : moe.router.values) value *= 2.0F;
    moe.shared_gate = TestWeights::random(1, kHiddenSize, 2);
    for (std::int64_t i = 0; i < shape.num_experts; ++i) {
      moe.experts.push_back(Expert::random(24, static_cast<unsigned>(10 * i + 10)));
    }
    if (shape.shared_size != 0) moe.shared = Expert::random(shape.shared_size, 5);
    return moe;
  }

  MoeBlock block(Device& device) const {
    MoeWeights weights;
    weights.router = pack(device, {&router});
    for (const Expert& expert : experts) weights.experts.push_back(expert.weights(device));
    if (shape.shared_size != 0) {
      weights.shared = shared.weights(device);
      if (shape.shared_gate) weights.shared_gate = pack(device, {&shared_gate});
    }
    if (!choice_bias.empty()) weights.choice_bias = DeviceFloats::of_host(choice_bias);
    return {shape, std::move(weights)};
  }

  Numbers of(const Numbers& x) const {
    const Routing& routing = shape.routing;
    Numbers scores = product(router, x);
    double all = 0;
    for (double& score : scores) all += score = std::exp(score);
    for (double& score : scores) {
      score = routing.score == RouterScore::kSigmoid ? score / (1 + score) : score / all;
    }
    Numbers choices = scores;
    for (std::size_t e = 0; e < choice_bias.size(); ++e) {
      choices[e] += static_cast<double>(choice_bias[e]);
    }
    Numbers sorted = choices;
    std::ranges::sort(sorted, std::greater());
    const double least = sorted[static_cast<std::size_t>(shape.experts_per_token) - 1];
    double divisor = routing.weights_sum_to_one ? 0 : 1;
    for (std::size_t e = 0; e < experts.size(); ++e) {
      if (routing.weights_sum_to_one && choices[e] >= least) divisor += scores[e];
    }
    Numbers sum(kHiddenSize, 0.0);
    for (std::size_t e = 0; e < experts.size(); ++e) {
      if (choices[e] < least) continue;
      add_scaled(experts[e].of(x), scores[e] / divisor * static_cast<double>(routing.weight_scale),
                 sum);
    }
    if (shape.shared_size != 0) {
      const double gate = product(shared_gate, x)[0];
      add_scaled(shared.of(x), shape.shared_gate ? 1.0 / (1.0 + std::exp(-gate)) : 1.0, sum);
    }
    return sum;
  }
  std::vector<Numbers> of(const std::vector<Numbers>& rows) const {
    std::vector<Numbers> out;
    for (const Numbers& row : rows) out.push_back(of(row));
    return out;
  }

 private:
  static void add_scaled(const Numbers& x, double scale, Numbers& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scale * x[i];
  }
};

class Moe : public testing::TestWithParam<IsaLevel> {
 protected:
  static void check(const MoeShape& shape, const TestNorm& output_norm = {}, bool biased = false) {
    TestMoe moe = TestMoe::random(shape);
    if (biased)
      moe.choice_bias = random_floats(static_cast<std::size_t>(shape.num_experts), 0.5F, 3);
    CpuDevice device(2, op_table(GetParam()));
    const MoeBlock block = moe.block(device);
    const TestNorm input_norm = TestNorm::rms(kHiddenSize, 90);
    const ExpertSizes sizes = {.num_experts = shape.num_experts,
                               .experts_per_row = shape.experts_per_token,
                               .hidden_size = kHiddenSize,
                               .intermediate_size = 24};
    std::vector<Floats> whole;
    for (const std::int32_t chunk : {32, 5, 1}) {
      const std::int64_t rows = 3 * std::int64_t{chunk};
      TestSequences all(GetParam(), {.num_heads = 1, .num_kv_heads = 1, .head_dim = 16}, 0,
                        random_sequences({31, 3, 17}, kHiddenSize), kHiddenSize, sizes);
      const std::uint64_t arena =
          DecoderLayer::arena_bytes(MoeBlock::arena_bytes(shape, rows), kHiddenSize, rows);
      const auto outputs = all.run(chunk, arena, 2, [&](ForwardContext& ctx, float* hidden) {
        forward_between(
            ctx, input_norm, output_norm, hidden,
            [&](const float* x, const Residual& residual) { block.forward(ctx, x, residual); });
      });
      if (chunk == 32) {
        whole = outputs;
        all.expect(outputs, [&](auto& hidden) {
          add_to(hidden, output_norm.of(moe.of(input_norm.of(hidden))));
        });
      }
      EXPECT_EQ(outputs, whole) << "in chunks of " << chunk;
    }
  }

  static constexpr MoeShape kShape = {
      .hidden_size = kHiddenSize, .num_experts = 9, .experts_per_token = 3};
};

TEST_P(Moe, IsItsFormula) {
  QUIRE_SKIP_ABSENT_LEVEL();
  MoeShape shape = kShape;
  check(shape);
  shape.routing.weights_sum_to_one = true;
  check(shape);
  check(shape, TestNorm::rms(kHiddenSize, 20));
  shape.experts_per_token = 9;
  check(shape);
}

TEST_P(Moe, ASharedExpertSeesEveryToken) {
  QUIRE_SKIP_ABSENT_LEVEL();
  MoeShape shape = kShape;
  shape.shared_size = 56;
  check(shape);
  shape.shared_gate = true;
  check(shape);
  shape.experts_per_token = 1;
  check(shape);
}

TEST_P(Moe, ScoresMayBeSigmoidsAndChoicesHaveABias) {
  QUIRE_SKIP_ABSENT_LEVEL();
  MoeShape shape = kShape;
  check(shape, {}, true);
  shape.routing = {
      .score = RouterScore::kSigmoid, .weights_sum_to_one = true, .weight_scale = 1.75F};
  check(shape);
  check(shape, {}, true);
}

INSTANTIATE_TEST_SUITE_P(Levels, Moe, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
