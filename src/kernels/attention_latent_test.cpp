// Attention over latents, whose values are the last numbers of their keys: bit for bit what it is
// over the same keys and values that lie apart, for every block size, chunking and number of
// threads.
#include <algorithm>
#include <cmath>
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

namespace quire {
namespace attention_latent_test {

struct Latents {
  std::int32_t num_heads;
  std::int32_t head_dim;
  std::int32_t latent_dims;
  DType dtype;
};

using Floats = std::vector<float>;

Floats normal_floats(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

struct Setting {
  std::int32_t block_size = 16;
  std::int32_t chunk = 1;
  int threads = 1;
};

// Outputs of all positions of one sequence of `length` tokens, [length][num_heads][latent_dims].
// `apart`: the values lie apart, as wide as the keys, with zeros behind what a latent has.
Floats run(IsaLevel level, const Latents& shape, std::int32_t length, const Setting& setting,
           bool apart) {
  const std::int64_t row = std::int64_t{shape.num_heads} * shape.head_dim;
  const Floats q = normal_floats(length * row, 1);
  const Floats k = normal_floats(std::int64_t{length} * shape.head_dim, 2);
  const KvLayout layout = {.dtype = shape.dtype,
                           .block_size = setting.block_size,
                           .num_kv_heads = 1,
                           .head_dim = shape.head_dim,
                           .latent_dims = apart ? 0 : shape.latent_dims};
  const std::int32_t num_blocks = (length + setting.block_size - 1) / setting.block_size;
  std::vector<BlockId> table(static_cast<std::size_t>(num_blocks));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(3));
  const BlockId* const tables[] = {table.data()};
  // What nobody wrote is NaN: a key that must not be seen would show.
  std::vector<std::byte> memory(static_cast<std::size_t>(num_blocks) * layout.block_bytes(),
                                std::byte{0xFF});
  ThreadPool pool(setting.threads);
  Buffer workspace = Buffer::allocate(workspace_bytes(1, 32,
                                                      {.head_dim = shape.head_dim,
                                                       .heads_per_kv_head = shape.num_heads,
                                                       .max_seq_len = length},
                                                      setting.threads))
                         .value();
  OpContext ctx{pool, op_table(level), workspace.bytes()};
  AttentionPlan plan;
  Floats result;
  for (std::int32_t begin = 0; begin < length; begin += setting.chunk) {
    const std::int32_t end = std::min(begin + setting.chunk, length);
    for (std::int32_t position = begin; position < end; ++position) {
      const BlockId block = table[static_cast<std::size_t>(position / setting.block_size)];
      const std::int32_t slot = position % setting.block_size;
      const float* const key = k.data() + std::int64_t{position} * shape.head_dim;
      store_key(key, layout, block, 0, slot, memory.data());
      if (!apart) continue;
      Floats value(key + shape.head_dim - shape.latent_dims, key + shape.head_dim);
      value.resize(static_cast<std::size_t>(shape.head_dim), 0.0F);
      store_value(value.data(), layout, block, 0, slot, memory.data());
    }
    const std::int32_t query_start_loc[] = {0, end - begin};
    plan.build({.num_seqs = 1,
                .query_start_loc = query_start_loc,
                .seq_lens = &end,
                .block_tables = tables,
                .block_size = setting.block_size},
               {.num_kv_heads = 1, .heads_per_kv_head = shape.num_heads}, setting.threads);
    const std::int32_t width = layout.value_dims();
    Floats out(static_cast<std::size_t>((end - begin) * shape.num_heads * width),
               std::numeric_limits<float>::quiet_NaN());
    AttentionArgs args;
    args.q = q.data() + begin * row;
    args.q_stride = row;
    args.num_heads = shape.num_heads;
    args.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
    args.layout = layout;
    args.kv = memory.data();
    args.out = out.data();
    attention(ctx, plan, args);
    for (auto head = out.begin(); head != out.end(); head += width) {
      result.insert(result.end(), head, head + shape.latent_dims);
    }
  }
  return result;
}

constexpr Setting kSettings[] = {{16, 1000, 1}, {16, 1, 2},   {1, 1, 3},
                                 {8, 97, 2},    {24, 300, 2}, {512, 7, 2}};

class LatentAttention : public AttentionLevels {
 protected:
  static void check(const Latents& shape, std::int32_t length) {
    const Floats apart = run(GetParam(), shape, length, kSettings[0], true);
    for (const Setting& setting : kSettings) {
      const Floats latents = run(GetParam(), shape, length, setting, false);
      ASSERT_EQ(latents.size(), apart.size());
      const auto differs = std::ranges::mismatch(latents, apart);
      ASSERT_EQ(differs.in1, latents.end())
          << shape.num_heads << " heads, blocks of " << setting.block_size << ", chunks of "
          << setting.chunk << ", at " << differs.in1 - latents.begin() << ": " << *differs.in1
          << " for " << *differs.in2;
    }
  }
};

TEST_P(LatentAttention, HasTheBitsOfKeysAndValuesApart) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const bool slow = GetParam() == IsaLevel::kRef;
  check({4, 32, 24, DType::kBF16}, 90);
  check({3, 44, 32, DType::kF32}, 90);
  check({2, 26, 24, DType::kF8E4M3}, 90);
  if (slow) return;
  check({16, 96, 64, DType::kBF16}, 300);
  check({5, 72, 64, DType::kF32}, 270);
  check({20, 136, 128, DType::kF8E4M3}, 300);
  check({2, 576, 512, DType::kBF16}, 70);
}

// With 8 bits a scale is of all numbers of a key.
TEST_P(LatentAttention, WithOneScaleForKeyAndValue) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::int32_t length = GetParam() == IsaLevel::kRef ? 60 : 290;
  const Latents shape = {6, 48, 40, DType::kI8};
  const Floats floats = run(GetParam(), {6, 48, 40, DType::kF32}, length, kSettings[0], false);
  const Floats first = run(GetParam(), shape, length, kSettings[0], false);
  for (std::size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(first[i], floats[i], 0.05F) << i;
  for (const Setting& setting : kSettings)
    ASSERT_EQ(run(GetParam(), shape, length, setting, false), first) << setting.chunk;
}

INSTANTIATE_TEST_SUITE_P(Levels, LatentAttention, kAllLevels, level_test_name);

}  // namespace attention_latent_test
}  // namespace quire
