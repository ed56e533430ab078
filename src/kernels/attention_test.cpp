// Attention on every level: against a plain softmax in double, and bit for bit against itself under
// every block size, chunking, batch and number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_test_support.h"
#include "kernels/level_test_support.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/ref/kv_ref.h"
#include "kernels/sizing.h"
#include "tensor/buffer.h"
#include "tensor/float_convert.h"

namespace quire {
namespace attention_test {

// Of a head in an array [positions][heads].
std::size_t row_index(std::int32_t position, std::int32_t heads, std::int32_t head) {
  return static_cast<std::size_t>(position) * static_cast<std::size_t>(heads) +
         static_cast<std::size_t>(head);
}

// Queries, keys and values of one sequence, for all its positions.
struct Sequence {
  AttentionShape shape;
  std::int32_t length;
  std::vector<float> q;  // [length][num_heads][head_dim]
  std::vector<float> k;  // [length][num_kv_heads][head_dim]
  std::vector<float> v;

  Sequence(const AttentionShape& s, std::int32_t n, unsigned seed, float spread = 1.0F)
      : shape(s), length(n) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0F, spread);
    const auto fill = [&](std::vector<float>& to, std::int32_t heads) {
      to.resize(static_cast<std::size_t>(n) * static_cast<std::size_t>(heads * s.head_dim));
      for (float& value : to) value = normal(generator);
    };
    fill(q, s.num_heads);
    fill(k, s.num_kv_heads);
    fill(v, s.num_kv_heads);
  }

  float scale() const {
    return shape.scale > 0 ? shape.scale : 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  }
};

// KV memory in blocks, and the block tables of some sequences, in shuffled order.
class Cache {
 public:
  Cache(const AttentionShape& shape, std::int32_t block_size,
        const std::vector<Sequence>& sequences, unsigned seed)
      : layout_{shape.dtype, block_size, shape.num_kv_heads, shape.head_dim} {
    std::size_t blocks = 0;
    for (const Sequence& s : sequences) {
      const auto count = static_cast<std::size_t>((s.length + block_size - 1) / block_size);
      tables_.emplace_back(count);
      blocks += count;
    }
    std::vector<BlockId> ids(blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
    // What nobody wrote is NaN: a key that must not be seen would show.
    memory_.assign(blocks * layout_.block_bytes(), std::byte{0xFF});
    std::size_t next = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      for (BlockId& id : tables_[i]) id = ids[next++];
    }
  }

  // Writes positions [begin, end) of `sequence`.
  void write(std::size_t index, const Sequence& sequence, std::int32_t begin, std::int32_t end) {
    for (std::int32_t position = begin; position < end; ++position) {
      const BlockId block = tables_[index][static_cast<std::size_t>(position / layout_.block_size)];
      const std::int32_t slot = position % layout_.block_size;
      for (std::int32_t head = 0; head < layout_.num_kv_heads; ++head) {
        const auto from = row_index(position, layout_.num_kv_heads, head) *
                          static_cast<std::size_t>(layout_.head_dim);
        store_key(&sequence.k[from], layout_, block, head, slot, memory_.data());
        store_value(&sequence.v[from], layout_, block, head, slot, memory_.data());
      }
    }
  }

  const KvLayout& layout() const { return layout_; }
  const std::byte* memory() const { return memory_.data(); }
  const BlockId* table(std::size_t index) const { return tables_[index].data(); }

 private:
  KvLayout layout_;
  std::vector<std::byte> memory_;
  std::vector<std::vector<BlockId>> tables_;
};

// The outputs of all positions of all sequences, in steps of at most `chunk` positions of each.
std::vector<std::vector<float>> run(IsaLevel level, const std::vector<Sequence>& sequences,
                                    std::int32_t block_size, std::int32_t chunk, int threads) {
  const AttentionShape& shape = sequences.front().shape;
  const auto row =
      static_cast<std::size_t>(shape.num_heads) * static_cast<std::size_t>(shape.head_dim);
  Cache cache(shape, block_size, sequences, static_cast<unsigned>(block_size * 1000 + chunk));
  const std::int32_t group = shape.num_heads / shape.num_kv_heads;
  std::int64_t longest = 0;
  for (const Sequence& s : sequences) longest = std::max<std::int64_t>(longest, s.length);
  ThreadPool pool(threads);
  Buffer workspace =
      Buffer::allocate(workspace_bytes(1, 32, {shape.head_dim, group, longest}, threads)).value();
  OpContext ctx{pool, op_table(level), workspace.bytes()};
  AttentionPlan plan;
  std::vector<std::vector<float>> out(sequences.size());
  for (std::int32_t begin = 0;; begin += chunk) {
    std::vector<std::int32_t> query_start_loc = {0};
    std::vector<std::int32_t> seq_lens;
    std::vector<const BlockId*> tables;
    std::vector<float> q;
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& s = sequences[i];
      if (begin >= s.length) continue;
      const std::int32_t end = std::min(begin + chunk, s.length);
      cache.write(i, s, begin, end);
      active.push_back(i);
      query_start_loc.push_back(query_start_loc.back() + end - begin);
      seq_lens.push_back(end);
      tables.push_back(cache.table(i));
      q.insert(q.end(), s.q.begin() + static_cast<std::ptrdiff_t>(row) * begin,
               s.q.begin() + static_cast<std::ptrdiff_t>(row) * end);
    }
    if (active.empty()) return out;
    plan.build({static_cast<std::int32_t>(active.size()), query_start_loc.data(), seq_lens.data(),
                tables.data(), block_size},
               {shape.num_kv_heads, group}, threads);
    std::vector<float> step_out(q.size(), std::numeric_limits<float>::quiet_NaN());
    AttentionArgs args;
    args.q = q.data();
    args.q_stride = static_cast<std::int64_t>(row);
    args.num_heads = shape.num_heads;
    args.scale = sequences.front().scale();
    args.window = shape.window;
    args.layout = cache.layout();
    args.kv = cache.memory();
    args.out = step_out.data();
    attention(ctx, plan, args);
    for (std::size_t a = 0; a < active.size(); ++a) {
      out[active[a]].insert(
          out[active[a]].end(),
          step_out.begin() + static_cast<std::ptrdiff_t>(row) * query_start_loc[a],
          step_out.begin() + static_cast<std::ptrdiff_t>(row) * query_start_loc[a + 1]);
    }
  }
}

// Whether the level rounds queries and weights to bfloat16, for the dot product of that type.
bool rounds_to_bf16(IsaLevel level, const AttentionShape& shape) {
  const RowKernels& rows = op_table(level).rows;
  if (shape.dtype == DType::kBF16) return rows.attention_rounds_to_bf16;
  return shape.dtype == DType::kF8E4M3 && rows.attention_rounds_over_fp8;
}

// What an output may differ by from expected_output(). Outputs are averages of values of size about
// 1: the scores' rounding, about 1e-6 of the largest score's terms; where weights are rounded, each
// by up to 2^-9 of itself, that of an average of values within 4 of each other.
double tolerance(IsaLevel level, const AttentionShape& shape) {
  return rounds_to_bf16(level, shape) ? 0x1p-8 : 5e-6;
}

// Softmax over all scores at once, in double; of a query as the level rounds it.
std::vector<double> expected_output(IsaLevel level, const Sequence& s, std::int32_t position,
                                    std::int32_t head) {
  const AttentionShape& shape = s.shape;
  const auto d = static_cast<std::size_t>(shape.head_dim);
  const auto kv_heads = static_cast<std::size_t>(shape.num_kv_heads);
  const auto kv_head = static_cast<std::size_t>(head / (shape.num_heads / shape.num_kv_heads));
  const float* const row_of_q = s.q.data() + row_index(position, shape.num_heads, head) * d;
  std::vector<double> q(row_of_q, row_of_q + d);
  if (rounds_to_bf16(level, shape)) {  // times the scale for powers of two
    const float scale = s.scale() * 0x1.715476p+0F;
    for (double& x : q) {
      x = double{bf16_to_float(float_to_bf16(static_cast<float>(x) * scale))} / double{scale};
    }
  }
  // As the cache rounds it.
  const KvLayout layout{shape.dtype, 1, 1, shape.head_dim};
  const auto cached = [&](const std::vector<float>& rows, std::size_t key) {
    std::vector<std::byte> memory(layout.block_bytes());
    const float* const row = rows.data() + (key * kv_heads + kv_head) * d;
    store_key(row, layout, 0, 0, 0, memory.data());
    store_value(row, layout, 0, 0, 0, memory.data());
    std::vector<double> rounded(d);
    for (std::size_t i = 0; i < d; ++i) {
      rounded[i] = load_value(memory.data(), layout, 0, 0, 0, static_cast<std::int32_t>(i));
    }
    return rounded;
  };
  const auto keys = static_cast<std::size_t>(position) + 1;
  const auto first =
      static_cast<std::size_t>(shape.window > 0 ? std::max(0, position + 1 - shape.window) : 0);
  std::vector<double> weights(keys, 0.0);
  for (std::size_t key = first; key < keys; ++key) {
    const std::vector<double> k = cached(s.k, key);
    for (std::size_t i = 0; i < d; ++i) weights[key] += q[i] * k[i];
    weights[key] *= double{s.scale()};
  }
  const double largest =
      *std::max_element(weights.begin() + static_cast<std::ptrdiff_t>(first), weights.end());
  double total = 0.0;
  for (std::size_t key = first; key < keys; ++key) {
    total += weights[key] = std::exp(weights[key] - largest);
  }
  std::vector<double> out(d, 0.0);
  for (std::size_t key = first; key < keys; ++key) {
    const std::vector<double> v = cached(s.v, key);
    for (std::size_t i = 0; i < d; ++i) out[i] += weights[key] / total * v[i];
  }
  return out;
}

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
    const auto d = static_cast<std::size_t>(shape.head_dim);
    for (const std::int32_t position : {0, 1, 3, 4, 30, 31, 32, 33, 63, 64, 82}) {
      for (std::int32_t head = 0; head < shape.num_heads; ++head) {
        const auto expected = expected_output(GetParam(), sequences[0], position, head);
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
      const auto d = static_cast<std::size_t>(shape.head_dim);
      for (std::int32_t position = 0; position < 140; ++position) {
        for (std::int32_t head = 0; head < shape.num_heads; ++head) {
          const auto expected = expected_output(GetParam(), sequences[0], position, head);
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
  for (const std::int32_t position : {0, 5, 50, 199}) {
    for (std::int32_t head = 0; head < 3; ++head) {
      const auto expected = expected_output(GetParam(), sequences[0], position, head);
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
  constexpr std::int32_t kLength = 830;
  for (const AttentionShape& shape : shapes) {
    if (GetParam() == IsaLevel::kRef && shape.head_dim > 40) continue;  // slow
    const std::vector<Sequence> sequences = {Sequence(shape, kLength, 21),
                                             Sequence(shape, 300, 22)};
    const auto whole = run(GetParam(), sequences, 16, kLength, 1);
    const auto d = static_cast<std::size_t>(shape.head_dim);
    for (const std::int32_t position : {0, 255, 256, 257, 511, 512, 600, 829}) {
      for (std::int32_t head = 0; head < shape.num_heads; ++head) {
        const auto expected = expected_output(GetParam(), sequences[0], position, head);
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
    for (const std::int32_t block_size : {1, 2, 3, 16, 32}) {
      for (const std::int32_t chunk : {1, 5, 32, 40, 1000}) {
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
