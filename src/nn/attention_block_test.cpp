// The attention block at every level against its formula in double precision, in steps of any size.
#include "nn/attention_block.h"

#include <gtest/gtest.h>

#include "nn/attention_test_support.h"
#include "nn/nn_test_support.h"

namespace quire {
namespace {

class AttentionBlockTest : public testing::TestWithParam<IsaLevel> {
 protected:
  static AttentionShape shape(std::int32_t num_heads, std::int32_t num_kv_heads,
                              std::int32_t head_dim, std::int32_t window = 0) {
    return {.num_heads = num_heads,
            .num_kv_heads = num_kv_heads,
            .head_dim = head_dim,
            .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
            .window = window};
  }

  // Against the formula, and the same bits however the tokens came.
  static void check(const TestAttention& attention, bool apart = false,
                    const TestNorm& output_norm = {}) {
    CpuDevice device(1, op_table(GetParam()));
    const AttentionBlock block = attention.block(device, apart);
    const TestNorm input_norm = TestNorm::rms(kHiddenSize, 90);
    const RotaryTable table = attention.rotary.table(32);
    const RotaryTable* rotary = attention.rotary.rotary_dim > 0 ? &table : nullptr;
    std::vector<Floats> whole;
    for (const std::int32_t chunk : {32, 5, 1}) {
      TestSequences sequences(GetParam(), attention.shape, 2,
                              random_sequences({13, 1, 22}, kHiddenSize), kHiddenSize);
      const std::int64_t rows = 3 * std::int64_t{chunk};
      const std::uint64_t arena = DecoderLayer::arena_bytes(
          AttentionBlock::arena_bytes(attention.shape, rows), kHiddenSize, rows);
      const auto outputs =
          sequences.run(chunk, arena, chunk == 5 ? 2 : 1, [&](ForwardContext& ctx, float* hidden) {
            forward_between(ctx, input_norm, output_norm, hidden,
                            [&](const float* x, const Residual& residual) {
                              block.forward(ctx, rotary, 1, x, residual);
                            });
          });
      if (chunk == 32) {
        whole = outputs;
        sequences.expect(outputs, [&](auto& hidden) {
          add_to(hidden, output_norm.of(attention.of(input_norm.of(hidden))));
        });
      }
      EXPECT_EQ(outputs, whole) << "in chunks of " << chunk;
    }
  }
};

TEST_P(AttentionBlockTest, MultiHeadGroupedAndMultiQuery) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int32_t num_kv_heads : {4, 2, 1}) {
    check(TestAttention::random(shape(4, num_kv_heads, 16), {.rotary_dim = 16}, kHiddenSize, 1));
  }
}

TEST_P(AttentionBlockTest, OddHeadsAndPartsThatTurn) {
  QUIRE_SKIP_ABSENT_LEVEL();
  check(TestAttention::random(shape(3, 3, 18), {.rotary_dim = 8, .theta = 100.0}, kHiddenSize, 2));
  check(TestAttention::random(shape(4, 2, 20), {.rotary_dim = 20, .style = RopeStyle::kInterleaved},
                              kHiddenSize, 3));
}

TEST_P(AttentionBlockTest, BiasesAndNormsWhereTheCheckpointHasThem) {
  QUIRE_SKIP_ABSENT_LEVEL();
  TestAttention attention =
      TestAttention::random(shape(4, 2, 16), {.rotary_dim = 16}, kHiddenSize, 4);
  attention.add_biases(10);
  check(attention);
  check(attention, true);
  attention.add_norms(20);
  for (const bool apart : {false, true}) {
    check(attention, apart);
    check(attention, apart, TestNorm::rms(kHiddenSize, 30));
  }
}

TEST_P(AttentionBlockTest, NormsOverAllHeadsOfAToken) {
  QUIRE_SKIP_ABSENT_LEVEL();
  AttentionShape whole = shape(4, 2, 16);
  whole.whole_norms = true;
  TestAttention attention = TestAttention::random(whole, {.rotary_dim = 16}, kHiddenSize, 6);
  attention.add_norms(20);
  check(attention);
  check(attention, true);
}

TEST_P(AttentionBlockTest, NormedValues) {
  QUIRE_SKIP_ABSENT_LEVEL();
  AttentionShape normed = shape(4, 2, 16);
  normed.value_norm = true;
  TestAttention attention = TestAttention::random(normed, {.rotary_dim = 16}, kHiddenSize, 8);
  check(attention);
  attention.add_norms(20);
  check(attention, true);
}

// A layer that reads what an earlier one has left, each sequence's own.
TEST_P(AttentionBlockTest, KeysAndValuesOfAnotherLayer) {
  QUIRE_SKIP_ABSENT_LEVEL();
  TestAttention first =
      TestAttention::random(shape(4, 2, 16, 7), {.rotary_dim = 16}, kHiddenSize, 9);
  first.shape.value_norm = true;
  first.add_norms(20);
  TestAttention second = first.reader(kHiddenSize, 60);
  second.q_norm = TestNorm::rms(16, 61);
  CpuDevice device(1, op_table(GetParam()));
  const AttentionBlock writer = first.block(device, false);
  const AttentionBlock reader = second.block(device, false);
  const RotaryTable rotary = first.rotary.table(32);
  std::vector<Floats> whole;
  for (const std::int32_t chunk : {32, 5, 1}) {
    TestSequences sequences(GetParam(), first.shape, 2, random_sequences({13, 1, 22}, kHiddenSize),
                            kHiddenSize);
    const std::int64_t rows = 3 * std::int64_t{chunk};
    const std::uint64_t arena = DecoderLayer::arena_bytes(
        AttentionBlock::arena_bytes(first.shape, rows), kHiddenSize, rows);
    const TestNorm norm = TestNorm::rms(kHiddenSize, 90);
    const auto outputs =
        sequences.run(chunk, arena, chunk == 5 ? 2 : 1, [&](ForwardContext& ctx, float* hidden) {
          for (const AttentionBlock* block : {&writer, &reader}) {
            forward_between(ctx, norm, {}, hidden, [&](const float* x, const Residual& residual) {
              block->forward(ctx, &rotary, 1, x, residual);
            });
          }
        });
    if (chunk == 32) {
      whole = outputs;
      sequences.expect(outputs, [&](auto& hidden) {
        const auto input = norm.of(hidden);
        add_to(hidden, first.of(input));
        add_to(hidden, second.of(norm.of(hidden), input));
      });
    }
    EXPECT_EQ(outputs, whole) << "in chunks of " << chunk;
  }
}

TEST_P(AttentionBlockTest, WithoutPositions) {
  QUIRE_SKIP_ABSENT_LEVEL();
  check(TestAttention::random(shape(4, 2, 16), {.rotary_dim = 0}, kHiddenSize, 7));
}

TEST_P(AttentionBlockTest, AWindow) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int32_t window : {1, 4, 7}) {
    check(TestAttention::random(shape(4, 2, 16, window), {.rotary_dim = 16}, kHiddenSize, 5));
  }
}

TEST_P(AttentionBlockTest, ALimitOfWhatIsProjected) {
  QUIRE_SKIP_ABSENT_LEVEL();
  AttentionShape limited = shape(4, 2, 16);
  limited.qkv_limit = 0.4F;
  TestAttention attention = TestAttention::random(limited, {.rotary_dim = 16}, kHiddenSize, 12);
  attention.add_biases(10);
  check(attention);
  limited.whole_norms = true;
  TestAttention normed = TestAttention::random(limited, {.rotary_dim = 16}, kHiddenSize, 13);
  normed.add_norms(20);
  check(normed, true);
}

TEST_P(AttentionBlockTest, InChunks) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int32_t chunk : {1, 4, 7}) {
    AttentionShape chunked = shape(4, 2, 16);
    chunked.chunk = chunk;
    check(TestAttention::random(chunked, {.rotary_dim = 16}, kHiddenSize, 8));
  }
}

TEST_P(AttentionBlockTest, WhatScoresBecome) {
  QUIRE_SKIP_ABSENT_LEVEL();
  AttentionShape capped = shape(4, 2, 16);
  capped.soft_cap = 0.75F;
  check(TestAttention::random(capped, {.rotary_dim = 16}, kHiddenSize, 9));
  TestAttention biased = TestAttention::random(shape(4, 2, 16), {.rotary_dim = 0}, kHiddenSize, 10);
  biased.alibi_slopes = {0.5F, 0.25F, 0.125F, 0.75F};
  check(biased);
  TestAttention sunk = TestAttention::random(shape(4, 2, 16), {.rotary_dim = 16}, kHiddenSize, 11);
  sunk.sinks = {1.5F, -1.0F, 0.0F, 3.0F};
  check(sunk);
}

INSTANTIATE_TEST_SUITE_P(Levels, AttentionBlockTest, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
