// Ops on rows on a GPU: what the CPU's definition gives, and a row's bits whatever other rows there
// are.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/state_runs.h"

namespace quire {
namespace cuda_rows_test {

using Floats = std::vector<float>;

constexpr float kEpsilon = 1e-5F;

class CudaRows : public CudaOps {
 protected:
  // Rows as they are, changed by op(device, rows, cols, x).
  using InPlace =
      std::function<void(DeviceUnderTest&, std::int64_t rows, std::int64_t cols, float* x)>;

  Floats apply(DeviceUnderTest& on, const InPlace& op, std::int64_t cols, const Floats& x) {
    on.ops->begin_step();
    const auto values = on.array(x);
    op(on, std::ssize(x) / cols, cols, values.data());
    return values.read(*on.ops);
  }

  // Short rows, long ones, and ones that are no multiple of what is read at once.
  void check(const InPlace& op, float relative, float absolute) {
    for (const std::int64_t cols : {1, 7, 128, 257, 2048, 5003}) {
      const Floats x = numbers(5 * cols, 2.0F);
      expect_alike([&](DeviceUnderTest& on) { return apply(on, op, cols, x); }, relative, absolute);
      const Floats all = apply(gpu, op, cols, x);
      const Floats first = apply(gpu, op, cols, Floats(x.begin(), x.begin() + cols));
      for (std::size_t i = 0; i < first.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(first[i]), std::bit_cast<std::uint32_t>(all[i]))
            << cols << " columns, " << i;
      }
    }
  }
};

TEST_F(CudaRows, Norms) {
  const Floats weight = numbers(8192);
  const Floats bias = numbers(8192);
  check(
      [&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
        on.ops->rms_norm_in_place(on.array(weight).data(), kEpsilon, rows, cols, cols, x);
      },
      1e-6F, 0.0F);
  check(
      [&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
        on.ops->rms_norm_and_add(x, on.array(weight).data(), kEpsilon, rows, cols, x);
      },
      1e-6F, 1e-6F);
  for (const bool has_bias : {false, true}) {
    check(
        [&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
          const auto biases = on.array(bias);
          on.ops->layer_norm(x, on.array(weight).data(), has_bias ? biases.data() : nullptr,
                             kEpsilon, rows, cols, x);
        },
        2e-6F, 2e-6F);
  }
}

TEST_F(CudaRows, Activations) {
  for (const Activation activation :
       {Activation::kGeluTanh, Activation::kGelu, Activation::kRelu, Activation::kRelu2}) {
    check([&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols,
              float* x) { on.ops->activate_in_place(activation, rows * cols, x); },
          2e-6F, 1e-7F);
  }
  check(
      [](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
        const Xielu curve = {.alpha_p = 0.8F, .alpha_n = 0.6F, .beta = 0.5F, .epsilon = -1e-6F};
        on.ops->xielu_in_place(curve, rows * cols, x);
      },
      1e-6F, 1e-6F);
}

TEST_F(CudaRows, WhatIsDoneToEachNumber) {
  const Floats other = numbers(5 * 5003);
  const Floats gates = numbers(5, 3.0F);
  const std::vector<std::int32_t> positions = {4, 0, 77, 4, 9};
  const Floats table = numbers(std::int64_t{100} * 5003);
  const auto each = [&](const InPlace& op) { check(op, 1e-6F, 1e-6F); };
  each([](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
    on.ops->scale_in_place(0.7F, rows * cols, x);
  });
  each([](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
    on.ops->clamp_in_place(1.5F, rows * cols, x);
  });
  each([&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
    on.ops->scale_and_add(on.array(other).data(), 0.3F, rows * cols, x);
  });
  each([&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
    const auto gate = on.array(gates);
    on.ops->add_gated(on.array(other).data(), gate.data(), rows, cols, x);
  });
  each([&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
    on.ops->multiply_rows(on.array(other).data(), 0, rows, cols, x);
  });
  each([&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
    const auto at = on.array(positions);
    on.ops->add_position_rows(on.array(table).data(), at.data(), rows, cols, x);
  });
  each([&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols, float* x) {
    const PositionScale scale = {.growth = 0.7F, .interval = 3.0F, .offset = 2};
    on.ops->scale_by_position(scale, on.array(positions).data(), rows, cols, cols, x);
  });
}

TEST_F(CudaRows, GatedSparselyAndMatched) {
  const Floats other = numbers(5 * 5003);
  check([](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols,
           float* x) { on.ops->keep_largest(0.8F, rows, cols, x); },
        0.0F, 1e-6F);
  check([&](DeviceUnderTest& on, std::int64_t rows, std::int64_t cols,
            float* x) { on.ops->match_rms(on.array(other).data(), 0.01F, rows, cols, x); },
        1e-6F, 0.0F);
}

TEST_F(CudaRows, RowsAreGathered) {
  const Floats x = numbers(40 * 131);
  const std::vector<std::int64_t> rows = {39, 0, 7, 7};
  expect_alike(
      [&](DeviceUnderTest& on) {
        on.ops->begin_step();
        const auto from = on.array(x);
        const auto out = on.array(Floats(rows.size() * 131));
        on.ops->gather_rows(from.data(), on.array(rows).data(), std::ssize(rows), 131, out.data());
        return out.read(*on.ops);
      },
      0.0F, 0.0F);
}

TEST_F(CudaRows, StreamsArePredictedAndCorrected) {
  constexpr std::int64_t kStreams = 4;
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kCols = 150;
  const Floats streams = numbers(kStreams * kRows * kCols);
  const Floats router = numbers(kRows * kStreams, 8.0F);
  const Floats predict = numbers(kStreams * kStreams * kStreams, 0.5F);
  const Floats correct = numbers(kStreams * kStreams, 0.5F);
  const Floats scale = numbers(kCols);
  const Floats x = numbers(kRows * kCols);
  expect_alike(
      [&](DeviceUnderTest& on) {
        on.ops->begin_step();
        const auto values = on.array(streams);
        const auto routers = on.array(router);
        const auto of_predict = on.array(predict);
        const auto of_correct = on.array(correct);
        const auto scales = on.array(scale);
        const auto active = on.array(x);
        AltUpArgs args = {.num_streams = kStreams,
                          .active = 2,
                          .streams = values.data(),
                          .router = routers.data(),
                          .router_scale = 0.125F,
                          .weight = of_predict.data()};
        on.ops->predict_streams(kRows, kCols, args, active.data());
        Floats all = active.read(*on.ops);
        args.weight = of_correct.data();
        on.ops->correct_streams(kRows, kCols, args, scales.data(), active.data());
        for (const auto* array : {&active, &values}) {
          const Floats some = array->read(*on.ops);
          all.insert(all.end(), some.begin(), some.end());
        }
        return all;
      },
      1e-6F, 4e-6F);
}

// Two sequences in steps of a few tokens over states of blocks of `block_size`.
TEST_F(CudaRows, ShortConvolutionsAreThoseOfTheCpuToTheBit) {
  constexpr std::int64_t kChannels = 37;
  constexpr std::int32_t kLength = 23;
  for (const std::int32_t taps : {2, 3, 4, 7, kMaxConvTaps}) {
    const Floats weight = numbers(kChannels * taps);
    const Floats bias = numbers(kChannels);
    const auto width = static_cast<std::size_t>((taps - 1) * kChannels);
    for (const std::int32_t block_size : {1, 2, 5, 64}) {
      for (const std::int32_t chunk : {1, 4, kLength}) {
        const Floats x = numbers(std::int64_t{2} * kLength * 3 * kChannels);
        expect_alike(
            [&](DeviceUnderTest& on) {
              std::vector<std::vector<BlockId>> pages(2);
              for (BlockId page = 0; page < kLength; ++page) {
                pages[0].push_back(page);
                pages[1].push_back(kLength + page);
              }
              on.ops->begin_step();
              const auto weights = on.array(weight);
              const auto biases = on.array(bias);
              const auto states = on.array(Floats(2 * kLength * width));
              Floats all;
              for (std::int32_t begin = 0; begin < kLength; begin += chunk) {
                const std::int32_t end = std::min(begin + chunk, kLength);
                std::vector<StateRun> runs;
                append_state_runs(0, begin, end, block_size, pages[0], runs);
                append_state_runs(end - begin, begin, end, block_size, pages[1], runs);
                const std::int64_t rows = std::int64_t{2} * (end - begin);
                const auto first = x.begin() + std::ptrdiff_t{6} * begin * kChannels;
                const auto inputs = on.array(Floats(first, first + rows * 3 * kChannels));
                const auto out = on.array(Floats(static_cast<std::size_t>(rows * kChannels)));
                on.ops->short_conv(rows,
                                   {.x = inputs.data(),
                                    .channels = kChannels,
                                    .taps = taps,
                                    .weight = weights.data(),
                                    .bias = biases.data(),
                                    .states = {.data = reinterpret_cast<std::byte*>(states.data()),
                                               .stride = width * sizeof(float),
                                               .runs = on.array(runs).data(),
                                               .num_runs = std::ssize(runs)},
                                    .out = out.data()});
                const Floats some = out.read(*on.ops);
                all.insert(all.end(), some.begin(), some.end());
              }
              const Floats left = states.read(*on.ops);
              all.insert(all.end(), left.begin(), left.end());
              return all;
            },
            0.0F, 0.0F);
      }
    }
  }
}

TEST_F(CudaRows, TheBestIsTheFirstOfTheLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t cols : {1, 5, 1000, 16388, 39999}) {
    for (const int kind : {0, 1, 2, 3}) {
      Floats x = numbers(3 * cols, 3.0F);
      if (kind == 1) std::ranges::transform(x, x.begin(), [](float v) { return std::round(v); });
      if (kind == 2) std::ranges::fill(x, -kInfinity);
      if (kind == 3) x[static_cast<std::size_t>(2 * cols - 1)] = std::nanf("");
      expect_alike(
          [&](DeviceUnderTest& on) {
            on.ops->begin_step();
            const auto values = on.array(x);
            const auto best = on.array(std::vector<RowBest>(3));
            on.ops->soft_cap_and_best(1e30F, 3, cols, values.data(), best.data());
            Floats all;
            for (const RowBest& each : best.read(*on.ops)) {
              const bool is_nan = std::isnan(each.value);
              all.push_back(is_nan ? -1.0F : static_cast<float>(each.index));
            }
            return all;
          },
          0.0F, 0.0F);
    }
  }
}

}  // namespace cuda_rows_test
}  // namespace quire
