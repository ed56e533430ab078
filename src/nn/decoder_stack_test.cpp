// The MLP blocks, and layers of an attention and an MLP block, at every level against their
// formulas in double precision.
#include "nn/decoder_stack.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "nn/attention_test_support.h"
#include "nn/nn_test_support.h"

namespace quire {
namespace {

constexpr std::int64_t kWidth = 72;

// An MLP as numbers.
struct TestMlp {
  bool gated = true;
  Activation activation = Activation::kSilu;
  TestWeights gate, up, down;
  Floats gate_bias, up_bias, down_bias;

  static TestMlp random(Activation activation, unsigned seed) {
    TestMlp mlp;
    mlp.activation = activation;
    mlp.gate = TestWeights::random(kWidth, kHiddenSize, seed);
    mlp.up = TestWeights::random(kWidth, kHiddenSize, seed + 1);
    mlp.down = TestWeights::random(kHiddenSize, kWidth, seed + 2);
    return mlp;
  }
  static TestMlp plain(unsigned seed) {
    TestMlp mlp = random(Activation::kGeluTanh, seed);
    mlp.gated = false;
    return mlp;
  }
  void add_biases(unsigned seed) {
    gate_bias = random_floats(kWidth, 1.0F, seed);
    up_bias = random_floats(kWidth, 1.0F, seed + 1);
    down_bias = random_floats(kHiddenSize, 1.0F, seed + 2);
  }

  DecoderLayer::FeedForward block(Device& device) const {
    if (!gated) {
      return PlainMlpBlock(activation, {.up = pack(device, {&up}),
                                        .down = pack(device, {&down}),
                                        .up_bias = DeviceFloats::of_host(up_bias),
                                        .down_bias = DeviceFloats::of_host(down_bias)});
    }
    return MlpBlock(activation, {.gate = pack(device, {&gate}),
                                 .up = pack(device, {&up}),
                                 .down = pack(device, {&down}),
                                 .gate_bias = DeviceFloats::of_host(gate_bias),
                                 .up_bias = DeviceFloats::of_host(up_bias),
                                 .down_bias = DeviceFloats::of_host(down_bias)});
  }
  std::uint64_t arena_bytes(std::int64_t rows) const {
    return gated ? MlpBlock::arena_bytes(kWidth, rows) : PlainMlpBlock::arena_bytes(kWidth, rows);
  }

  std::vector<Numbers> of(const std::vector<Numbers>& inputs) const {
    std::vector<Numbers> outputs;
    for (const Numbers& x : inputs) {
      Numbers inner = product(gated ? gate : up, x, gated ? gate_bias : up_bias);
      for (double& value : inner) value = activate(value);
      if (gated) {
        const Numbers upward = product(up, x, up_bias);
        for (std::size_t i = 0; i < inner.size(); ++i) inner[i] *= upward[i];
      }
      outputs.push_back(product(down, inner, down_bias));
    }
    return outputs;
  }

 private:
  double activate(double x) const {
    if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
    return x / 2 *
           (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
};

// A layer as numbers.
struct TestLayer {
  TestAttention attention;
  TestMlp mlp;
  TestNorm mixer_input, mixer_output, feed_forward_input, feed_forward_output;
  LayerShape shape = {.hidden_size = kHiddenSize, .rotary = 0};

  // With RMS norms before both blocks.
  static TestLayer random(const AttentionShape& shape, const TestRotary& rotary, TestMlp mlp,
                          unsigned seed) {
    TestLayer layer;
    layer.attention = TestAttention::random(shape, rotary, kHiddenSize, seed);
    layer.mlp = std::move(mlp);
    layer.mixer_input = TestNorm::rms(kHiddenSize, seed + 4);
    layer.feed_forward_input = TestNorm::rms(kHiddenSize, seed + 5);
    return layer;
  }

  DecoderLayer layer(Device& device) const {
    return {shape,
            {.mixer_input = mixer_input.norm(),
             .mixer_output = mixer_output.norm(),
             .feed_forward_input = feed_forward_input.norm(),
             .feed_forward_output = feed_forward_output.norm()},
            attention.block(device, false),
            mlp.block(device)};
  }
  std::uint64_t arena_bytes(std::int64_t rows) const {
    const std::uint64_t block_bytes =
        std::max(AttentionBlock::arena_bytes(attention.shape, rows), mlp.arena_bytes(rows));
    return DecoderLayer::arena_bytes(block_bytes, kHiddenSize, rows,
                                     shape.parallel && !feed_forward_input.weight.empty());
  }

  void apply(std::vector<Numbers>& hidden) const {
    std::vector<Numbers> x = mixer_input.of(hidden);
    const std::vector<Numbers> second = feed_forward_input.of(hidden);
    add_to(hidden, mixer_output.of(attention.of(x)), shape.residual_scale);
    if (!shape.parallel) x = feed_forward_input.of(hidden);
    if (shape.parallel && !feed_forward_input.weight.empty()) x = second;
    add_to(hidden, feed_forward_output.of(mlp.of(x)), shape.residual_scale);
  }
};

class Blocks : public testing::TestWithParam<IsaLevel> {
 protected:
  static constexpr AttentionShape kShape = {
      .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .scale = 0.25F};

  static TestSequences sequences(std::size_t num_layers) {
    return {GetParam(), kShape, num_layers, random_sequences({9, 3, 17}, kHiddenSize), kHiddenSize};
  }

  static void check(const TestMlp& mlp, const TestNorm& output_norm = {}) {
    CpuDevice device(2, op_table(GetParam()));
    const DecoderLayer::FeedForward block = mlp.block(device);
    const TestNorm input_norm = TestNorm::rms(kHiddenSize, 90);
    TestSequences all = sequences(0);
    const std::uint64_t arena =
        DecoderLayer::arena_bytes(mlp.arena_bytes(3 * 32), kHiddenSize, 3 * 32);
    const auto outputs = all.run(32, arena, 2, [&](ForwardContext& ctx, float* hidden) {
      forward_between(
          ctx, input_norm, output_norm, hidden, [&](const float* x, const Residual& residual) {
            std::visit([&](const auto& kind) { kind.forward(ctx, x, residual); }, block);
          });
    });
    all.expect(outputs, [&](auto& hidden) {
      add_to(hidden, output_norm.of(mlp.of(input_norm.of(hidden))));
    });
  }

  // Against the formulas, and the same bits however the tokens came.
  static void check(const std::vector<TestLayer>& test_layers,
                    const std::vector<TestRotary>& test_rotaries) {
    CpuDevice device(1, op_table(GetParam()));
    std::vector<DecoderLayer> layers;
    for (const TestLayer& layer : test_layers) layers.push_back(layer.layer(device));
    std::vector<RotaryTable> rotaries;
    for (const TestRotary& rotary : test_rotaries) rotaries.push_back(rotary.table(32));
    const DecoderStack stack(std::move(rotaries), std::move(layers));
    std::vector<Floats> whole;
    for (const std::int32_t chunk : {32, 4, 1}) {
      TestSequences all = sequences(test_layers.size());
      std::uint64_t arena = 0;
      for (const TestLayer& layer : test_layers) {
        arena = std::max(arena, layer.arena_bytes(3 * std::int64_t{chunk}));
      }
      const auto outputs = all.run(chunk, arena, 1, [&](ForwardContext& ctx, float* hidden) {
        stack.forward(ctx, hidden, 0, std::ssize(test_layers));
      });
      if (chunk == 32) {
        whole = outputs;
        all.expect(outputs, [&](auto& hidden) {
          for (const TestLayer& layer : test_layers) layer.apply(hidden);
        });
      }
      EXPECT_EQ(outputs, whole) << "in chunks of " << chunk;
    }
  }

  static constexpr TestRotary kSlow = {.rotary_dim = 16, .theta = 1e6};
  static constexpr TestRotary kFast = {.rotary_dim = 16, .theta = 100.0};
};

TEST_P(Blocks, AGatedMlpIsItsFormula) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    TestMlp mlp = TestMlp::random(activation, 1);
    check(mlp);
    mlp.add_biases(10);
    check(mlp);
    check(mlp, TestNorm::rms(kHiddenSize, 20));
  }
}

TEST_P(Blocks, APlainMlpIsItsFormula) {
  QUIRE_SKIP_ABSENT_LEVEL();
  TestMlp mlp = TestMlp::plain(1);
  check(mlp);
  mlp.add_biases(10);
  check(mlp);
  check(mlp, TestNorm::rms(kHiddenSize, 20));
}

// Each layer has weights, positions, a window and KV memory of its own.
TEST_P(Blocks, LayersFollowOneAnother) {
  QUIRE_SKIP_ABSENT_LEVEL();
  AttentionShape windowed = kShape;
  windowed.window = 5;
  std::vector<TestLayer> layers = {
      TestLayer::random(kShape, kSlow, TestMlp::random(Activation::kSilu, 31), 1),
      TestLayer::random(windowed, kFast, TestMlp::random(Activation::kSilu, 41), 11),
      TestLayer::random(kShape, kSlow, TestMlp::random(Activation::kGeluTanh, 51), 21)};
  layers[1].shape.rotary = 1;
  check(layers, {kSlow, kFast});
}

TEST_P(Blocks, LayerNormsAndAPlainMlp) {
  QUIRE_SKIP_ABSENT_LEVEL();
  TestLayer layer = TestLayer::random(kShape, kFast, TestMlp::plain(31), 1);
  layer.mixer_input = TestNorm::layer(kHiddenSize, 61);
  layer.feed_forward_input = TestNorm::layer(kHiddenSize, 71);
  check({layer}, {kFast});
  layer.mixer_input.bias.clear();
  check({layer}, {kFast});
}

TEST_P(Blocks, BlocksSideBySideReadTheSame) {
  QUIRE_SKIP_ABSENT_LEVEL();
  TestLayer layer = TestLayer::random(kShape, kFast, TestMlp::random(Activation::kSilu, 31), 1);
  layer.mixer_input = TestNorm::layer(kHiddenSize, 61);
  layer.feed_forward_input = {};
  layer.shape.parallel = true;
  check({layer, layer}, {kFast});
  layer.feed_forward_input = TestNorm::layer(kHiddenSize, 62);
  check({layer, layer}, {kFast});
}

TEST_P(Blocks, NormsOnlyAfterTheBlocks) {
  QUIRE_SKIP_ABSENT_LEVEL();
  TestLayer layer = TestLayer::random(kShape, kFast, TestMlp::random(Activation::kSilu, 31), 1);
  std::swap(layer.mixer_input, layer.mixer_output);
  std::swap(layer.feed_forward_input, layer.feed_forward_output);
  check({layer, layer}, {kFast});
}

// The second layer has no positions, either.
TEST_P(Blocks, WhatIsAddedIsScaled) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const TestMlp mlp = TestMlp::random(Activation::kSilu, 31);
  std::vector<TestLayer> layers = {TestLayer::random(kShape, kFast, mlp, 1),
                                   TestLayer::random(kShape, {}, mlp, 11)};
  for (TestLayer& layer : layers) layer.shape.residual_scale = 0.25F;
  layers[1].shape.rotary.reset();
  check(layers, {kFast});
}

INSTANTIATE_TEST_SUITE_P(Levels, Blocks, kAllLevels, level_test_name);

// Only the last product of a chain may be coarser, and only than 16 bits.
TEST(ForwardContext, TheLastProductTakesEightBits) {
  CpuDevice device(1, op_table(IsaLevel::kRef));
  const auto ops = device.make_stream({}).value();
  Arena arena({});
  const auto plan = ops->plan_attention(1, {});
  ForwardContext ctx{
      .ops = *ops, .arena = arena, .tokens = {}, .attention_plan = plan.get(), .kv_layout = {}};
  EXPECT_EQ(ctx.last_product_mode(), ActivationMode::kFloat32);
  ctx.activation_mode = ActivationMode::kInt16;
  EXPECT_EQ(ctx.last_product_mode(), ActivationMode::kInt8);
  ctx.activation_mode = ActivationMode::kInt8;
  EXPECT_EQ(ctx.last_product_mode(), ActivationMode::kInt8);
}

}  // namespace
}  // namespace quire
