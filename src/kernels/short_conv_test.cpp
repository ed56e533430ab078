// The gated short convolution against its definition, in runs of any length, states in place or
// not.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/row_ops_test_support.h"
#include "kernels/state_runs.h"

namespace quire {
namespace short_conv_test {

constexpr std::int32_t kChannels = 37;

// Sequences of some lengths, their rows side by side.
struct Sequences {
  std::vector<std::int32_t> lengths;
  std::int32_t taps = 3;
  std::vector<float> x, weight, bias;

  static Sequences random(std::vector<std::int32_t> lengths, std::int32_t taps) {
    Sequences made = {std::move(lengths), taps, {}, {}, {}};
    std::size_t rows = 0;
    for (const std::int32_t length : made.lengths) rows += static_cast<std::size_t>(length);
    made.x = random_floats(rows * 3 * kChannels, 1.0F, 1);
    made.weight = random_floats(static_cast<std::size_t>(kChannels * taps), 1.0F, 2);
    made.bias = random_floats(kChannels, 1.0F, 3);
    return made;
  }

  std::vector<float> row(std::size_t index) const {
    const auto at = x.begin() + static_cast<std::ptrdiff_t>(index * 3 * kChannels);
    return {at, at + 3 * kChannels};
  }

  std::vector<double> expected() const {
    std::vector<double> out;
    std::size_t first = 0;
    for (const std::int32_t length : lengths) {
      for (std::int32_t t = 0; t < length; ++t) {
        for (std::size_t c = 0; c < kChannels; ++c) {
          double sum = bias[c];
          for (std::int32_t k = 0; k < taps; ++k) {
            const std::int32_t from = t - taps + 1 + k;
            if (from < 0) continue;
            const auto other = row(first + static_cast<std::size_t>(from));
            sum +=
                double{weight[c * static_cast<std::size_t>(taps) + static_cast<std::size_t>(k)]} *
                double{other[c]} * double{other[2 * kChannels + c]};
          }
          out.push_back(double{row(first + static_cast<std::size_t>(t))[kChannels + c]} * sum);
        }
      }
      first += static_cast<std::size_t>(length);
    }
    return out;
  }

  // In steps of at most `chunk` tokens of each sequence, over states of blocks.
  std::vector<float> run(OpContext& ctx, std::int32_t chunk, std::int32_t block_size) const {
    const auto width = static_cast<std::size_t>((taps - 1) * kChannels);
    std::vector<std::vector<BlockId>> pages;
    BlockId next = 0;
    std::int32_t longest = 0;
    for (const std::int32_t length : lengths) {
      longest = std::max(longest, length);
      pages.emplace_back();
      for (std::int32_t t = 0; t < length; t += block_size) pages.back().push_back(next++);
    }
    std::vector<float> states(static_cast<std::size_t>(next) * (width + 3), kNan);
    std::vector<float> out(x.size() / 3);
    for (std::int32_t begin = 0; begin < longest; begin += chunk) {
      std::vector<float> rows;
      std::vector<StateRun> runs;
      std::vector<std::size_t> places;
      std::size_t first = 0;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const std::int32_t end = std::min(begin + chunk, lengths[i]);
        if (begin < end) {
          append_state_runs(static_cast<std::int32_t>(places.size()), begin, end, block_size,
                            pages[i], runs);
        }
        for (std::int32_t t = begin; t < end; ++t) {
          places.push_back(first + static_cast<std::size_t>(t));
          const auto values = row(places.back());
          rows.insert(rows.end(), values.begin(), values.end());
        }
        first += static_cast<std::size_t>(lengths[i]);
      }
      std::vector<float> got(places.size() * kChannels);
      short_conv(ctx, std::ssize(places),
                 {.x = rows.data(),
                  .channels = kChannels,
                  .taps = taps,
                  .weight = weight.data(),
                  .bias = bias.data(),
                  .states = {.data = reinterpret_cast<std::byte*>(states.data()),
                             .stride = (width + 3) * sizeof(float),
                             .runs = runs.data(),
                             .num_runs = std::ssize(runs)},
                  .out = got.data()});
      for (std::size_t i = 0; i < places.size(); ++i) {
        std::copy_n(got.begin() + static_cast<std::ptrdiff_t>(i * kChannels), kChannels,
                    out.begin() + static_cast<std::ptrdiff_t>(places[i] * kChannels));
      }
    }
    return out;
  }
};

TEST(ShortConv, IsItsDefinitionAndTheSameBitsInAnySteps) {
  ThreadPool pool(2);
  OpContext ctx{pool, op_table(IsaLevel::kRef), {}};
  for (const std::int32_t taps : {2, 3, 4, kMaxConvTaps}) {
    const Sequences sequences = Sequences::random({13, 1, 40, 2}, taps);
    const auto expected = sequences.expected();
    const auto whole = sequences.run(ctx, 40, 64);
    ASSERT_EQ(whole.size(), expected.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      ASSERT_NEAR(whole[i], expected[i], 1e-5 * (1.0 + std::abs(expected[i]))) << i;
    }
    for (const std::int32_t chunk : {1, 3, 40}) {
      for (const std::int32_t block_size : {1, 2, 5, 64}) {
        EXPECT_EQ(sequences.run(ctx, chunk, block_size), whole)
            << taps << " taps, chunks of " << chunk << ", blocks of " << block_size;
      }
    }
  }
}

TEST(ShortConv, IsSharedByWorkersByChannels) {
  constexpr std::int64_t kMany = 1000;
  constexpr std::int64_t kRows = 30;
  const auto x = random_floats(kRows * 3 * kMany, 1.0F, 4);
  const auto weight = random_floats(3 * kMany, 1.0F, 5);
  std::vector<std::vector<float>> outs;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    OpContext ctx{pool, op_table(IsaLevel::kRef), {}};
    auto rows = x;
    std::vector<float> states(2 * kMany);
    std::vector<float> out(kRows * kMany);
    const StateRun run = {.num_rows = kRows};
    short_conv(ctx, kRows,
               {.x = rows.data(),
                .channels = kMany,
                .taps = 3,
                .weight = weight.data(),
                .states = {.data = reinterpret_cast<std::byte*>(states.data()),
                           .stride = states.size() * sizeof(float),
                           .runs = &run,
                           .num_runs = 1},
                .out = out.data()});
    out.insert(out.end(), states.begin(), states.end());
    outs.push_back(std::move(out));
  }
  EXPECT_EQ(outs[0], outs[1]);
}

}  // namespace short_conv_test
}  // namespace quire
