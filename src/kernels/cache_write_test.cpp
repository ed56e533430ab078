// Heads on their way into the cache, on every level: norms, rotation, and the types of numbers that
// the cache keeps.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/ops.h"
#include "kernels/ref/kv_ref.h"
#include "kernels/row_ops_test_support.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

TEST_P(RowOps, RopeAndCacheBothStylesAndAllTypes) {
  QUIRE_SKIP_ABSENT_LEVEL();
  struct Case {
    std::int32_t head_dim, rotary_dim, block_size;
  };
  for (const Case c : {Case{64, 64, 16}, Case{8, 8, 1}, Case{20, 12, 3}, Case{128, 32, 2},
                       Case{34, 34, 5}, Case{80, 22, 4}, Case{33, 32, 8}}) {
    for (const RopeStyle style : {RopeStyle::kHalves, RopeStyle::kInterleaved}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
        const std::int32_t heads = 3;
        const std::int32_t kv_heads = 2;
        const std::vector<std::int32_t> positions = {0, 7, 3, 11, 250};
        const std::vector<std::int64_t> slots = {4, 0, 17, 9, 13};
        const std::size_t tokens = positions.size();
        const auto d = static_cast<std::size_t>(c.head_dim);
        const std::size_t width = (heads + 2 * kv_heads) * d;
        const auto before = random_floats(tokens * width, 1.0F, 6);
        const auto table = random_floats(251 * static_cast<std::size_t>(c.rotary_dim), 1.0F, 7);
        auto qkv = before;
        RopeAndCacheArgs args;
        args.qkv = qkv.data();
        args.num_tokens = static_cast<std::int64_t>(tokens);
        args.num_heads = heads;
        args.positions = positions.data();
        args.slot_mapping = slots.data();
        args.rope_table = table.data();
        args.rotary_dim = c.rotary_dim;
        args.style = style;
        args.layout = {dtype, c.block_size, kv_heads, c.head_dim};
        std::vector<std::byte> kv(args.layout.block_bytes() * (18 / c.block_size + 1));
        args.kv = kv.data();
        ctx_.table.rows.rope_and_cache(args, all_heads(args));

        const std::size_t pairs = static_cast<std::size_t>(c.rotary_dim) / 2;
        for (std::size_t t = 0; t < tokens; ++t) {
          const float* cosines = table.data() + static_cast<std::size_t>(positions[t]) *
                                                    static_cast<std::size_t>(c.rotary_dim);
          for (std::size_t head = 0; head < heads + 2 * kv_heads; ++head) {
            const float* x = before.data() + t * width + head * d;
            std::vector<double> expected(x, x + d);
            for (std::size_t i = 0; head < heads + kv_heads && i < pairs; ++i) {
              const std::size_t a = style == RopeStyle::kHalves ? i : 2 * i;
              const std::size_t b = style == RopeStyle::kHalves ? pairs + i : 2 * i + 1;
              const double cosine = cosines[i];
              const double sine = cosines[pairs + i];
              expected[a] = x[a] * cosine - x[b] * sine;
              expected[b] = x[b] * cosine + x[a] * sine;
            }
            const float* rotated = qkv.data() + t * width + head * d;
            for (std::size_t i = 0; i < d; ++i) ASSERT_NEAR(rotated[i], expected[i], 2e-6);
            if (head < heads) continue;
            const auto kv_head = static_cast<std::int32_t>((head - heads) % kv_heads);
            const auto block = static_cast<BlockId>(slots[t] / c.block_size);
            const auto slot = static_cast<std::int32_t>(slots[t] % c.block_size);
            const bool is_key = head < heads + kv_heads;
            std::vector<std::byte> one(args.layout.block_bytes());  // as the scalar code writes it
            const KvLayout single{dtype, 1, 1, c.head_dim};
            store_key(rotated, single, 0, 0, 0, one.data());
            store_value(rotated, single, 0, 0, 0, one.data());
            for (std::int32_t i = 0; i < c.head_dim; ++i) {
              const auto load = is_key ? load_key : load_value;
              ASSERT_EQ(load(kv.data(), args.layout, block, kv_head, slot, i),
                        load(one.data(), single, 0, 0, 0, i))
                  << dtype_name(dtype) << (is_key ? " key " : " value ") << i;
            }
          }
        }
      }
    }
  }
}

// Ties, subnormals, infinities and NaN round as the scalar conversion does.
// Rotation alone, then norms of what it gave; the cache gets the normed keys.
TEST_P(RowOps, NormsOfHeadsAfterRotation) {
  QUIRE_SKIP_ABSENT_LEVEL();
  constexpr std::int64_t kTokens = 3;
  constexpr std::int64_t kDim = 20;
  const auto before = random_floats(kTokens * 4 * kDim, 1.0F, 50);  // two queries, a key, a value
  const auto table = random_floats(kTokens * 12, 1.0F, 51);
  const auto q_norm = random_floats(kDim, 1.0F, 52);
  const auto k_norm = random_floats(kDim, 1.0F, 53);
  const std::vector<std::int32_t> positions = {0, 1, 2};
  const std::vector<std::int64_t> slots = {2, 0, 1};
  RopeAndCacheArgs args = {.num_tokens = kTokens,
                           .num_heads = 2,
                           .positions = positions.data(),
                           .slot_mapping = slots.data(),
                           .rope_table = table.data(),
                           .rotary_dim = 12,
                           .norm_epsilon = 1e-5F,
                           .layout = {DType::kF32, 4, 1, kDim}};
  std::vector<std::byte> kv(args.layout.block_bytes());
  args.kv = kv.data();
  auto expected = before;
  args.qkv = expected.data();
  ctx_.table.rows.rope_and_cache(args, all_heads(args));
  for (std::int64_t i = 0; i < kTokens * 4; ++i) {
    if (i % 4 == 3) continue;
    float* const head = expected.data() + i * kDim;
    const auto& norm = i % 4 == 2 ? k_norm : q_norm;
    ctx_.table.rows.rms_norm(head, norm.data(), 1e-5F, kDim, head);
  }
  auto qkv = before;
  args.qkv = qkv.data();
  args.q_norm = q_norm.data();
  args.k_norm = k_norm.data();
  args.norms_after_rope = true;
  ctx_.table.rows.rope_and_cache(args, all_heads(args));
  EXPECT_EQ(qkv, expected);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int32_t i = 0; i < kDim; ++i) {
      const auto slot = static_cast<std::int32_t>(slots[static_cast<std::size_t>(t)]);
      ASSERT_EQ(load_key(kv.data(), args.layout, 0, 0, slot, i),
                expected[static_cast<std::size_t>((t * 4 + 2) * kDim + i)]);
    }
  }
}

TEST_P(RowOps, CachedValuesRoundToNearestEvenBfloat16) {
  QUIRE_SKIP_ABSENT_LEVEL();
  std::vector<float> qkv(96, 0.0F);
  const std::vector<std::uint32_t> bits = {0x3F808000, 0x3F818000, 0x3F808001, 0x3F817FFF,
                                           0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
                                           0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x00000001,
                                           0x00008000, 0x00018000, 0x80000000, 0x00000000};
  float* values = qkv.data() + 64;
  for (std::size_t i = 0; i < 32; ++i) std::memcpy(values + i, &bits[i % 16], 4);
  const std::int32_t position = 0;
  const std::int64_t slot = 0;
  RopeAndCacheArgs args;
  args.qkv = qkv.data();
  args.num_tokens = 1;
  args.num_heads = 1;
  args.positions = &position;
  args.slot_mapping = &slot;
  args.rope_table = qkv.data();
  args.layout = {DType::kBF16, 1, 1, 32};
  std::vector<std::byte> kv(args.layout.block_bytes());
  args.kv = kv.data();
  ctx_.table.rows.rope_and_cache(args, all_heads(args));
  for (std::size_t i = 0; i < 32; ++i) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, kv.data() + args.layout.values_offset(0, 0) + 2 * i, 2);
    EXPECT_EQ(stored, float_to_bf16(values[i])) << std::hex << bits[i % 16];
  }
}

// What each of the 256 codes stands for, and the numbers around it, round as the scalar conversion
// does, which agrees with the format's definition.
TEST_P(RowOps, CachedValuesRoundToNearestEvenFp8) {
  QUIRE_SKIP_ABSENT_LEVEL();
  std::vector<float> numbers = {
      448.1F, 463.9F,    464.0F,     1e30F,
      -1e30F, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  for (int code = 0; code < 255; ++code) {
    const float x = fp8_e4m3_to_float(static_cast<std::uint8_t>(code));
    const float next = fp8_e4m3_to_float(static_cast<std::uint8_t>(code + 1));
    for (const float number : {x, (x + next) / 2, std::nextafter((x + next) / 2, x),
                               std::nextafter((x + next) / 2, next)}) {
      numbers.push_back(number);
    }
  }
  numbers.resize((numbers.size() + 31) / 32 * 32, 0.0F);
  const auto d = static_cast<std::int32_t>(numbers.size());
  std::vector<float> qkv(3 * numbers.size(), 0.0F);
  std::copy(numbers.begin(), numbers.end(), qkv.end() - d);
  const std::int32_t position = 0;
  const std::int64_t slot = 0;
  RopeAndCacheArgs args;
  args.qkv = qkv.data();
  args.num_tokens = 1;
  args.num_heads = 1;
  args.positions = &position;
  args.slot_mapping = &slot;
  args.rope_table = qkv.data();
  args.layout = {DType::kF8E4M3, 1, 1, d};
  std::vector<std::byte> kv(args.layout.block_bytes());
  args.kv = kv.data();
  ctx_.table.rows.rope_and_cache(args, all_heads(args));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(kv[args.layout.values_offset(0, 0) + i]);
    ASSERT_EQ(code, float_to_fp8_e4m3(numbers[i])) << numbers[i];
    if (std::isnan(numbers[i])) {
      ASSERT_EQ(code & 0x7F, 0x7F);
      continue;
    }
    // No other code is nearer; of two as near, the even one is taken.
    const float clamped = std::clamp(numbers[i], -448.0F, 448.0F);
    const float error = std::abs(fp8_e4m3_to_float(code) - clamped);
    for (int other = 0; other < 256; ++other) {
      const float value = fp8_e4m3_to_float(static_cast<std::uint8_t>(other));
      if (std::isnan(value) || value == fp8_e4m3_to_float(code)) continue;
      const float distance = std::abs(value - clamped);
      ASSERT_TRUE(error < distance || (error == distance && code % 2 == 0)) << numbers[i];
    }
  }
}

// A scale of its own for each token and head; what is not finite makes the head NaN.
TEST_P(RowOps, Int8CacheHasAScaleForEachHead) {
  QUIRE_SKIP_ABSENT_LEVEL();
  constexpr std::int32_t kDim = 40;
  std::vector<float> qkv = random_floats(2 * 5 * kDim, 1.0F, 9);  // two tokens: q, two k, two v
  float* const second = qkv.data() + std::ptrdiff_t{5} * kDim;
  for (int i = 0; i < kDim; ++i) {
    second[3 * kDim + i] = 0.0F;                       // value of head 0
    second[4 * kDim + i] = i == 7 ? kInfinity : 1.0F;  // value of head 1
  }
  qkv[3 * kDim + 5] = 1000.0F;
  const std::vector<std::int32_t> positions = {0, 1};
  const std::vector<std::int64_t> slots = {0, 1};
  RopeAndCacheArgs args;
  args.qkv = qkv.data();
  args.num_tokens = 2;
  args.num_heads = 1;
  args.positions = positions.data();
  args.slot_mapping = slots.data();
  args.rope_table = qkv.data();
  args.layout = {DType::kI8, 2, 2, kDim};
  std::vector<std::byte> kv(args.layout.block_bytes());
  args.kv = kv.data();
  ctx_.table.rows.rope_and_cache(args, all_heads(args));
  for (std::int32_t i = 0; i < kDim; ++i) {
    EXPECT_NEAR(load_value(kv.data(), args.layout, 0, 0, 0, i), qkv[3 * kDim + i], 1000.0 / 254.0);
    EXPECT_NEAR(load_value(kv.data(), args.layout, 0, 1, 0, i), qkv[4 * kDim + i], 4.0 / 254.0);
    EXPECT_EQ(load_value(kv.data(), args.layout, 0, 0, 1, i), 0.0F);
    EXPECT_TRUE(std::isnan(load_value(kv.data(), args.layout, 0, 1, 1, i)));
  }
}

}  // namespace
}  // namespace quire
