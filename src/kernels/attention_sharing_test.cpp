// Attention to a prefix that sequences share, on every level: bit for bit what each reading it for
// itself gives.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_test_support.h"
#include "kernels/level_test_support.h"
#include "kernels/ops.h"
#include "kernels/ref/kv_ref.h"
#include "kernels/sizing.h"
#include "tensor/buffer.h"

namespace quire {
namespace {

// The last token of sequences that begin with the same blocks, with what they share read once for
// all and without; their lengths beyond that are `own`.
struct SharedStep {
  std::vector<float> together;
  std::vector<float> apart;
};

SharedStep run_shared(IsaLevel level, const AttentionShape& shape, std::int32_t block_size,
                      std::int32_t prefix, const std::vector<std::int32_t>& own, int threads) {
  const KvLayout layout{shape.dtype, block_size, shape.num_kv_heads, shape.head_dim};
  const std::int32_t shared_blocks = prefix / block_size;
  std::vector<std::vector<BlockId>> tables;
  std::vector<std::int32_t> query_start_loc = {0};
  std::vector<std::int32_t> seq_lens;
  BlockId next = 3 + shared_blocks;
  for (const std::int32_t length : own) {
    auto& table = tables.emplace_back();
    for (std::int32_t b = 0; b < shared_blocks; ++b) table.push_back(2 + shared_blocks - b);
    const std::int32_t all = shared_blocks * block_size + length;
    while (static_cast<std::int32_t>(table.size()) * block_size < all) table.push_back(next++);
    seq_lens.push_back(all);
    query_start_loc.push_back(query_start_loc.back() + 1);
  }
  std::vector<std::byte> memory(layout.block_bytes() * static_cast<std::size_t>(next));
  std::mt19937 generator(31);
  std::normal_distribution<float> normal;
  std::vector<float> k(static_cast<std::size_t>(shape.head_dim));
  std::vector<float> v(k.size());
  for (BlockId block = 0; block < next; ++block) {
    for (std::int32_t slot = 0; slot < block_size; ++slot) {
      for (std::int32_t head = 0; head < shape.num_kv_heads; ++head) {
        for (float& x : k) x = normal(generator);
        for (float& x : v) x = normal(generator);
        store_key(k.data(), layout, block, head, slot, memory.data());
        store_value(v.data(), layout, block, head, slot, memory.data());
      }
    }
  }
  std::vector<const BlockId*> pointers;
  pointers.reserve(tables.size());
  for (const auto& table : tables) pointers.push_back(table.data());
  const auto row =
      static_cast<std::size_t>(shape.num_heads) * static_cast<std::size_t>(shape.head_dim);
  std::vector<float> q(row * own.size());
  for (float& x : q) x = normal(generator);
  const std::int32_t group = shape.num_heads / shape.num_kv_heads;
  ThreadPool pool(threads);
  Buffer workspace =
      Buffer::allocate(workspace_bytes(1, 32,
                                       {shape.head_dim, group,
                                        *std::max_element(seq_lens.begin(), seq_lens.end()),
                                        shape.num_kv_heads, std::ssize(own)},
                                       threads))
          .value();
  OpContext ctx{pool, op_table(level), workspace.bytes()};
  SharedStep step;
  const HeadNumbers numbers(shape);
  AttentionArgs args;
  numbers.set(args);
  args.q = q.data();
  args.q_stride = static_cast<std::int64_t>(row);
  args.num_heads = shape.num_heads;
  args.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  args.layout = layout;
  args.kv = memory.data();
  for (const bool together : {true, false}) {
    AttentionPlan plan;
    plan.build({static_cast<std::int32_t>(own.size()), query_start_loc.data(), seq_lens.data(),
                pointers.data(), together ? block_size : 0},
               {shape.num_kv_heads, group}, threads);
    EXPECT_EQ(plan.shared().empty(), !together);
    std::vector<float>& out = together ? step.together : step.apart;
    out.assign(q.size(), std::numeric_limits<float>::quiet_NaN());
    args.out = out.data();
    attention(ctx, plan, args);
  }
  return step;
}

class AttentionSharing : public AttentionLevels {};

TEST_P(AttentionSharing, BitsDoNotDependOnSharedPrefixes) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<AttentionShape> shapes = {
      {9, 3, 64, DType::kBF16},
      {8, 1, 64, DType::kBF16},
      {2, 2, 33, DType::kF32},
      {5, 1, 40, DType::kF8E4M3},
      {6, 2, 32, DType::kI8},
      {3, 1, 20, DType::kBF16, 300},
      {100, 1, 16, DType::kBF16, 700},
      {100, 1, 16, DType::kF32},
      {.num_heads = 4, .head_dim = 32, .soft_cap = 2.0F, .alibi = true, .sinks = true},
      {.num_heads = 6, .num_kv_heads = 2, .head_dim = 32, .dtype = DType::kF32, .alibi = true},
      {.num_heads = 2, .head_dim = 32, .chunk = 192, .sinks = true}};
  struct Case {
    std::int32_t block_size, prefix;
    int threads;
  };
  const std::vector<std::vector<std::int32_t>> lengths = {
      {1, 1}, {40, 300, 7}, {1, 600, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
  for (const AttentionShape& shape : shapes) {
    for (const Case& c : {Case{16, 512, 1}, {24, 512, 2}, {256, 1040, 3}, {16, 1040, 2}}) {
      for (const auto& own : lengths) {
        if (GetParam() == IsaLevel::kRef && own.size() > 2) continue;  // slow
        const SharedStep step =
            run_shared(GetParam(), shape, c.block_size, c.prefix, own, c.threads);
        ASSERT_EQ(
            std::memcmp(step.together.data(), step.apart.data(), step.apart.size() * sizeof(float)),
            0)
            << dtype_name(shape.dtype) << " heads " << shape.num_heads << " block size "
            << c.block_size << " sequences " << own.size() << " threads " << c.threads;
        for (const float x : step.together) ASSERT_FALSE(std::isnan(x));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, AttentionSharing, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
