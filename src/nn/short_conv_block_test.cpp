// The short convolution's block at every level against its formula in double precision, in steps of
// any size.
#include "nn/short_conv_block.h"

#include <cstddef>
#include <utility>

#include <gtest/gtest.h>

#include "nn/nn_test_support.h"

namespace quire {
namespace {

struct TestShortConv {
  std::int32_t taps = 3;
  TestWeights input, conv, output;
  Floats input_bias, conv_bias, output_bias;

  static TestShortConv random(std::int32_t taps, bool biases) {
    TestShortConv test;
    test.taps = taps;
    test.input = TestWeights::random(3 * kHiddenSize, kHiddenSize, 1);
    test.conv = TestWeights::random(kHiddenSize, taps, 2);
    test.output = TestWeights::random(kHiddenSize, kHiddenSize, 3);
    if (!biases) return test;
    test.input_bias = random_floats(3 * kHiddenSize, 1.0F, 4);
    test.conv_bias = random_floats(kHiddenSize, 1.0F, 5);
    test.output_bias = random_floats(kHiddenSize, 1.0F, 6);
    return test;
  }

  ShortConvBlock block(Device& device) const {
    return {taps,
            {.input = pack(device, {&input}),
             .input_bias = DeviceFloats::of_host(input_bias),
             .conv = DeviceFloats::of_host(conv.values),
             .conv_bias = DeviceFloats::of_host(conv_bias),
             .output = pack(device, {&output}),
             .output_bias = DeviceFloats::of_host(output_bias)}};
  }

  std::vector<Numbers> of(const std::vector<Numbers>& inputs) const {
    std::vector<Numbers> gated;  // [position]
    std::vector<Numbers> outputs;
    for (const Numbers& x : inputs) {
      const Numbers all = product(input, x, input_bias);
      const auto size = static_cast<std::size_t>(kHiddenSize);
      gated.emplace_back();
      for (std::size_t c = 0; c < size; ++c) gated.back().push_back(all[c] * all[2 * size + c]);
      Numbers convolved;
      for (std::size_t c = 0; c < size; ++c) {
        double sum = conv_bias.empty() ? 0.0 : static_cast<double>(conv_bias[c]);
        for (std::size_t k = 0; k < static_cast<std::size_t>(taps); ++k) {
          const std::size_t back = static_cast<std::size_t>(taps) - 1 - k;
          if (back >= gated.size()) continue;
          const auto at = c * static_cast<std::size_t>(taps) + k;
          sum += static_cast<double>(conv.values[at]) * gated[gated.size() - 1 - back][c];
        }
        convolved.push_back(all[size + c] * sum);
      }
      outputs.push_back(product(output, convolved, output_bias));
    }
    return outputs;
  }
};

class ShortConvBlockTest : public testing::TestWithParam<IsaLevel> {};

TEST_P(ShortConvBlockTest, IsItsFormulaInStepsOfAnySize) {
  QUIRE_SKIP_ABSENT_LEVEL();
  // A block of four tokens of one head, keys and values, is as large as a state of nine taps.
  const AttentionShape shape = {.num_heads = 1, .num_kv_heads = 1, .head_dim = kHiddenSize};
  const TestNorm input_norm = TestNorm::rms(kHiddenSize, 90);
  const TestNorm output_norm = TestNorm::rms(kHiddenSize, 91);
  for (const std::int32_t taps : {2, 3, 9}) {
    const TestShortConv test = TestShortConv::random(taps, taps == 3);
    CpuDevice device(1, op_table(GetParam()));
    const ShortConvBlock block = test.block(device);
    std::vector<Floats> whole;
    for (const std::int32_t chunk : {32, 5, 1}) {
      TestSequences sequences(GetParam(), shape, 2, random_sequences({13, 1, 22}, kHiddenSize),
                              kHiddenSize);
      sequences.keep_states();
      const std::int64_t rows = 3 * std::int64_t{chunk};
      const std::uint64_t arena = DecoderLayer::arena_bytes(
          ShortConvBlock::arena_bytes(kHiddenSize, rows), kHiddenSize, rows);
      const auto outputs =
          sequences.run(chunk, arena, chunk == 5 ? 2 : 1, [&](ForwardContext& ctx, float* hidden) {
            forward_between(ctx, input_norm, output_norm, hidden,
                            [&](const float* x, const Residual& residual) {
                              block.forward(ctx, nullptr, 1, x, residual);
                            });
          });
      if (chunk == 32) {
        whole = outputs;
        sequences.expect(outputs, [&](auto& hidden) {
          add_to(hidden, output_norm.of(test.of(input_norm.of(hidden))));
        });
      }
      EXPECT_EQ(outputs, whole) << "in chunks of " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ShortConvBlockTest, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
