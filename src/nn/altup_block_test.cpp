// Streams of tokens, and the residual of low rank that goes with them, against their formulas in
// double precision.
#include "nn/altup_block.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "nn/laurel_block.h"
#include "nn/row_blocks_test_support.h"

namespace quire {
namespace {

constexpr std::int64_t kStreams = 3;
constexpr std::int64_t kActive = 1;

double rms(const Numbers& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) /
                   static_cast<double>(x.size()));
}

// W x, as large as `like`.
Numbers matched(const TestWeights& weights, const Numbers& x, const Numbers& like) {
  Numbers out = product(weights, x);
  const double factor = rms(like) / std::max(rms(out), std::sqrt(1e-5));
  for (double& value : out) value *= factor;
  return out;
}

class AltUpTest : public RowsOfAStep {
 protected:
  AltUpStreams streams() const {
    return AltUpStreams({.projections = both(projections_), .unembeddings = both(unembeddings_)});
  }
  AltUpBlock block(bool scaled) const {
    return {kActive,
            {.router = pack(*device_, {&router_}),
             .router_norm = norm_.norm(),
             .predict = DeviceFloats::of_host(predict_),
             .correct = DeviceFloats::of_host(correct_),
             .scale = DeviceFloats::of_host(scaled ? scale_ : Floats())}};
  }
  std::vector<PackedWeight> both(const std::vector<TestWeights>& weights) const {
    std::vector<PackedWeight> packed;
    for (const TestWeights& one : weights) packed.push_back(pack(*device_, {&one}));
    return packed;
  }

  // Row `row` of each stream.
  static std::vector<Numbers> rows_of(const Floats& streams, std::int64_t row) {
    std::vector<Numbers> rows;
    for (std::int64_t i = 0; i < kStreams; ++i) rows.push_back(row_of(streams, i * kRows + row));
    return rows;
  }
  static void expect_rows(const Floats& streams, std::int64_t row,
                          const std::vector<Numbers>& expected) {
    for (std::int64_t i = 0; i < kStreams; ++i) {
      expect_row(streams, i * kRows + row, expected[static_cast<std::size_t>(i)]);
    }
  }

  // What a layer's numbers make of the token's modalities.
  Numbers factors(const Floats& weights, const Numbers& hidden) const {
    Numbers modalities = product(router_, norm_.of(hidden));
    for (double& value : modalities) value = std::tanh(value / kHiddenSize);
    const std::int64_t count = std::ssize(weights) / kStreams;
    return product({count, kStreams, weights}, modalities);
  }

  const std::vector<TestWeights> projections_ = {TestWeights::random(kHiddenSize, kHiddenSize, 1),
                                                 TestWeights::random(kHiddenSize, kHiddenSize, 2)};
  const std::vector<TestWeights> unembeddings_ = {TestWeights::random(kHiddenSize, kHiddenSize, 3),
                                                  TestWeights::random(kHiddenSize, kHiddenSize, 4)};
  // Of which modalities come that tell tokens apart.
  const TestWeights router_ = {kStreams, kHiddenSize,
                               random_floats(kStreams* kHiddenSize, 5.0F, 5)};
  const TestNorm norm_ = TestNorm::rms(kHiddenSize, 6);
  const Floats predict_ = random_floats(kStreams * kStreams * kStreams, 0.5F, 7);
  const Floats correct_ = random_floats(kStreams * kStreams, 0.5F, 8);
  const Floats scale_ = random_floats(kHiddenSize, 1.0F, 9);
};

TEST_P(AltUpTest, StreamsBeginAsProjectionsAndEndAsTheirMean) {
  const AltUpStreams all = streams();
  Floats merged(hidden_.size());
  Floats scratch(hidden_.size());
  run(AltUpStreams::arena_bytes(kStreams, kHiddenSize, kRows), [&](ForwardContext& ctx) {
    ctx.streams = all.open(ctx, hidden_.data());
    const Floats opened(ctx.streams, ctx.streams + kStreams * kRows * kHiddenSize);
    all.merge(ctx, merged.data(), scratch.data());
    for (std::int64_t row = 0; row < kRows; ++row) {
      const Numbers first = hidden_of(row);
      expect_rows(
          opened, row,
          {first, matched(projections_[0], first, first), matched(projections_[1], first, first)});
      const std::vector<Numbers> begun = rows_of(opened, row);
      const Numbers second = matched(unembeddings_[0], begun[1], first);
      const Numbers third = matched(unembeddings_[1], begun[2], first);
      Numbers mean = first;
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (mean[i] + second[i] + third[i]) / 3;
      expect_row(merged, row, mean);
    }
  });
}

TEST_P(AltUpTest, ALayerPredictsAllStreamsAndCorrectsThemByTheActiveOne) {
  const Floats begin = random_floats(kStreams * kRows * kHiddenSize, 1.0F, 10);
  for (const bool scaled : {true, false}) {
    const AltUpBlock layer = block(scaled);
    ASSERT_EQ(layer.num_streams(), kStreams);
    Floats all = begin;
    Floats hidden(hidden_.size());
    Floats scratch(hidden_.size());
    Floats predicted;
    run(AltUpBlock::arena_bytes(kStreams, kRows), [&](ForwardContext& ctx) {
      ctx.streams = all.data();
      layer.predict(ctx, hidden.data(), scratch.data());
      predicted = all;
      for (std::int64_t row = 0; row < kRows; ++row) {
        expect_row(hidden, row, row_of(predicted, kActive * kRows + row));
      }
      hidden = hidden_;  // what a layer may make of it
      layer.correct(ctx, hidden.data(), scratch.data());
    });
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::vector<Numbers> before = rows_of(begin, row);
      const Numbers predictions = factors(predict_, before[kActive]);
      const Numbers corrections = factors(correct_, hidden_of(row));
      std::vector<Numbers> after = before;
      for (std::size_t i = 0; i < kStreams; ++i) {
        for (std::size_t j = 0; j < kStreams; ++j) {
          for (std::size_t c = 0; c < kHiddenSize; ++c) {
            after[i][c] += predictions[i * kStreams + j] * before[j][c];
          }
        }
      }
      expect_rows(predicted, row, after);
      const Numbers expected = after[kActive];
      for (std::size_t i = 0; i < kStreams; ++i) {
        for (std::size_t c = 0; c < kHiddenSize; ++c) {
          after[i][c] += (1.0 + corrections[i]) * (hidden_of(row)[c] - expected[c]);
        }
      }
      expect_rows(all, row, after);
      Numbers given = after[kActive];
      for (std::size_t c = 0; scaled && c < given.size(); ++c) {
        given[c] *= static_cast<double>(scale_[c]);
      }
      expect_row(hidden, row, given);
    }
  }
}

TEST_P(AltUpTest, LaurelAddsItsInputAndAProductOfLowRank) {
  constexpr std::int64_t kRank = 6;
  const TestWeights left = TestWeights::random(kRank, kHiddenSize, 11);
  const TestWeights right = TestWeights::random(kHiddenSize, kRank, 12);
  const LaurelBlock laurel(
      {.left = pack(*device_, {&left}), .right = pack(*device_, {&right}), .norm = norm_.norm()});
  const Floats x = random_floats(hidden_.size(), 1.0F, 13);
  Floats result = hidden_;
  run(LaurelBlock::arena_bytes(kRank, kHiddenSize, kRows),
      [&](ForwardContext& ctx) { laurel.forward(ctx, x.data(), result.data()); });
  for (std::int64_t row = 0; row < kRows; ++row) {
    Numbers expected = norm_.of(product(right, product(left, row_of(x, row))));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += row_of(x, row)[i] + hidden_of(row)[i];
    }
    expect_row(result, row, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, AltUpTest, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
