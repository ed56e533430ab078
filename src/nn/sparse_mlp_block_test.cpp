// An MLP with sparse gates against its formula in double precision.
#include "nn/sparse_mlp_block.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "nn/row_blocks_test_support.h"

namespace quire {
namespace {

constexpr std::int64_t kSparseWidth = 72;

class SparseMlpTest : public RowsOfAStep {};

TEST_P(SparseMlpTest, OnlyGatesAboveTheCutoffAreOpen) {
  constexpr double kDeviations = 0.75;
  const TestWeights gate = TestWeights::random(kSparseWidth, kHiddenSize, 1);
  const TestWeights up = TestWeights::random(kSparseWidth, kHiddenSize, 2);
  const TestWeights down = TestWeights::random(kHiddenSize, kSparseWidth, 3);
  const SparseMlpBlock block(Activation::kGeluTanh, kDeviations,
                             {.gate = pack(*device_, {&gate}),
                              .up = pack(*device_, {&up}),
                              .down = pack(*device_, {&down}),
                              .gate_bias = {},
                              .up_bias = {},
                              .down_bias = {}});
  const Floats x = random_floats(hidden_.size(), 1.0F, 4);
  Floats result = hidden_;
  run(SparseMlpBlock::arena_bytes(kSparseWidth, kRows),
      [&](ForwardContext& ctx) { block.forward(ctx, x.data(), {.hidden = result.data()}); });
  for (std::int64_t row = 0; row < kRows; ++row) {
    Numbers gates = product(gate, row_of(x, row));
    const double mean = std::accumulate(gates.begin(), gates.end(), 0.0) / kSparseWidth;
    double variance = 0.0;
    for (const double value : gates) variance += (value - mean) * (value - mean);
    const double cutoff = mean + kDeviations * std::sqrt(variance / kSparseWidth);
    const Numbers others = product(up, row_of(x, row));
    for (std::size_t i = 0; i < gates.size(); ++i) {
      gates[i] = gelu_tanh(std::max(0.0, gates[i] - cutoff)) * others[i];
    }
    EXPECT_GT(std::ranges::count(gates, 0.0), kSparseWidth / 2);
    Numbers expected = product(down, gates);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += hidden_of(row)[i];
    expect_row(result, row, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, SparseMlpTest, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
