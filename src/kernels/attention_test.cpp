// Attention on every level: against a plain softmax in double, and bit for bit against itself under
// every block size, chunking, batch and number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_test_support.h"
#include "kernels/level_test_support.h"

namespace quire {
namespace attention_test {

class Attention : public AttentionLevels {};

TEST_P(Attention, AgreesWithPlainSoftmax) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<AttentionShape> shapes = {
      {9, 3, 64, DType::kBF16},   {4, 4, 8, DType::kF32},     {16, 1, 20, DType::kBF16},
      {2, 1, 80, DType::kF32},    {8, 1, 128, DType::kBF16},  {2, 2, 256, DType::kBF16},
      {5, 1, 33, DType::kF32},    {34, 2, 40, DType::kBF16},  {8, 1, 64, DType::kF8E4M3},
      {3, 3, 80, DType::kF8E4M3}, {7, 1, 64, DType::kI8},     {2, 1, 33, DType::kI8},
      {6, 2, 128, DType::kI8},    {2, 2, 256, DType::kF8E4M3}};
  for (const AttentionShape& shape : shapes) {
    const std::vector<Sequence> sequences = {Sequence(shape, 83, 1)};
    const auto out = run(GetParam(), sequences, 16, 83, 2);
    const PlainAttention plain(GetParam(), sequences[0]);
    const auto d = static_cast<std::size_t>(shape.head_dim);
    for (const std::int32_t position : {0, 1, 3, 4, 30, 31, 32, 33, 63, 64, 82}) {
      for (std::int32_t head = 0; head < shape.num_heads; ++head) {
        const auto expected = plain.output(position, head);
        const float* actual = out[0].data() + row_index(position, shape.num_heads, head) * d;
        for (std::size_t i = 0; i < d; ++i) {
          ASSERT_NEAR(actual[i], expected[i], tolerance(GetParam(), shape))
              << "head_dim " << d << " position " << position << " head " << head;
        }
      }
    }
  }
}

// Windows shorter, as long as, and longer than a tile, at positions around every boundary; scales
// other than the usual one.
TEST_P(Attention, AgreesWithinWindows) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int32_t window : {1, 2, 5, 31, 32, 33, 64, 70, 500}) {
    const std::vector<AttentionShape> shapes = {{6, 2, 64, DType::kBF16, window, 0.0625F},
                                                {3, 3, 33, DType::kF32, window, 0.3F},
                                                {4, 1, 20, DType::kBF16, window}};
    for (const AttentionShape& shape : shapes) {
      const std::vector<Sequence> sequences = {Sequence(shape, 140, 11)};
      const auto out = run(GetParam(), sequences, 16, 140, 2);
      const PlainAttention plain(GetParam(), sequences[0]);
      const auto d = static_cast<std::size_t>(shape.head_dim);
      for (std::int32_t position = 0; position < 140; ++position) {
        for (std::int32_t head = 0; head < shape.num_heads; ++head) {
          const auto expected = plain.output(position, head);
          const float* actual = out[0].data() + row_index(position, shape.num_heads, head) * d;
          for (std::size_t i = 0; i < d; ++i) {
            ASSERT_NEAR(actual[i], expected[i], tolerance(GetParam(), shape))
                << "window " << window << " position " << position << " head " << head;
          }
        }
      }
    }
  }
}

// Scores in the hundreds: weights underflow, and the running maximum jumps.
TEST_P(Attention, AgreesOnLargeScores) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const AttentionShape shape{3, 1, 64, DType::kF32};
  const std::vector<Sequence> sequences = {Sequence(shape, 200, 2, 6.0F)};
  const auto out = run(GetParam(), sequences, 16, 200, 1);
  const PlainAttention plain(GetParam(), sequences[0]);
  for (const std::int32_t position : {0, 5, 50, 199}) {
    for (std::int32_t head = 0; head < 3; ++head) {
      const auto expected = plain.output(position, head);
      for (std::size_t i = 0; i < 64; ++i) {
        const auto at = static_cast<std::size_t>(position * 3 + head) * 64 + i;
        ASSERT_NEAR(out[0][at], expected[i], 3e-3) << position;
      }
    }
  }
}

// Keys of several ranges, chunks of every kind, one query at a time in the end: against plain
// softmax, and bit for bit against each other.
TEST_P(Attention, LongSequencesAgreeHoweverTheyAreSplit) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<AttentionShape> shapes = {
      {8, 1, 64, DType::kBF16},      {3, 1, 64, DType::kBF16, 300}, {2, 2, 80, DType::kF32},
      {7, 1, 20, DType::kBF16, 256}, {5, 1, 128, DType::kF8E4M3},   {6, 2, 32, DType::kI8},
      {2, 1, 40, DType::kI8, 257},   {1, 1, 256, DType::kBF16, 10}};
  const std::int32_t length = level_is_slow(GetParam()) ? 520 : 830;
  for (const AttentionShape& shape : shapes) {
    if (GetParam() == IsaLevel::kRef && shape.head_dim > 40) continue;
    const std::vector<Sequence> sequences = {Sequence(shape, length, 21), Sequence(shape, 300, 22)};
    const auto whole = run(GetParam(), sequences, 16, length, 1);
    const PlainAttention plain(GetParam(), sequences[0]);
    const auto d = static_cast<std::size_t>(shape.head_dim);
    for (const std::int32_t position : {0, 255, 256, 257, 511, 512, 600, 829}) {
      if (position >= length) continue;
      for (std::int32_t head = 0; head < shape.num_heads; ++head) {
        const auto expected = plain.output(position, head);
        const float* actual = whole[0].data() + row_index(position, shape.num_heads, head) * d;
        for (std::size_t i = 0; i < d; ++i) {
          ASSERT_NEAR(actual[i], expected[i], tolerance(GetParam(), shape))
              << dtype_name(shape.dtype) << " position " << position << " head " << head;
        }
      }
    }
    struct Split {
      std::int32_t block_size, chunk;
      int threads;
    };
    for (const Split split :
         {Split{16, 1, 2}, Split{1, 1, 3}, Split{8, 97, 2}, Split{24, 300, 1}, Split{512, 7, 2}}) {
      const auto other = run(GetParam(), sequences, split.block_size, split.chunk, split.threads);
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        ASSERT_EQ(other[i].size(), whole[i].size());
        ASSERT_EQ(std::memcmp(other[i].data(), whole[i].data(), whole[i].size() * sizeof(float)), 0)
            << dtype_name(shape.dtype) << " head_dim " << d << " chunk " << split.chunk;
      }
    }
  }
}

TEST_P(Attention, BitsDependOnNeitherBlocksNorChunksNorBatchNorThreads) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<AttentionShape> shapes = {
      {9, 3, 64, DType::kBF16},   {9, 3, 64, DType::kF32},      {4, 4, 20, DType::kBF16},
      {8, 1, 16, DType::kF32},    {9, 3, 64, DType::kBF16, 20}, {4, 2, 20, DType::kF32, 37},
      {8, 2, 64, DType::kF8E4M3}, {3, 3, 32, DType::kI8}};
  for (const AttentionShape& shape : shapes) {
    const std::vector<Sequence> sequences = {Sequence(shape, 101, 3), Sequence(shape, 64, 4),
                                             Sequence(shape, 1, 5), Sequence(shape, 37, 6)};
    std::vector<std::vector<float>> alone;
    alone.reserve(sequences.size());
    for (const Sequence& sequence : sequences) {
      alone.push_back(run(GetParam(), {sequence}, 16, 1000, 1)[0]);
    }
    // The scalar level attends to one key after the other: it has no tiles to begin and end.
    const bool scalar = GetParam() == IsaLevel::kRef;
    for (const std::int32_t block_size :
         scalar ? std::vector{1, 3, 16} : std::vector{1, 2, 3, 16, 32}) {
      for (const std::int32_t chunk :
           scalar ? std::vector{1, 40, 1000} : std::vector{1, 5, 32, 40, 1000}) {
        const int threads = 1 + chunk % 2;
        const auto batch = run(GetParam(), sequences, block_size, chunk, threads);
        for (std::size_t i = 0; i < sequences.size(); ++i) {
          ASSERT_EQ(batch[i].size(), alone[i].size());
          ASSERT_EQ(std::memcmp(batch[i].data(), alone[i].data(), alone[i].size() * sizeof(float)),
                    0)
              << "sequence " << i << " block size " << block_size << " chunk " << chunk;
        }
      }
    }
  }
}

// The bits of one thread and two.
TEST_P(Attention, ThreadsDoNotChangeBits) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const AttentionShape shape{6, 2, 48, DType::kBF16};
  const std::vector<Sequence> sequences = {Sequence(shape, 150, 7), Sequence(shape, 90, 8)};
  const auto one = run(GetParam(), sequences, 16, 64, 1);
  for (const int threads : {2, 3}) EXPECT_EQ(run(GetParam(), sequences, 16, 64, threads), one);
}

// Whatever rounding does to the weights, they are weights of an average.
TEST_P(Attention, TheAverageOfOneValueIsThatValue) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const AttentionShape& shape :
       {AttentionShape{4, 2, 64, DType::kBF16}, AttentionShape{3, 1, 40, DType::kBF16, 33},
        AttentionShape{2, 1, 32, DType::kF32}}) {
    std::vector<Sequence> sequences = {Sequence(shape, 600, 31)};
    std::ranges::fill(sequences[0].v, 1.25F);
    for (const std::int32_t chunk : {1, 600}) {
      const auto out = run(GetParam(), sequences, 16, chunk, 1);
      for (const float value : out[0]) ASSERT_NEAR(value, 1.25F, 1e-5) << "chunk " << chunk;
    }
  }
}

TEST_P(Attention, NanInAKeyReachesTheQueriesThatSeeItAndNoOther) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    const std::vector<Sequence> clean = {Sequence({2, 1, 64, dtype}, 50, 9)};
    const std::vector<float> clean_out = run(GetParam(), clean, 16, 50, 1)[0];
    for (const std::size_t key : {40U, 41U}) {
      for (const bool in_value : {false, true}) {
        std::vector<Sequence> sequences = clean;
        (in_value ? sequences[0].v : sequences[0].k)[key * 64 + 3] =
            std::numeric_limits<float>::quiet_NaN();
        for (const std::int32_t chunk : {1, 50}) {
          const auto out = run(GetParam(), sequences, 16, chunk, 1);
          for (std::size_t i = 0; i < out[0].size(); ++i) {
            const bool all = !in_value || dtype == DType::kI8;  // by its scale
            const bool reached = i / 128 >= key && (all || i % 64 == 3);
            ASSERT_TRUE(reached ? std::isnan(out[0][i]) : out[0][i] == clean_out[i])
                << dtype_name(dtype) << (in_value ? " value " : " key ") << key << " output " << i;
          }
        }
      }
    }
  }
}

// A key that has left every window may be overwritten: it takes no part, whatever it holds.
TEST_P(Attention, KeysBeforeTheWindowTakeNoPart) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::size_t key : {50U, 51U}) {
      const std::vector<Sequence> clean = {Sequence({4, 2, 40, dtype, 13}, 90, 12)};
      std::vector<Sequence> damaged = clean;
      const std::size_t row = std::size_t{2} * 40;
      for (std::size_t i = key * row; i < (key + 1) * row; ++i) {
        damaged[0].k[i] = damaged[0].v[i] = std::numeric_limits<float>::quiet_NaN();
      }
      for (const std::int32_t chunk : {1, 7, 90}) {
        const auto expected = run(GetParam(), clean, 16, chunk, 1);
        const auto out = run(GetParam(), damaged, 16, chunk, 1);
        for (std::size_t i = 0; i < out[0].size(); ++i) {
          const std::size_t position = i / 160;
          if (position >= key && position < key + 13) {
            ASSERT_TRUE(std::isnan(out[0][i])) << i;
          } else {
            ASSERT_EQ(out[0][i], expected[0][i]) << i;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Attention, kAllLevels, level_test_name);

}  // namespace attention_test
}  // namespace quire
