// Alternating updates and sparse gates against their formulas in double precision, on odd sizes.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/row_ops_test_support.h"

namespace quire {
namespace {

constexpr std::int64_t kStreamRows = 5;
constexpr std::int64_t kStreamCols = 150;  // of which 64 are read at once

class StreamOps : public RowOps {};

// One step of kStreamRows tokens.
struct Streams {
  explicit Streams(std::int64_t streams)
      : count(streams),
        values(random_floats(size(streams * kStreamRows * kStreamCols), 1.0F, 1)),
        router(random_floats(size(kStreamRows * streams), 8.0F, 2)),
        predict(random_floats(size(streams * streams * streams), 0.5F, 3)),
        correct(random_floats(size(streams * streams), 0.5F, 4)) {}

  static std::size_t size(std::int64_t number) { return static_cast<std::size_t>(number); }

  AltUpArgs args(const std::vector<float>& weight, std::vector<float>& streams) const {
    return {.num_streams = count,
            .active = count - 2,
            .streams = streams.data(),
            .router = router.data(),
            .router_scale = 0.125F,
            .weight = weight.data()};
  }
  double at(std::int64_t stream, std::int64_t row, std::int64_t col) const {
    return values[size((stream * kStreamRows + row) * kStreamCols + col)];
  }
  // sum_k weight[i][k] m[k]
  double weighed(const std::vector<float>& weight, std::int64_t i, std::int64_t row) const {
    double sum = 0.0;
    for (std::int64_t k = 0; k < count; ++k) {
      sum += double{weight[size(i * count + k)]} *
             std::tanh(double{router[size(row * count + k)]} * 0.125);
    }
    return sum;
  }
  double predicted(std::int64_t stream, std::int64_t row, std::int64_t col) const {
    double sum = at(stream, row, col);
    for (std::int64_t j = 0; j < count; ++j) {
      sum += weighed(predict, stream * count + j, row) * at(j, row, col);
    }
    return sum;
  }

  std::int64_t count;
  std::vector<float> values;
  std::vector<float> router;
  std::vector<float> predict;
  std::vector<float> correct;
};

TEST_P(StreamOps, StreamsArePredictedFromAllOfThem) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t count : {2, 3, 4, 8}) {
    const Streams before(count);
    std::vector<float> streams = before.values;
    std::vector<float> out(Streams::size(kStreamRows * kStreamCols), kNan);
    predict_streams(ctx_, kStreamRows, kStreamCols, before.args(before.predict, streams),
                    out.data());
    for (std::int64_t row = 0; row < kStreamRows; ++row) {
      for (std::int64_t col = 0; col < kStreamCols; ++col) {
        const auto place = Streams::size(row * kStreamCols + col);
        for (std::int64_t i = 0; i < count; ++i) {
          const double expected = before.predicted(i, row, col);
          ASSERT_NEAR(streams[Streams::size(i * kStreamRows * kStreamCols) + place], expected,
                      1e-5 * (1.0 + std::abs(expected)))
              << count << " streams, stream " << i << ", row " << row << ", column " << col;
        }
        ASSERT_EQ(out[place],
                  streams[Streams::size((count - 2) * kStreamRows * kStreamCols) + place]);
      }
    }
  }
}

TEST_P(StreamOps, StreamsAreCorrectedByWhatTheActiveOneHasBecome) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<float> scale = random_floats(Streams::size(kStreamCols), 1.0F, 5);
  for (const bool scaled : {true, false}) {
    const Streams before(4);
    const std::vector<float> activated =
        random_floats(Streams::size(kStreamRows * kStreamCols), 1.0F, 6);
    std::vector<float> streams = before.values;
    std::vector<float> x = activated;
    const AltUpArgs args = before.args(before.correct, streams);
    correct_streams(ctx_, kStreamRows, kStreamCols, args, scaled ? scale.data() : nullptr,
                    x.data());
    for (std::int64_t row = 0; row < kStreamRows; ++row) {
      for (std::int64_t col = 0; col < kStreamCols; ++col) {
        const auto place = Streams::size(row * kStreamCols + col);
        const double innovation = double{activated[place]} - before.at(args.active, row, col);
        for (std::int64_t i = 0; i < 4; ++i) {
          const double expected =
              before.at(i, row, col) + (1.0 + before.weighed(before.correct, i, row)) * innovation;
          ASSERT_NEAR(streams[Streams::size(i * kStreamRows * kStreamCols) + place], expected,
                      1e-5 * (1.0 + std::abs(expected)))
              << "stream " << i << ", row " << row << ", column " << col;
        }
        const float active =
            streams[Streams::size(args.active * kStreamRows * kStreamCols) + place];
        ASSERT_EQ(x[place], scaled ? active * scale[Streams::size(col)] : active);
      }
    }
  }
}

// A row's numbers depend neither on the rows around it nor on the threads.
TEST_P(StreamOps, StreamsOfATokenAreTheSameInAnyBatch) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const Streams all(4);
  std::vector<float> streams = all.values;
  std::vector<float> out(Streams::size(kStreamRows * kStreamCols));
  predict_streams(ctx_, kStreamRows, kStreamCols, all.args(all.predict, streams), out.data());
  correct_streams(ctx_, kStreamRows, kStreamCols, all.args(all.correct, streams), nullptr,
                  out.data());
  for (std::int64_t row = 0; row < kStreamRows; ++row) {
    std::vector<float> alone;
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto from = all.values.begin() + (i * kStreamRows + row) * kStreamCols;
      alone.insert(alone.end(), from, from + kStreamCols);
    }
    std::vector<float> one(Streams::size(kStreamCols));
    AltUpArgs args = all.args(all.predict, alone);
    args.router += row * 4;
    predict_streams(ctx_, 1, kStreamCols, args, one.data());
    args.weight = all.correct.data();
    correct_streams(ctx_, 1, kStreamCols, args, nullptr, one.data());
    for (std::int64_t col = 0; col < kStreamCols; ++col) {
      ASSERT_EQ(one[Streams::size(col)], out[Streams::size(row * kStreamCols + col)]) << row;
    }
  }
}

TEST_P(StreamOps, MatchRmsGivesRowsTheSizeOfOthers) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto rms = [](const float* x, std::int64_t cols) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < cols; ++c) sum += double{x[c]} * x[c];
    return std::sqrt(sum / static_cast<double>(cols));
  };
  for (const std::int64_t cols : {1, 7, 8, 150, 4097}) {
    const auto like = random_floats(Streams::size(3 * cols), 2.0F, 7);
    auto before = random_floats(Streams::size(3 * cols), 1.0F, 8);
    for (std::int64_t c = cols; c < 2 * cols; ++c) before[Streams::size(c)] *= 1e-6F;
    auto x = before;
    match_rms(ctx_, like.data(), 1e-5F, 3, cols, x.data());
    for (std::int64_t row = 0; row < 3; ++row) {
      const float* const own = before.data() + row * cols;
      const double factor =
          rms(like.data() + row * cols, cols) / std::max(rms(own, cols), std::sqrt(1e-5));
      for (std::int64_t c = 0; c < cols; ++c) {
        const double expected = double{own[c]} * factor;
        ASSERT_NEAR(x[Streams::size(row * cols + c)], expected, 1e-5 * std::abs(expected)) << cols;
      }
    }
  }
}

TEST_P(StreamOps, KeepLargestLeavesWhatIsAboveTheCutoff) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 9, 64, 4097}) {
    for (const float deviations : {1.5F, 0.0F, -1.0F}) {
      auto before = random_floats(Streams::size(3 * cols), 1.0F, 9);
      for (float& value : before) value += 0.25F;
      auto x = before;
      keep_largest(ctx_, deviations, 3, cols, x.data());
      for (std::int64_t row = 0; row < 3; ++row) {
        const float* const own = before.data() + row * cols;
        double mean = 0.0;
        for (std::int64_t c = 0; c < cols; ++c) mean += double{own[c]};
        mean /= static_cast<double>(cols);
        double variance = 0.0;
        for (std::int64_t c = 0; c < cols; ++c) variance += std::pow(double{own[c]} - mean, 2);
        variance /= static_cast<double>(cols);
        const double cutoff = mean + double{deviations} * std::sqrt(variance);
        for (std::int64_t c = 0; c < cols; ++c) {
          ASSERT_NEAR(x[Streams::size(row * cols + c)], std::max(0.0, double{own[c]} - cutoff),
                      2e-6)
              << cols << " numbers, " << deviations << " deviations, number " << c;
        }
      }
    }
  }
  std::vector<float> spoiled = {1.0F, kNan, 2.0F};
  keep_largest(ctx_, 1.0F, 1, 3, spoiled.data());
  EXPECT_TRUE(std::isnan(spoiled[0]) && std::isnan(spoiled[1]));
}

INSTANTIATE_TEST_SUITE_P(Levels, StreamOps, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
