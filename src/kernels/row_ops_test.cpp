// Row ops on every level against double arithmetic, on odd sizes.
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

TEST_P(RowOps, RmsNorm) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 7, 8, 15, 16, 17, 63, 64, 100, 576, 2047, 8192}) {
    const std::int64_t rows = 5;
    const auto n = static_cast<std::size_t>(cols);
    auto x = random_floats(static_cast<std::size_t>(rows) * n, 3.0F, 1);
    x[0] = 1000.0F;  // one outlier, as trained models have
    const auto weight = random_floats(n, 1.0F, 2);
    std::vector<float> out(x.size(), kNan);
    rms_norm(ctx_, x.data(), weight.data(), 1e-5F, rows, cols, out.data());
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      double sum = 0.0;
      for (std::size_t c = 0; c < n; ++c) sum += double{x[r * n + c]} * x[r * n + c];
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
      for (std::size_t c = 0; c < n; ++c) {
        const double expected = x[r * n + c] * scale * weight[c];
        ASSERT_NEAR(out[r * n + c], expected, 2e-6 * std::abs(expected) + 1e-30) << cols;
      }
    }
  }
}

// A row's numbers depend neither on the rows around it nor on the threads.
TEST_P(RowOps, RmsNormOfARowIsTheSameInAnyBatch) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto x = random_floats(std::size_t{40} * 577, 1.0F, 3);
  const auto weight = random_floats(577, 1.0F, 4);
  std::vector<float> all(x.size());
  rms_norm(ctx_, x.data(), weight.data(), 1e-6F, 40, 577, all.data());
  std::vector<float> one(577);
  for (std::size_t row = 0; row < 40; ++row) {
    rms_norm(ctx_, x.data() + row * 577, weight.data(), 1e-6F, 1, 577, one.data());
    ASSERT_TRUE(std::equal(one.begin(), one.end(), all.data() + row * 577));
  }
}

TEST_P(RowOps, RmsNormAndAdd) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 7, 8, 17, 63, 64, 100, 577, 640}) {
    const std::int64_t rows = 3;
    const auto n = static_cast<std::size_t>(cols);
    const auto x = random_floats(static_cast<std::size_t>(rows) * n, 3.0F, 21);
    const auto weight = random_floats(n, 1.0F, 22);
    const auto before = random_floats(x.size(), 1.0F, 23);
    auto out = before;
    rms_norm_and_add(ctx_, x.data(), weight.data(), 1e-6F, rows, cols, out.data());
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      double sum = 0.0;
      for (std::size_t c = 0; c < n; ++c) sum += double{x[r * n + c]} * x[r * n + c];
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + 1e-6);
      for (std::size_t c = 0; c < n; ++c) {
        const double added = x[r * n + c] * scale * weight[c];
        const double expected = before[r * n + c] + added;
        ASSERT_NEAR(out[r * n + c], expected,
                    2e-6 * (std::abs(added) + std::abs(before[r * n + c])))
            << cols;
      }
    }
  }
}

TEST_P(RowOps, LayerNormWithAndWithoutParameters) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t cols : {1, 7, 8, 15, 16, 17, 63, 64, 100, 577, 2047, 8192}) {
    for (const int parameters : {0, 1, 2}) {  // none, weights, biases, too
      const bool biased = parameters == 2;
      const std::int64_t rows = 3;
      const auto n = static_cast<std::size_t>(cols);
      auto x = random_floats(static_cast<std::size_t>(rows) * n, 3.0F, 41);
      for (float& value : x) value += 2.0F;  // a mean to take away
      const auto weight =
          parameters == 0 ? std::vector<float>(n, 1.0F) : random_floats(n, 1.0F, 42);
      const auto bias = random_floats(n, 1.0F, 43);
      std::vector<float> out(x.size(), kNan);
      layer_norm(ctx_, x.data(), parameters == 0 ? nullptr : weight.data(),
                 biased ? bias.data() : nullptr, 1e-5F, rows, cols, out.data());
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
        double mean = 0.0;
        for (std::size_t c = 0; c < n; ++c) mean += x[r * n + c];
        mean /= static_cast<double>(n);
        double variance = 0.0;
        for (std::size_t c = 0; c < n; ++c) variance += std::pow(x[r * n + c] - mean, 2);
        const double scale = 1.0 / std::sqrt(variance / static_cast<double>(n) + 1e-5);
        for (std::size_t c = 0; c < n; ++c) {
          const double expected =
              (x[r * n + c] - mean) * scale * weight[c] + (biased ? bias[c] : 0.0F);
          ASSERT_NEAR(out[r * n + c], expected, 1e-5 * (1.0 + std::abs(expected))) << cols;
        }
      }
    }
  }
}

// As an op over contiguous rows gives it.
TEST_P(RowOps, RmsNormInPlaceLeavesWhatLiesBetweenTheRows) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto before = random_floats(std::size_t{7} * 50, 1.0F, 44);
  const auto weight = random_floats(33, 1.0F, 45);
  auto x = before;
  rms_norm_in_place(ctx_, weight.data(), 1e-6F, 7, 33, 50, x.data());
  std::vector<float> one(33);
  for (std::size_t row = 0; row < 7; ++row) {
    rms_norm(ctx_, before.data() + row * 50, weight.data(), 1e-6F, 1, 33, one.data());
    for (std::size_t c = 0; c < 50; ++c) {
      ASSERT_EQ(x[row * 50 + c], c < 33 ? one[c] : before[row * 50 + c]) << row << ' ' << c;
    }
  }
}

TEST_P(RowOps, ScaleAndAdd) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto x = random_floats(20'003, 1.0F, 46);
  const auto before = random_floats(x.size(), 1.0F, 47);
  auto out = before;
  scale_and_add(ctx_, x.data(), 0.22F, static_cast<std::int64_t>(x.size()), out.data());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], before[i] + 0.22F * x[i]);
}

TEST_P(RowOps, ScaleByPosition) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::vector<std::int32_t> positions = {0, 7, 8, 100};
  std::vector<float> x(4 * 5, 2.0F);
  scale_by_position(ctx_, {.growth = 0.5F, .interval = 8.0F}, positions.data(), 4, 3, 5, x.data());
  std::vector<float> later(4 * 5, 2.0F);
  scale_by_position(ctx_, {.growth = 0.5F, .interval = 8.0F, .offset = 1}, positions.data(), 4, 3,
                    5, later.data());
  const std::vector<double> factors = {1, 1, 1 + 0.5 * std::log(2), 1 + 0.5 * std::log(13)};
  const std::vector<double> of_later = {1, 1 + 0.5 * std::log(2), 1 + 0.5 * std::log(2),
                                        1 + 0.5 * std::log(13)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x[i], i % 5 < 3 ? 2 * factors[i / 5] : 2, 1e-6) << i;
    EXPECT_NEAR(later[i], i % 5 < 3 ? 2 * of_later[i / 5] : 2, 1e-6) << i;
  }
}

TEST_P(RowOps, ScaleInPlace) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const auto before = random_floats(20'003, 1.0F, 26);
  auto x = before;
  scale_in_place(ctx_, 25.25F, static_cast<std::int64_t>(x.size()), x.data());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], before[i] * 25.25F);
}

TEST_P(RowOps, SoftCapAndTheLargestAfterIt) {
  QUIRE_SKIP_ABSENT_LEVEL();
  constexpr std::size_t kRows = 3;
  for (const std::size_t cols : {1U, 7U, 16U, 33U, 20'003U}) {
    auto before = random_floats(kRows * cols, 60.0F, 48);
    for (std::size_t i = 0; i < before.size(); i += 5) before[i] *= 1e-4F;  // exact near 0, too
    before[0] = 1e30F;
    before.back() = -1e30F;
    auto x = before;
    std::vector<RowBest> best(kRows);
    soft_cap_and_best(ctx_, 30.0F, kRows, static_cast<std::int64_t>(cols), x.data(), best.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = 30.0 * std::tanh(double{before[i]} / 30.0);
      ASSERT_NEAR(x[i], expected, 6e-7 * std::abs(expected)) << before[i];
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * cols);
      const auto largest = std::max_element(row, row + static_cast<std::ptrdiff_t>(cols));
      EXPECT_EQ(best[r].value, *largest);
      EXPECT_EQ(best[r].index, largest - row);
    }
  }
}

// What differed may be equal then: the first is the largest.
TEST_P(RowOps, SoftCapTakesTheFirstOfThoseThatAreEqualAfterIt) {
  QUIRE_SKIP_ABSENT_LEVEL();
  std::vector<float> x = {1.0F, 900.0F, 1000.0F, -900.0F, kNan};
  RowBest best;
  soft_cap_and_best(ctx_, 30.0F, 1, 4, x.data(), &best);
  EXPECT_EQ(best.value, 30.0F);
  EXPECT_EQ(best.index, 1);
  soft_cap_and_best(ctx_, 30.0F, 1, 5, x.data(), &best);
  EXPECT_TRUE(std::isnan(best.value));
}

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

INSTANTIATE_TEST_SUITE_P(Levels, RowOps, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
