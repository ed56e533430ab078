// Attention on a GPU: what the CPU's definition gives, and the same bits however a step is made up.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/row_args.h"

namespace quire {
namespace cuda_attention_test {

using Floats = std::vector<float>;

struct Layer {
  std::int32_t heads = 4;
  std::int32_t kv_heads = 2;
  std::int32_t head_dim = 64;
  DType dtype = DType::kBF16;
  std::int32_t latent_dims = 0;
  std::int32_t window = 0;
  std::int32_t chunk = 0;
  float soft_cap = 0.0F;
  bool alibi = false;
  bool sinks = false;
};

// How a step is made up.
struct Setting {
  std::int32_t block_size = 16;
  std::int32_t most_queries = 1000;  // of a sequence in a step
  bool together = true;              // all sequences in each step, else one after the other
};

class CudaAttention : public CudaOps {
 protected:
  // Outputs of all positions of all sequences, one sequence after the other.
  Floats attend(DeviceUnderTest& on, const Layer& layer, const std::vector<std::int32_t>& lengths,
                const Setting& setting) {
    const KvLayout layout = {.dtype = layer.dtype,
                             .block_size = setting.block_size,
                             .num_kv_heads = layer.kv_heads,
                             .head_dim = layer.head_dim,
                             .latent_dims = layer.latent_dims};
    RopeAndCacheArgs cached = {.num_heads = layer.heads, .layout = layout};
    const std::int64_t row = std::int64_t{cached.all_heads()} * layer.head_dim;
    const std::int64_t out_row = std::int64_t{layer.heads} * layout.value_dims();
    const auto tables = make_tables(lengths, setting.block_size);

    on.ops->begin_step();
    // What nobody wrote is NaN: a key that must not be seen would show.
    std::size_t num_blocks = 0;
    for (const auto& table : tables) num_blocks += table.size();
    const auto kv = on.array(std::vector<std::byte>(
        num_blocks * static_cast<std::size_t>(layout.block_bytes()), std::byte{0xFF}));
    Floats slopes;
    Floats sinks;
    for (std::int32_t head = 0; head < layer.heads; ++head) {
      slopes.push_back(0.0375F / static_cast<float>(1 + head % 7));
      sinks.push_back(1.5F - 0.75F * static_cast<float>(head % 5));
    }
    const auto device_slopes = on.array(slopes);
    const auto device_sinks = on.array(sinks);
    EXPECT_TRUE(on.ops->synchronize().ok());

    const auto plan = on.ops->plan_attention(
        1024, {.num_kv_heads = layer.kv_heads, .heads_per_kv_head = layer.heads / layer.kv_heads});
    std::vector<Floats> outputs(lengths.size());
    std::vector<std::int32_t> done(lengths.size(), 0);
    for (;;) {
      std::vector<std::int32_t> query_start_loc = {0};
      std::vector<std::int32_t> seq_lens;
      std::vector<std::int32_t> positions;
      std::vector<std::int64_t> slots;
      std::vector<const BlockId*> step_tables;
      std::vector<std::size_t> active;
      Floats rows;
      for (std::size_t s = 0; s < lengths.size(); ++s) {
        if (done[s] == lengths[s] || (!setting.together && !active.empty())) continue;
        const std::int32_t end = std::min(done[s] + setting.most_queries, lengths[s]);
        for (std::int32_t p = done[s]; p < end; ++p) {
          positions.push_back(p);
          const auto in_table = static_cast<std::size_t>(p / setting.block_size);
          slots.push_back(std::int64_t{tables[s][in_table]} * setting.block_size +
                          p % setting.block_size);
          append_token(s, p, row, rows);
        }
        active.push_back(s);
        step_tables.push_back(tables[s].data());
        query_start_loc.push_back(static_cast<std::int32_t>(positions.size()));
        seq_lens.push_back(end);
        done[s] = end;
      }
      if (active.empty()) break;

      on.ops->begin_step();
      const auto qkv = on.array(rows);
      const auto device_positions = on.array(positions);
      const auto device_slots = on.array(slots);
      const auto out = on.array(Floats(positions.size() * static_cast<std::size_t>(out_row),
                                       std::numeric_limits<float>::quiet_NaN()));
      cached.qkv = qkv.data();
      cached.num_tokens = static_cast<std::int64_t>(positions.size());
      cached.positions = device_positions.data();
      cached.slot_mapping = device_slots.data();
      cached.kv = kv.data();
      on.ops->rope_and_cache(cached);
      plan->build({.num_seqs = static_cast<std::int32_t>(active.size()),
                   .query_start_loc = query_start_loc.data(),
                   .seq_lens = seq_lens.data(),
                   .block_tables = step_tables.data(),
                   .block_size = setting.block_size});
      on.ops->attention(*plan, {.q = qkv.data(),
                                .q_stride = row,
                                .num_heads = layer.heads,
                                .scale = 1.0F / std::sqrt(static_cast<float>(layer.head_dim)),
                                .window = layer.window,
                                .chunk = layer.chunk,
                                .soft_cap = layer.soft_cap,
                                .alibi_slopes = layer.alibi ? device_slopes.data() : nullptr,
                                .sinks = layer.sinks ? device_sinks.data() : nullptr,
                                .layout = layout,
                                .kv = kv.data(),
                                .out = out.data()});
      const Floats values = out.read(*on.ops);
      for (std::size_t a = 0; a < active.size(); ++a) {
        outputs[active[a]].insert(outputs[active[a]].end(),
                                  values.begin() + out_row * query_start_loc[a],
                                  values.begin() + out_row * query_start_loc[a + 1]);
      }
    }
    Floats all;
    for (const Floats& of_sequence : outputs) {
      all.insert(all.end(), of_sequence.begin(), of_sequence.end());
    }
    return all;
  }

  // `all_blocks`: the layer's kernel is one that takes blocks of any size. Steps of one query each
  // are what generates tokens.
  void check(const Layer& layer, const std::vector<std::int32_t>& lengths, float tolerance,
             bool all_blocks) {
    const Floats expected = attend(cpu, layer, lengths, {});
    const Floats first = attend(gpu, layer, lengths, {});
    ASSERT_EQ(first.size(), expected.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_NEAR(first[i], expected[i], tolerance) << "number " << i;
    }
    // Also as where few queries have a kernel of their own.
    std::vector<Setting> settings = {{16, 1000, false}, {16, 97, true}, {16, 9, true},
                                     {32, 61, true},    {48, 83, true}, {16, 1, true}};
    if (all_blocks) settings.insert(settings.end(), {{1, 300, true}, {24, 29, false}});
    for (const Setting& setting : settings) {
      const Floats other = attend(gpu, layer, lengths, setting);
      ASSERT_EQ(other.size(), first.size());
      for (std::size_t i = 0; i < first.size(); ++i) {
        ASSERT_EQ(other[i], first[i]) << "number " << i << ", blocks of " << setting.block_size
                                      << ", steps of " << setting.most_queries;
      }
    }
  }

 private:
  static std::vector<std::vector<BlockId>> make_tables(const std::vector<std::int32_t>& lengths,
                                                       std::int32_t block_size) {
    std::vector<std::vector<BlockId>> tables;
    std::vector<BlockId> ids;
    for (const std::int32_t length : lengths) {
      tables.emplace_back(static_cast<std::size_t>((length + block_size - 1) / block_size));
      ids.resize(ids.size() + tables.back().size());
    }
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(static_cast<unsigned>(block_size)));
    auto next = ids.begin();
    for (auto& table : tables) {
      for (BlockId& id : table) id = *next++;
    }
    return tables;
  }

  // Queries, keys and values of a token, the same in every call.
  static void append_token(std::size_t sequence, std::int32_t position, std::int64_t count,
                           Floats& to) {
    std::mt19937 numbers(static_cast<unsigned>(sequence * 100000) +
                         static_cast<unsigned>(position));
    std::normal_distribution<float> normal(0.0F, 1.0F);
    for (std::int64_t i = 0; i < count; ++i) to.push_back(normal(numbers));
  }
};

// Where queries, or weights, are rounded to bfloat16.
constexpr float kRounded = 0x1p-6F;
constexpr float kExact = 1e-5F;

TEST_F(CudaAttention, OfBfloat16) {
  check({.heads = 8, .kv_heads = 2, .head_dim = 128}, {300, 1, 40}, kRounded, false);
  check({.heads = 4, .kv_heads = 4, .head_dim = 64, .window = 50}, {270, 16}, kRounded, false);
  check({.heads = 6, .kv_heads = 1, .head_dim = 80, .chunk = 128, .sinks = true}, {140, 30},
        kRounded, false);
  check({.heads = 2, .kv_heads = 1, .head_dim = 256, .soft_cap = 20.0F, .alibi = true}, {70, 20},
        kRounded, false);
}

// Some ranges of keys, half of which nobody sees.
TEST_F(CudaAttention, OfPrompts) {
  check({.heads = 8, .kv_heads = 2, .head_dim = 128}, {700, 130}, kRounded, false);
  check({.heads = 4, .kv_heads = 1, .head_dim = 64, .soft_cap = 20.0F}, {530, 300}, kRounded,
        false);
  check({.heads = 6, .kv_heads = 3, .head_dim = 96, .window = 200, .sinks = true}, {600}, kRounded,
        false);
  check({.heads = 4, .kv_heads = 2, .head_dim = 80, .chunk = 256, .soft_cap = 30.0F, .alibi = true},
        {520, 140}, kRounded, false);
}

TEST_F(CudaAttention, OfHeadsOfAnySize) {
  check({.heads = 3, .kv_heads = 1, .head_dim = 33}, {270, 20}, kRounded, true);
  check({.heads = 2, .kv_heads = 1, .head_dim = 384, .window = 20}, {60, 20}, kRounded, true);
  check({.heads = 40, .kv_heads = 2, .head_dim = 20, .dtype = DType::kF32}, {80, 20}, kExact, true);
}

TEST_F(CudaAttention, OfEveryTypeOfCache) {
  check({.heads = 8, .kv_heads = 2, .head_dim = 64, .dtype = DType::kF32}, {300, 1, 40}, kExact,
        true);
  for (const DType dtype : {DType::kF32, DType::kF8E4M3, DType::kI8}) {
    check({.heads = 4,
           .kv_heads = 1,
           .head_dim = 48,
           .dtype = dtype,
           .window = 40,
           .soft_cap = 20.0F,
           .alibi = true,
           .sinks = true},
          {90, 30}, kExact, true);
    check({.heads = 5, .kv_heads = 1, .head_dim = 44, .dtype = dtype, .latent_dims = 32}, {90, 30},
          kExact, true);
  }
}

TEST_F(CudaAttention, OfCodesWithTensorCores) {
  for (const DType dtype : {DType::kF8E4M3, DType::kI8}) {
    check({.heads = 8, .kv_heads = 2, .head_dim = 128, .dtype = dtype}, {530, 1, 40}, kRounded,
          false);
    check({.heads = 4, .kv_heads = 4, .head_dim = 64, .dtype = dtype, .window = 50}, {270, 16},
          kRounded, false);
    check({.heads = 20, .kv_heads = 1, .head_dim = 80, .dtype = dtype, .chunk = 128, .sinks = true},
          {140, 30}, kRounded, false);
    check({.heads = 2,
           .kv_heads = 1,
           .head_dim = 256,
           .dtype = dtype,
           .soft_cap = 20.0F,
           .alibi = true},
          {70, 20}, kRounded, false);
  }
}

TEST_F(CudaAttention, OfLatents) {
  check({.heads = 6, .kv_heads = 1, .head_dim = 48, .latent_dims = 40}, {140, 30}, kRounded, true);
  check({.heads = 16, .kv_heads = 1, .head_dim = 576, .latent_dims = 512}, {300, 1, 20}, kRounded,
        true);
  check({.heads = 96, .kv_heads = 1, .head_dim = 576, .latent_dims = 512}, {40, 10}, kRounded,
        true);
  check({.heads = 5, .kv_heads = 1, .head_dim = 576, .latent_dims = 512}, {530, 30}, kRounded,
        true);
}

// A token that is not finite reaches those after it alone; but for paged_attention() of bfloat16
// and FP8, where weights of zero meet the values of later tokens of the same step, and earlier
// tokens are not finite then.
TEST_F(CudaAttention, LeavesEarlierTokensFinite) {
  const std::int32_t length = 100;
  const std::int32_t spoiled = 70;
  for (const std::int32_t latent_dims : {0, 40, 512}) {
    for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF8E4M3, DType::kI8}) {
      if ((dtype == DType::kBF16 || dtype == DType::kF8E4M3) && latent_dims == 0) continue;
      const std::int32_t head_dim = latent_dims == 512 ? 576 : 64;
      const KvLayout layout = {.dtype = dtype, .head_dim = head_dim, .latent_dims = latent_dims};
      RopeAndCacheArgs cached = {.num_tokens = length, .num_heads = 2, .layout = layout};
      const std::int64_t row = std::int64_t{cached.all_heads()} * head_dim;
      Floats rows = numbers(length * row);
      std::fill(rows.begin() + spoiled * row + 2 * head_dim, rows.begin() + (spoiled + 1) * row,
                std::numeric_limits<float>::quiet_NaN());
      std::vector<std::int32_t> positions(static_cast<std::size_t>(length));
      std::iota(positions.begin(), positions.end(), 0);
      const std::vector<std::int64_t> slots(positions.begin(), positions.end());
      std::vector<BlockId> table(7);
      std::iota(table.begin(), table.end(), 0);
      const BlockId* const tables[] = {table.data()};
      const std::int32_t query_start_loc[] = {0, length};

      gpu.ops->begin_step();
      const auto qkv = gpu.array(rows);
      const auto device_positions = gpu.array(positions);
      const auto device_slots = gpu.array(slots);
      const auto kv = gpu.array(std::vector<std::byte>(
          table.size() * static_cast<std::size_t>(layout.block_bytes()), std::byte{0xFF}));
      const auto out =
          gpu.array(Floats(static_cast<std::size_t>(length * 2 * layout.value_dims())));
      cached.qkv = qkv.data();
      cached.positions = device_positions.data();
      cached.slot_mapping = device_slots.data();
      cached.kv = kv.data();
      gpu.ops->rope_and_cache(cached);
      const auto plan = gpu.ops->plan_attention(length, {1, 2});
      plan->build({.num_seqs = 1,
                   .query_start_loc = query_start_loc,
                   .seq_lens = &length,
                   .block_tables = tables,
                   .block_size = 16});
      gpu.ops->attention(*plan, {.q = qkv.data(),
                                 .q_stride = row,
                                 .num_heads = 2,
                                 .scale = 0.1F,
                                 .layout = layout,
                                 .kv = kv.data(),
                                 .out = out.data()});
      const Floats values = out.read(*gpu.ops);
      const auto seen = static_cast<std::size_t>(spoiled * 2 * layout.value_dims());
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(std::isfinite(values[i]), i < seen)
            << dtype_name(dtype) << ", latents of " << latent_dims << ", number " << i;
      }
    }
  }
}

}  // namespace cuda_attention_test
}  // namespace quire
