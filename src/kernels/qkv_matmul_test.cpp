// The projections of queries, keys and values: the same bits as the products on their own, then
// norms and rotation of whole rows, in the queries and in the cache, at every level and for every
// number of rows and threads.
#include <bit>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"
#include "tensor/buffer.h"

namespace quire {
namespace qkv_matmul_test {

using Values = std::vector<float>;

struct Case {
  Encoding encoding = Encoding::kBF16;
  std::int32_t num_heads = 4;
  std::int32_t num_kv_heads = 2;
  std::int32_t head_dim = 32;
  std::int32_t rotary_dim = 32;
  std::int64_t inputs = 64;
  bool one_matrix = false;
  bool bias = false;
  bool norms = false;
  DType cache = DType::kBF16;
  RopeStyle style = RopeStyle::kHalves;
};

struct Outcome {
  Values qkv;
  std::vector<std::byte> cache;
};

class QkvMatmul : public testing::TestWithParam<IsaLevel> {
 protected:
  static constexpr std::int32_t kBlockSize = 16;

  const OpTable& table() const { return op_table(GetParam()); }

  // Queries, keys and values, or all in one.
  std::vector<PackedWeight> pack(const Case& c) {
    std::vector<std::int64_t> heads = {c.num_heads, c.num_kv_heads, c.num_kv_heads};
    if (c.one_matrix) heads = {c.num_heads + 2L * c.num_kv_heads};
    std::vector<PackedWeight> weights;
    for (const std::int64_t count : heads) {
      weights.push_back(pack_or_die(pool_, TestMatrix(c.encoding, count * c.head_dim, c.inputs,
                                                      static_cast<unsigned>(weights.size()) + 1)));
    }
    return weights;
  }

  void check(const Case& c, const std::vector<std::int64_t>& row_counts) {
    const std::vector<PackedWeight> weights = pack(c);
    const auto d = static_cast<std::size_t>(c.head_dim);
    const auto all_heads = static_cast<std::size_t>(c.num_heads + 2 * c.num_kv_heads);
    const Values bias = random_floats(all_heads * d, 1.0F, 4);
    const Values q_norm = random_floats(d, 1.0F, 5);
    const Values k_norm = random_floats(d, 1.0F, 6);
    for (const std::int64_t rows : row_counts) {
      const auto n = static_cast<std::size_t>(rows);
      const Values x = random_floats(n * static_cast<std::size_t>(c.inputs), 2.0F, 7);
      const Values rope_table =
          random_floats(2 * n * static_cast<std::size_t>(c.rotary_dim), 1.0F, 8);
      std::vector<std::int32_t> positions(n);
      std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(n));
      std::vector<std::int64_t> slots(n);
      for (std::size_t i = 0; i < n; ++i) slots[i] = static_cast<std::int64_t>(2 * n - 2 * i);
      RopeAndCacheArgs heads = {.num_tokens = rows,
                                .num_heads = c.num_heads,
                                .positions = positions.data(),
                                .slot_mapping = slots.data(),
                                .rope_table = rope_table.data(),
                                .rotary_dim = c.rotary_dim,
                                .style = c.style,
                                .q_norm = c.norms ? q_norm.data() : nullptr,
                                .k_norm = c.norms ? k_norm.data() : nullptr,
                                .norm_epsilon = 1e-5F,
                                .layout = {c.cache, kBlockSize, c.num_kv_heads, c.head_dim}};
      const auto parts = [&](float* qkv) {
        std::vector<MatmulPart> result;
        std::int64_t column = 0;
        for (const PackedWeight& weight : weights) {
          result.push_back({.weight = &weight,
                            .out = qkv + column,
                            .out_stride = static_cast<std::int64_t>(all_heads * d),
                            .bias = c.bias ? bias.data() + column : nullptr});
          column += weight.outputs();
        }
        return result;
      };
      const auto begin = [&] {
        Outcome outcome = {
            Values(n * all_heads * d, kNan),
            std::vector<std::byte>(heads.layout.block_bytes() * (2 * n / kBlockSize + 1))};
        heads.qkv = outcome.qkv.data();
        heads.kv = outcome.cache.data();
        return outcome;
      };
      const Outcome expected = [&] {
        Outcome outcome = begin();
        apart(parts(heads.qkv), x, heads);
        return outcome;
      }();
      for (ThreadPool* pool : {&pool_, &serial_}) {
        const Outcome actual = begin();
        together(parts(heads.qkv), x, heads, *pool);
        EXPECT_EQ(actual.cache, expected.cache) << rows << " rows of " << c.head_dim;
        for (std::size_t i = 0; i < actual.qkv.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(actual.qkv[i]),
                    std::bit_cast<std::uint32_t>(expected.qkv[i]))
              << encoding_traits(c.encoding).name << ", " << rows << " rows, row "
              << i / (all_heads * d) << ", head " << i / d % all_heads << ", " << i % d;
        }
      }
    }
  }

  ThreadPool pool_{3};
  ThreadPool serial_{1};

 private:
  // What the op is to give: the products, norms of all heads, then what the kernel does without
  // them to all heads at once.
  void apart(const std::vector<MatmulPart>& parts, const Values& x, RopeAndCacheArgs heads) {
    const std::int64_t inputs = parts[0].weight->inputs();
    auto workspace = Buffer::allocate(matmul_workspace_bytes(heads.num_tokens, inputs)).value();
    OpContext ctx{pool_, table(), workspace.bytes()};
    matmul(ctx, x.data(), inputs, heads.num_tokens, ActivationMode::kInt16, parts);
    const std::int64_t d = heads.layout.head_dim;
    const std::int32_t rotated = heads.num_heads + heads.layout.num_kv_heads;
    for (std::int64_t head = 0; head < heads.num_tokens * heads.all_heads(); ++head) {
      const std::int64_t of_row = head % heads.all_heads();
      const float* const norm = of_row < heads.num_heads ? heads.q_norm : heads.k_norm;
      if (norm == nullptr || of_row >= rotated) continue;
      float* const values = heads.qkv + head * d;
      table().rows.rms_norm(values, norm, heads.norm_epsilon, d, values);
    }
    heads.q_norm = nullptr;
    heads.k_norm = nullptr;
    table().rows.rope_and_cache(heads, all_heads(heads));
  }

  void together(const std::vector<MatmulPart>& parts, const Values& x,
                const RopeAndCacheArgs& heads, ThreadPool& pool) {
    const std::uint64_t bytes =
        matmul_workspace_bytes(heads.num_tokens, parts[0].weight->inputs()) +
        qkv_scratch_bytes(heads.num_tokens, heads.all_heads());
    auto workspace = Buffer::allocate(bytes).value();
    OpContext ctx{pool, table(), workspace.bytes()};
    qkv_matmul(ctx, x.data(), ActivationMode::kInt16, parts, heads);
  }
};

// Chunks of rows end at 32, 48 and 96 and their multiples; a few rows may be left over.
const std::vector<std::int64_t> kRowCounts = {1, 2, 3, 4, 33, 48, 49, 98, 151};

TEST_P(QkvMatmul, EveryEncodingGivesTheBitsOfTheStagesApart) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const Encoding encoding : kAllEncodings) {
    check({.encoding = encoding, .inputs = 256}, {1, 3, 50, 98});
  }
}

// Heads that begin and end within panels, and matrices that do.
TEST_P(QkvMatmul, HeadsThatAreNoWholePanels) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int32_t head_dim : {2, 20, 33, 80, 128}) {
    for (const bool one_matrix : {false, true}) {
      check({.num_heads = 3,
             .num_kv_heads = 1,
             .head_dim = head_dim,
             .rotary_dim = head_dim / 2 * 2,
             .one_matrix = one_matrix},
            kRowCounts);
    }
  }
}

TEST_P(QkvMatmul, ManyHeads) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int32_t head_dim : {24, 64}) {
    check({.num_heads = 32, .num_kv_heads = 4, .head_dim = head_dim, .rotary_dim = 24},
          {1, 16, 97});
  }
}

TEST_P(QkvMatmul, BiasesNormsAndBothStyles) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const RopeStyle style : {RopeStyle::kHalves, RopeStyle::kInterleaved}) {
    for (const bool one_matrix : {false, true}) {
      check({.head_dim = 40, .one_matrix = one_matrix, .bias = true, .norms = true, .style = style},
            {1, 5, 98});
    }
  }
}

TEST_P(QkvMatmul, EveryTypeOfCache) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    check({.head_dim = 36, .norms = true, .cache = dtype}, {1, 5, 98});
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, QkvMatmul, kAllLevels, level_test_name);

}  // namespace qkv_matmul_test
}  // namespace quire
