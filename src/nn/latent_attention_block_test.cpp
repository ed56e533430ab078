// Latent attention at every level against its formula in double precision, in which keys and values
// of all heads are made of the latents, in steps of any size.
#include "nn/latent_attention_block.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "nn/attention_test_support.h"
#include "nn/nn_test_support.h"

namespace quire {
namespace {

// The block as numbers: what the checkpoint has, and what comes out of that.
struct TestLatentAttention {
  LatentAttentionShape shape;
  TestRotary rotary;
  TestWeights query_down, query, latent;  // latent: the latent's rows first
  std::vector<TestWeights> keys, values;  // of each head: [key_dims], [value_dims] of a latent
  TestWeights output;
  TestNorm query_norm, latent_norm;
  Floats query_down_bias, latent_bias, output_bias;

  static TestLatentAttention random(const LatentAttentionShape& shape, const TestRotary& rotary,
                                    bool biases) {
    TestLatentAttention test;
    test.shape = shape;
    test.rotary = rotary;
    const std::int64_t rank = shape.query_rank;
    if (rank != 0) {
      test.query_down = TestWeights::random(rank, kHiddenSize, 1);
      test.query_norm = TestNorm::rms(static_cast<std::size_t>(rank), 2);
    }
    test.query = TestWeights::random(shape.query_width(), rank == 0 ? kHiddenSize : rank, 3);
    test.latent = TestWeights::random(shape.latent_width(), kHiddenSize, 4);
    test.latent_norm = TestNorm::rms(static_cast<std::size_t>(shape.latent_dims), 5);
    for (std::int32_t head = 0; head < shape.num_heads; ++head) {
      const auto seed = static_cast<unsigned>(10 + 2 * head);
      test.keys.push_back(TestWeights::random(shape.key_dims, shape.latent_dims, seed));
      test.values.push_back(TestWeights::random(shape.value_dims, shape.latent_dims, seed + 1));
    }
    test.output =
        TestWeights::random(kHiddenSize, std::int64_t{shape.num_heads} * shape.value_dims, 6);
    if (!biases) return test;
    if (rank != 0) test.query_down_bias = random_floats(static_cast<std::size_t>(rank), 1.0F, 7);
    test.latent_bias = random_floats(static_cast<std::size_t>(shape.latent_width()), 1.0F, 8);
    test.output_bias = random_floats(static_cast<std::size_t>(kHiddenSize), 1.0F, 9);
    return test;
  }

  LatentAttentionBlock block(Device& device) const {
    LatentAttentionWeights weights;
    if (shape.query_rank != 0) weights.query_down = pack(device, {&query_down});
    weights.query_down_bias = DeviceFloats::of_host(query_down_bias);
    weights.query_down_norm = DeviceFloats::of_host(query_norm.weight);
    weights.query = pack(device, {&query});
    TestWeights turned = latent;
    std::rotate(turned.values.begin(), turned.values.begin() + shape.latent_dims * kHiddenSize,
                turned.values.end());
    weights.latent = pack(device, {&turned});
    Floats turned_bias = latent_bias;
    if (!turned_bias.empty()) {
      std::rotate(turned_bias.begin(), turned_bias.begin() + shape.latent_dims, turned_bias.end());
    }
    weights.latent_bias = DeviceFloats::of_host(turned_bias);
    weights.latent_norm = DeviceFloats::of_host(latent_norm.weight);
    for (std::size_t head = 0; head < keys.size(); ++head) {
      TestWeights transposed = {shape.latent_dims, shape.key_dims, {}};
      for (std::int64_t i = 0; i < shape.latent_dims; ++i) {
        for (std::int64_t k = 0; k < shape.key_dims; ++k) {
          transposed.values.push_back(
              keys[head].values[static_cast<std::size_t>(k * shape.latent_dims + i)]);
        }
      }
      weights.keys.push_back(pack(device, {&transposed}));
      weights.values.push_back(pack(device, {&values[head]}));
    }
    weights.output = pack(device, {&output});
    weights.output_bias = DeviceFloats::of_host(output_bias);
    return {shape, std::move(weights)};
  }

  std::vector<Numbers> of(const std::vector<Numbers>& inputs) const {
    std::vector<Numbers> latents;  // [position]
    std::vector<Numbers> turned;   // keys that turn
    std::vector<Numbers> outputs;
    for (std::size_t position = 0; position < inputs.size(); ++position) {
      const Numbers& x = inputs[position];
      const Numbers both = product(latent, x, latent_bias);
      latents.push_back(latent_norm.of(Numbers(both.begin(), both.begin() + shape.latent_dims)));
      turned.emplace_back(both.begin() + shape.latent_dims, both.end());
      rotary.turn(turned.back(), position);
      const Numbers made_of =
          shape.query_rank == 0 ? x : query_norm.of(product(query_down, x, query_down_bias));
      const Numbers queries = product(query, made_of);
      Numbers attended;
      for (std::size_t head = 0; head < keys.size(); ++head) {
        const auto at = queries.begin() +
                        static_cast<std::ptrdiff_t>(head) * (shape.key_dims + shape.rope_dims);
        const Numbers still(at, at + shape.key_dims);
        Numbers turning(at + shape.key_dims, at + shape.key_dims + shape.rope_dims);
        rotary.turn(turning, position);
        Numbers shares;
        for (std::size_t other = 0; other <= position; ++other) {
          const Numbers key = product(keys[head], latents[other]);
          double score = std::inner_product(key.begin(), key.end(), still.begin(), 0.0);
          score += std::inner_product(turning.begin(), turning.end(), turned[other].begin(), 0.0);
          shares.push_back(std::exp(score * static_cast<double>(shape.scale)));
        }
        const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
        Numbers sum(static_cast<std::size_t>(shape.value_dims), 0.0);
        for (std::size_t other = 0; other <= position; ++other) {
          const Numbers value = product(values[head], latents[other]);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += shares[other] / all * value[i];
        }
        attended.insert(attended.end(), sum.begin(), sum.end());
      }
      outputs.push_back(product(output, attended, output_bias));
    }
    return outputs;
  }
};

class LatentAttentionBlockTest : public testing::TestWithParam<IsaLevel> {
 protected:
  static void check(const TestLatentAttention& test, const TestNorm& output_norm = {}) {
    const LatentAttentionShape& shape = test.shape;
    CpuDevice device(1, op_table(GetParam()));
    const LatentAttentionBlock block = test.block(device);
    const TestNorm input_norm = TestNorm::rms(kHiddenSize, 90);
    const RotaryTable rotary = test.rotary.table(32);
    std::vector<Floats> whole;
    for (const std::int32_t chunk : {32, 5, 1}) {
      TestSequences sequences(GetParam(),
                              {.num_heads = shape.num_heads,
                               .num_kv_heads = 1,
                               .head_dim = static_cast<std::int32_t>(shape.latent_width())},
                              2, random_sequences({13, 1, 22}, kHiddenSize), kHiddenSize, {},
                              shape.latent_dims,
                              {.num_heads = shape.num_heads,
                               .max_inputs = std::max(shape.latent_dims, shape.key_dims)});
      const std::int64_t rows = 3 * std::int64_t{chunk};
      const std::uint64_t arena = DecoderLayer::arena_bytes(
          LatentAttentionBlock::arena_bytes(shape, rows), kHiddenSize, rows);
      const auto outputs =
          sequences.run(chunk, arena, chunk == 5 ? 2 : 1, [&](ForwardContext& ctx, float* hidden) {
            forward_between(ctx, input_norm, output_norm, hidden,
                            [&](const float* x, const Residual& residual) {
                              block.forward(ctx, &rotary, 1, x, residual);
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

  static constexpr LatentAttentionShape kShape = {.num_heads = 4,
                                                  .latent_dims = 24,
                                                  .rope_dims = 8,
                                                  .key_dims = 12,
                                                  .value_dims = 20,
                                                  .scale = 0.2F,
                                                  .norm_epsilon = TestNorm::kEpsilon};
};

TEST_P(LatentAttentionBlockTest, QueriesOfTheInput) {
  QUIRE_SKIP_ABSENT_LEVEL();
  check(TestLatentAttention::random(kShape, {.rotary_dim = 8}, false));
  check(TestLatentAttention::random(
            kShape, {.rotary_dim = 8, .theta = 100.0, .style = RopeStyle::kInterleaved}, true),
        TestNorm::rms(kHiddenSize, 30));
}

TEST_P(LatentAttentionBlockTest, QueriesOfALatentOfTheirOwn) {
  QUIRE_SKIP_ABSENT_LEVEL();
  LatentAttentionShape shape = kShape;
  shape.query_rank = 18;
  shape.num_heads = 5;
  for (const bool biases : {false, true}) {
    check(TestLatentAttention::random(shape, {.rotary_dim = 8}, biases));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, LatentAttentionBlockTest, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
