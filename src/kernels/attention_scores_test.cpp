// What scores become before they are weighed (soft caps, linear biases, sinks), and attention in
// chunks, on every level: against a plain softmax in double, and bit for bit against themselves.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_test_support.h"
#include "kernels/level_test_support.h"

namespace quire {
namespace attention_test {

// Every option alone and all together, in every type of cache.
std::vector<AttentionShape> shapes_with_options() {
  AttentionShape all = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 32};
  all.soft_cap = 2.0F;
  all.alibi = all.sinks = true;
  AttentionShape chunked = all;
  chunked.chunk = 300;
  std::vector<AttentionShape> shapes;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    all.dtype = chunked.dtype = dtype;
    shapes.push_back(all);
    shapes.push_back(chunked);
  }
  using enum DType;
  shapes.push_back({.num_heads = 8, .head_dim = 64, .dtype = kBF16, .soft_cap = 1.5F});
  shapes.push_back({.num_heads = 3, .head_dim = 20, .dtype = kF32, .alibi = true});
  shapes.push_back({.num_heads = 9, .num_kv_heads = 3, .dtype = kBF16, .sinks = true});
  shapes.push_back({.num_heads = 4, .head_dim = 40, .dtype = kF32, .window = 70, .sinks = true});
  shapes.push_back({.num_heads = 2, .head_dim = 40, .dtype = kI8, .window = 257, .alibi = true});
  for (const std::int32_t chunk : {1, 7, 32, 100, 256, 511}) {
    shapes.push_back({.num_heads = 7, .head_dim = 20, .dtype = kBF16, .chunk = chunk});
    shapes.push_back(
        {.num_heads = 2, .num_kv_heads = 2, .head_dim = 16, .dtype = kF32, .chunk = chunk});
  }
  return shapes;
}

void expect_rows(IsaLevel level, const AttentionShape& shape, const PlainAttention& plain,
                 const std::vector<float>& out, std::int32_t position) {
  const auto d = static_cast<std::size_t>(shape.head_dim);
  for (std::int32_t head = 0; head < shape.num_heads; ++head) {
    const auto expected = plain.output(position, head);
    const float* const actual = out.data() + row_index(position, shape.num_heads, head) * d;
    for (std::size_t i = 0; i < d; ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance(level, shape))
          << dtype_name(shape.dtype) << " cap " << shape.soft_cap << " alibi " << shape.alibi
          << " sinks " << shape.sinks << " window " << shape.window << " chunk " << shape.chunk
          << " position " << position << " head " << head;
    }
  }
}

class AttentionScores : public AttentionLevels {};

TEST_P(AttentionScores, AgreeWithPlainSoftmaxHoweverTheyAreSplit) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::int32_t length = level_is_slow(GetParam()) ? 310 : 620;
  for (const AttentionShape& shape : shapes_with_options()) {
    const std::vector<Sequence> sequences = {Sequence(shape, length, 41), Sequence(shape, 301, 42)};
    const auto whole = run(GetParam(), sequences, 16, length, 1);
    const PlainAttention plain(GetParam(), sequences[0]);
    for (const std::int32_t position :
         {0, 1, 6, 7, 31, 32, 99, 100, 255, 256, 299, 300, 301, 511, 512, 599, 600, 619}) {
      if (position < length) expect_rows(GetParam(), shape, plain, whole[0], position);
    }
    struct Split {
      std::int32_t block_size, chunk;
      int threads;
    };
    for (const Split split : {Split{16, 1, 3}, Split{3, 97, 2}, Split{32, 300, 1}}) {
      const auto other = run(GetParam(), sequences, split.block_size, split.chunk, split.threads);
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        ASSERT_EQ(other[i].size(), whole[i].size());
        ASSERT_EQ(std::memcmp(other[i].data(), whole[i].data(), whole[i].size() * sizeof(float)), 0)
            << dtype_name(shape.dtype) << " cap " << shape.soft_cap << " alibi " << shape.alibi
            << " sinks " << shape.sinks << " window " << shape.window << " chunk " << shape.chunk
            << " in steps of " << split.chunk;
      }
    }
  }
}

// Each position, so that every place of a chunk's end in a tile of queries is met.
TEST_P(AttentionScores, AgreeInChunksAtEveryPosition) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int32_t chunk : {1, 2, 5, 31, 33, 64, 139}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const AttentionShape shape{
          .num_heads = 4, .num_kv_heads = 2, .head_dim = 20, .dtype = dtype, .chunk = chunk};
      const std::vector<Sequence> sequences = {Sequence(shape, 140, 43)};
      const auto out = run(GetParam(), sequences, 16, 140, 2);
      const PlainAttention plain(GetParam(), sequences[0]);
      for (std::int32_t position = 0; position < 140; ++position) {
        expect_rows(GetParam(), shape, plain, out[0], position);
      }
    }
  }
}

// A key before a query's chunk may be overwritten: it takes no part, whatever it holds.
TEST_P(AttentionScores, KeysBeforeTheChunkTakeNoPart) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionShape shape{
        .num_heads = 4, .num_kv_heads = 2, .head_dim = 40, .dtype = dtype, .chunk = 13};
    const std::vector<Sequence> clean = {Sequence(shape, 90, 44)};
    std::vector<Sequence> damaged = clean;
    constexpr std::size_t kKey = 51;  // the last of its chunk
    for (std::size_t i = kKey * 80; i < (kKey + 1) * 80; ++i) {
      damaged[0].k[i] = damaged[0].v[i] = std::numeric_limits<float>::quiet_NaN();
    }
    for (const std::int32_t step : {1, 7, 90}) {
      const auto expected = run(GetParam(), clean, 16, step, 1);
      const auto out = run(GetParam(), damaged, 16, step, 1);
      for (std::size_t i = 0; i < out[0].size(); ++i) {
        if (i / 160 == kKey) {
          ASSERT_TRUE(std::isnan(out[0][i])) << i;
        } else {
          ASSERT_EQ(out[0][i], expected[0][i]) << i;
        }
      }
    }
  }
}

// Scores in the hundreds, which a cap brings near it; a sink far above all scores takes everything,
// one far below them nothing.
TEST_P(AttentionScores, CapsAndSinksAreRightAtTheirEnds) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const AttentionShape shape{
      .num_heads = 5, .head_dim = 64, .dtype = DType::kF32, .soft_cap = 50.0F, .sinks = true};
  const std::vector<Sequence> sequences = {Sequence(shape, 200, 45, 6.0F)};
  const auto out = run(GetParam(), sequences, 16, 200, 1);
  const PlainAttention plain(GetParam(), sequences[0]);
  for (const std::int32_t position : {0, 5, 50, 199}) {
    for (std::int32_t head = 0; head < shape.num_heads; ++head) {
      const auto expected = plain.output(position, head);
      for (std::size_t i = 0; i < 64; ++i) {
        const auto at = row_index(position, shape.num_heads, head) * 64 + i;
        ASSERT_NEAR(out[0][at], expected[i], 3e-3) << position;
      }
    }
  }
  // With scores of zero a sink of s leaves 1 / (1 + e^s) of the one value.
  AttentionShape flat{.num_heads = 5, .head_dim = 16, .dtype = DType::kF32, .sinks = true};
  Sequence zeros(flat, 1, 46);
  std::ranges::fill(zeros.q, 0.0F);
  std::ranges::fill(zeros.v, 1.0F);
  const auto shares = run(GetParam(), {zeros}, 16, 1, 1)[0];
  for (std::size_t head = 0; head < 5; ++head) {
    const double sink = HeadNumbers(flat).sinks[head];
    ASSERT_NEAR(shares[head * 16], 1.0 / (1.0 + std::exp(sink)), 1e-6) << head;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, AttentionScores, kAllLevels, level_test_name);

}  // namespace attention_test
}  // namespace quire
