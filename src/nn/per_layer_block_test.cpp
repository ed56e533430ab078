// Per-layer embeddings against their formulas in double precision.
#include "nn/per_layer_block.h"

#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "nn/nn_test_support.h"

namespace quire {
namespace {

constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kPerLayerWidth = 16;
constexpr std::int64_t kVocab = 11;
constexpr std::int64_t kRows = 70;  // more than are embedded at once

class PerLayerTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    QUIRE_SKIP_ABSENT_LEVEL();
    device_ = std::make_unique<CpuDevice>(2, op_table(GetParam()));
    for (std::int64_t i = 0; i < kRows; ++i)
      tokens_.push_back(static_cast<TokenId>(i * 7 % kVocab));
    hidden_ = random_floats(kRows * kHiddenSize, 1.0F, 5);
    ops_ = device_->make_stream({.max_rows = kRows, .max_inputs = kHiddenSize}).value();
    plan_ = ops_->plan_attention(1, {});
  }

  // Runs body(ctx) with an arena of so many bytes.
  template <typename Body>
  void run(std::uint64_t arena_bytes, Body body) {
    const Buffer memory = Buffer::allocate(arena_bytes).value();
    Arena arena(memory.bytes());
    ForwardContext ctx{.ops = *ops_,
                       .arena = arena,
                       .tokens = {.num_tokens = kRows, .token_ids = tokens_.data()},
                       .attention_plan = *plan_,
                       .kv_layout = {}};
    body(ctx);
  }

  Numbers hidden_of(std::int64_t row) const {
    return {hidden_.begin() + row * kHiddenSize, hidden_.begin() + (row + 1) * kHiddenSize};
  }

  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<OpStream> ops_;
  std::unique_ptr<PlannedAttention> plan_;
  std::vector<TokenId> tokens_;
  Floats hidden_;
};

double gelu_tanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST_P(PerLayerTest, VectorsAreOfTheTokenAndOfWhatEntersTheFirstLayer) {
  const TestWeights embedding = TestWeights::random(kVocab, kLayers * kPerLayerWidth, 1);
  const TestWeights projection = TestWeights::random(kLayers * kPerLayerWidth, kHiddenSize, 2);
  const TestNorm norm = TestNorm::rms(kPerLayerWidth, 3);
  const PerLayerInputs inputs(kLayers, 4.0F, 0.25F,
                              {.embedding = pack(*device_, {&embedding}),
                               .projection = pack(*device_, {&projection}),
                               .norm = norm.norm()});
  run(PerLayerInputs::arena_bytes(kLayers, kPerLayerWidth, kRows), [&](ForwardContext& ctx) {
    const PerLayerVectors vectors = inputs.compute(ctx, hidden_.data());
    ASSERT_EQ(vectors.stride, kLayers * kPerLayerWidth);
    for (std::int64_t row = 0; row < kRows; ++row) {
      Numbers projected = product(projection, hidden_of(row));
      for (double& value : projected) value *= 0.25;
      for (std::int64_t layer = 0; layer < kLayers; ++layer) {
        const auto begin = projected.begin() + layer * kPerLayerWidth;
        const Numbers normed = norm.of(Numbers(begin, begin + kPerLayerWidth));
        for (std::int64_t i = 0; i < kPerLayerWidth; ++i) {
          const std::int64_t column = layer * kPerLayerWidth + i;
          const auto at = static_cast<std::size_t>(
              tokens_[static_cast<std::size_t>(row)] * kLayers * kPerLayerWidth + column);
          const double expected = (normed[static_cast<std::size_t>(i)] +
                                   4.0 * static_cast<double>(embedding.values[at])) /
                                  std::numbers::sqrt2;
          ASSERT_NEAR(vectors.data[row * vectors.stride + column], expected, 2e-5)
              << "row " << row << ", layer " << layer;
        }
      }
    }
  });
}

TEST_P(PerLayerTest, ALayerAddsWhatItsGateLetsThroughOfItsOwnPart) {
  constexpr int kLayer = 1;
  const TestWeights gate = TestWeights::random(kPerLayerWidth, kHiddenSize, 6);
  const TestWeights output = TestWeights::random(kHiddenSize, kPerLayerWidth, 7);
  const TestNorm norm = TestNorm::rms(kHiddenSize, 8);
  const Floats vectors = random_floats(kRows * kLayers * kPerLayerWidth, 1.0F, 9);
  const PerLayerBlock block(
      Activation::kGeluTanh,
      {.gate = pack(*device_, {&gate}), .output = pack(*device_, {&output}), .norm = norm.norm()});
  Floats result = hidden_;
  Floats scratch(result.size());
  run(PerLayerBlock::arena_bytes(kPerLayerWidth, kRows), [&](ForwardContext& ctx) {
    ctx.per_layer_inputs = {.data = vectors.data(), .stride = kLayers * kPerLayerWidth};
    block.forward(ctx, kLayer, result.data(), scratch.data());
  });
  for (std::int64_t row = 0; row < kRows; ++row) {
    const Numbers hidden = hidden_of(row);
    Numbers gated = product(gate, hidden);
    for (std::int64_t i = 0; i < kPerLayerWidth; ++i) {
      const auto at = static_cast<std::size_t>((row * kLayers + kLayer) * kPerLayerWidth + i);
      double& value = gated[static_cast<std::size_t>(i)];
      value = gelu_tanh(value) * static_cast<double>(vectors[at]);
    }
    const Numbers added = norm.of(product(output, gated));
    for (std::int64_t i = 0; i < kHiddenSize; ++i) {
      const double expected =
          hidden[static_cast<std::size_t>(i)] + added[static_cast<std::size_t>(i)];
      ASSERT_NEAR(result[static_cast<std::size_t>(row * kHiddenSize + i)], expected, 5e-5)
          << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, PerLayerTest, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
