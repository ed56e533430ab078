// The MLP block, and layers of both blocks, at every level against their formulas in double
// precision.
#include "nn/decoder_stack.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "nn/mlp_block.h"
#include "nn/nn_test_support.h"

namespace quire {
namespace {

constexpr std::int64_t kHiddenSize = 40;
constexpr std::int64_t kWidth = 72;
constexpr float kEpsilon = 1e-5F;

// A gated MLP as numbers.
struct TestMlp {
  Activation activation = Activation::kSilu;
  TestWeights gate, up, down;
  Floats norm, gate_bias, up_bias, down_bias, output_norm;

  static TestMlp random(Activation activation, unsigned seed) {
    TestMlp mlp;
    mlp.activation = activation;
    mlp.gate = TestWeights::random(kWidth, kHiddenSize, seed);
    mlp.up = TestWeights::random(kWidth, kHiddenSize, seed + 1);
    mlp.down = TestWeights::random(kHiddenSize, kWidth, seed + 2);
    mlp.norm = random_floats(kHiddenSize, 1.0F, seed + 3);
    return mlp;
  }
  void add_biases(unsigned seed) {
    gate_bias = random_floats(kWidth, 1.0F, seed);
    up_bias = random_floats(kWidth, 1.0F, seed + 1);
    down_bias = random_floats(kHiddenSize, 1.0F, seed + 2);
  }

  MlpBlock block(ThreadPool& pool) const {
    return {activation, kEpsilon,
            MlpWeights{.norm = norm,
                       .gate = pack(pool, {&gate}),
                       .up = pack(pool, {&up}),
                       .down = pack(pool, {&down}),
                       .gate_bias = gate_bias,
                       .up_bias = up_bias,
                       .down_bias = down_bias,
                       .output_norm = output_norm}};
  }

  void apply(std::vector<Numbers>& hidden) const {
    for (Numbers& row : hidden) {
      const Numbers x = normed(row, norm, kEpsilon);
      Numbers gated = product(gate, x, gate_bias);
      const Numbers upward = product(up, x, up_bias);
      for (std::size_t i = 0; i < gated.size(); ++i) gated[i] = activate(gated[i]) * upward[i];
      add_to(row, normed(product(down, gated, down_bias), output_norm, kEpsilon));
    }
  }

 private:
  double activate(double x) const {
    if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
    return x / 2 *
           (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
};

class Blocks : public testing::TestWithParam<IsaLevel> {
 protected:
  static constexpr AttentionShape kShape = {
      .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .scale = 0.25F};

  static TestSequences sequences(std::size_t num_layers) {
    return {GetParam(), kShape, num_layers, random_sequences({9, 3, 17}, kHiddenSize), kHiddenSize};
  }

  static void check(const TestMlp& mlp) {
    ThreadPool pool(2);
    const MlpBlock block = mlp.block(pool);
    TestSequences all = sequences(0);
    const std::uint64_t arena = MlpBlock::arena_bytes(kHiddenSize, kWidth, 3 * 32);
    const auto outputs = all.run(
        32, arena, 2, [&](ForwardContext& ctx, float* hidden) { block.forward(ctx, hidden); });
    all.expect(outputs, [&](auto& hidden) { mlp.apply(hidden); });
  }
};

TEST_P(Blocks, AGatedMlpIsItsFormula) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    TestMlp mlp = TestMlp::random(activation, 1);
    check(mlp);
    mlp.add_biases(10);
    check(mlp);
    mlp.output_norm = random_floats(kHiddenSize, 1.0F, 20);
    check(mlp);
  }
}

// Each layer has weights, positions, a window and KV memory of its own.
TEST_P(Blocks, LayersFollowOneAnother) {
  QUIRE_SKIP_ABSENT_LEVEL();
  ThreadPool pool(1);
  const TestRotary slow = {.rotary_dim = 16, .theta = 1e6};
  const TestRotary fast = {.rotary_dim = 16, .theta = 100.0};
  AttentionShape windowed = kShape;
  windowed.window = 5;
  const TestAttention attentions[] = {
      TestAttention::random(kShape, slow, kHiddenSize, 1),
      TestAttention::random(windowed, fast, kHiddenSize, 11),
      TestAttention::random(kShape, slow, kHiddenSize, 21),
  };
  const TestMlp mlps[] = {TestMlp::random(Activation::kSilu, 31),
                          TestMlp::random(Activation::kSilu, 41),
                          TestMlp::random(Activation::kGeluTanh, 51)};
  std::vector<DecoderLayer> layers;
  for (std::size_t i = 0; i < 3; ++i) {
    layers.push_back({attentions[i].block(pool, false), mlps[i].block(pool), i == 1 ? 1U : 0U});
  }
  const DecoderStack stack({slow.table(32), fast.table(32)}, std::move(layers));
  std::vector<Floats> whole;
  for (const std::int32_t chunk : {32, 4, 1}) {
    TestSequences all = sequences(3);
    const std::int64_t rows = 3 * std::int64_t{chunk};
    const std::uint64_t arena = std::max(AttentionBlock::arena_bytes(kShape, kHiddenSize, rows),
                                         MlpBlock::arena_bytes(kHiddenSize, kWidth, rows));
    const auto outputs = all.run(
        chunk, arena, 1, [&](ForwardContext& ctx, float* hidden) { stack.forward(ctx, hidden); });
    if (chunk == 32) {
      whole = outputs;
      all.expect(outputs, [&](auto& hidden) {
        for (std::size_t i = 0; i < 3; ++i) {
          attentions[i].apply(hidden);
          mlps[i].apply(hidden);
        }
      });
    }
    EXPECT_EQ(outputs, whole) << "in chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Blocks, kAllLevels, level_test_name);

// Only the last product of a chain may be coarser, and only than 16 bits.
TEST(ForwardContext, TheLastProductTakesEightBits) {
  ThreadPool pool(1);
  OpContext ops{pool, op_table(IsaLevel::kRef), {}};
  Arena arena({});
  const AttentionPlan plan;
  ForwardContext ctx{
      .ops = ops, .arena = arena, .tokens = {}, .attention_plan = plan, .kv_layout = {}};
  EXPECT_EQ(ctx.last_product_mode(), ActivationMode::kFloat32);
  ctx.activation_mode = ActivationMode::kInt16;
  EXPECT_EQ(ctx.last_product_mode(), ActivationMode::kInt8);
  ctx.activation_mode = ActivationMode::kInt8;
  EXPECT_EQ(ctx.last_product_mode(), ActivationMode::kInt8);
}

}  // namespace
}  // namespace quire
