// Per-layer embeddings against their formulas in double precision.
#include "nn/per_layer_block.h"

#include <numbers>

#include <gtest/gtest.h>

#include "nn/row_blocks_test_support.h"

namespace quire {
namespace {

constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kPerLayerWidth = 16;
constexpr std::int64_t kVocab = 11;

class PerLayerTest : public RowsOfAStep {
 protected:
  void SetUp() override {
    RowsOfAStep::SetUp();
    for (std::int64_t i = 0; i < kRows; ++i)
      tokens_.push_back(static_cast<TokenId>(i * 7 % kVocab));
  }
};

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
  constexpr std::int64_t kCopies = 2;
  Floats result = hidden_;
  result.insert(result.end(), hidden_.begin(), hidden_.end());
  Floats scratch(hidden_.size());
  run(PerLayerBlock::arena_bytes(kPerLayerWidth, kRows), [&](ForwardContext& ctx) {
    ctx.per_layer_inputs = {.data = vectors.data(), .stride = kLayers * kPerLayerWidth};
    block.forward(ctx, kLayer, hidden_.data(), result.data(), kCopies, scratch.data());
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
      for (std::int64_t copy = 0; copy < kCopies; ++copy) {
        const std::int64_t at = (copy * kRows + row) * kHiddenSize + i;
        ASSERT_NEAR(result[static_cast<std::size_t>(at)], expected, 5e-5) << "row " << row;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, PerLayerTest, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
