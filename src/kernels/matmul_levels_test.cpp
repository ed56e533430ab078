// What vector levels have in common (the bits of integer products), and bfloat16 weights with
// inputs rounded to bfloat16: numbers of rows and inputs around the sizes of blocks, tiles and
// pieces.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/emulated_dots.h"
#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "tensor/buffer.h"

namespace quire {
namespace matmul_levels_test {

using Values = std::vector<float>;

Values random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

Values run(IsaLevel level, const PackedWeight& weight, const Values& x, std::int64_t rows,
           const float* bias = nullptr, ActivationMode mode = ActivationMode::kInt16) {
  ThreadPool pool(2);
  auto workspace = Buffer::allocate(matmul_workspace_bytes(rows, weight.inputs())).value();
  OpContext ctx{pool, op_table(level), workspace.bytes()};
  Values out(static_cast<std::size_t>(rows * weight.outputs()));
  const MatmulPart part{&weight, out.data(), weight.outputs(), bias, false};
  matmul(ctx, x.data(), weight.inputs(), rows, mode, {&part, 1});
  return out;
}

// Emulated vectors that the processor has are tested without. Those with dot products of bytes are
// what emulated tiles are compared with.
bool is_compared(IsaLevel level) {
  return level == IsaLevel::kAvx2 || level == IsaLevel::kAvx512VnniBf16 || level_can_run(level);
}

void expect_vector_levels_agree(Encoding encoding) {
  ThreadPool pool(2);
  const std::int64_t inputs = encoding_traits(encoding).block_elements == 32 ? 608 : 768;
  const TestMatrix matrix(encoding, 150, inputs, 15);
  const PackedWeight weight = pack_or_die(pool, matrix);
  for (const std::int64_t rows : {1, 3, 4, 9, 33, 150}) {
    const Values x = random_values(rows * inputs, 16);
    for (const ActivationMode mode : {ActivationMode::kInt8, ActivationMode::kInt16}) {
      std::map<ActivationMode, Values> expected;
      for (const IsaLevel level : available_levels()) {
        if (level < IsaLevel::kAvx2 || !is_compared(level)) continue;
        const Values out = run(level, weight, x, rows, nullptr, mode);
        const auto [first, is_new] =
            expected.try_emplace(mode_at(level, weight.layout(), mode), out);
        EXPECT_EQ(out, first->second)
            << isa_level_name(level) << ", " << encoding_traits(encoding).name << ", " << rows
            << " rows, mode " << static_cast<int>(mode);
      }
    }
  }
}

// The integer sums are exact and scaled the same way, so vector levels that round inputs to the
// same number of bits agree in every bit.
TEST(MatmulLevels, IntegerProductsAgreeBetweenVectorLevels) {
  if (available_levels().back() < IsaLevel::kAvx512) GTEST_SKIP() << "this processor lacks avx512";
  for (const Encoding encoding : kQuantizedEncodings) expect_vector_levels_agree(encoding);
}

// Weights are looked up, scaled and added in one order at all of them.
TEST(MatmulLevels, ProductsOfTablesAgreeBetweenVectorLevels) {
  if (available_levels().back() < IsaLevel::kAvx512) GTEST_SKIP() << "this processor lacks avx512";
  for (const Encoding encoding : kAllEncodings) {
    if (is_codebook(encoding)) expect_vector_levels_agree(encoding);
  }
}

// Two bytes of a code are the code, also where it is at the end of its range.
TEST(MatmulLevels, Int16BytesAreTheCodesAtAllVectorLevels) {
  constexpr std::int64_t kInputs = 256;
  Values x = random_values(kInputs, 17);
  std::fill_n(x.begin(), 32, 0.0F);
  x[40] = INFINITY;
  x[70] = NAN;
  for (std::size_t i = 0; i < 32; ++i) {  // codes around bytes' borders
    x[96 + i] = static_cast<float>(static_cast<int>(i) * 16 - 256 + static_cast<int>(i % 3));
  }
  x[96] = -32639.0F;
  x[97] = 32639.0F;
  x[98] = -128.0F;
  x[99] = 128.0F;
  constexpr int kOrder[] = {0, 2, 1, 3};  // of Int16Rows
  std::vector<std::int16_t> codes(kInputs);
  std::vector<std::int32_t> sums(kInputs / 16);
  Values scales(kInputs / 32);
  Values scaled_sums(kInputs / 32);
  op_table(IsaLevel::kRef)
      .matmul.quantize_row_int16(x.data(), kInputs, 1,
                                 {codes.data(), scales.data(), sums.data(), scaled_sums.data()});
  int tested = 0;
  for (const IsaLevel level : available_levels()) {
    const MatmulKernels& kernels = op_table(level).matmul;
    if (kernels.quantize_row_int16_bytes == nullptr) continue;
    ++tested;
    std::vector<std::int8_t> high(kInputs);
    std::vector<std::int8_t> low(kInputs);
    std::vector<std::int32_t> code_sums(kInputs / 16);
    Values got_scales(kInputs / 32);
    Values got_sums(kInputs / 32);
    kernels.quantize_row_int16_bytes(
        x.data(), kInputs,
        {high.data(), low.data(), kInputs, got_scales.data(), code_sums.data(), got_sums.data()});
    EXPECT_EQ(code_sums, sums);
    for (std::size_t i = 0; i < kInputs; ++i) {
      const auto place = i / 4 * 4 + static_cast<std::size_t>(kOrder[i % 4]);
      EXPECT_EQ(256 * high[i] + low[i], codes[place]) << i;
    }
    for (std::size_t g = 0; g < kInputs / 32; ++g) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got_scales[g]),
                std::bit_cast<std::uint32_t>(scales[g]));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got_sums[g]),
                std::bit_cast<std::uint32_t>(scaled_sums[g]));
    }
  }
  if (tested == 0) GTEST_SKIP() << "no level of this processor multiplies tiles of bytes";
}

class Bf16Products : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    QUIRE_SKIP_ABSENT_LEVEL();
    if (!rounds_to_bf16(GetParam(), Encoding::kBF16)) {
      GTEST_SKIP() << "level " << isa_level_name(GetParam()) << " multiplies float32 inputs";
    }
  }
  ThreadPool pool_{2};
};

TEST_P(Bf16Products, AgreeWithSumsInDouble) {
  for (const std::int64_t inputs : {1, 31, 32, 33, 255, 511, 513, 1100}) {
    for (const std::int64_t outputs : {16, 37, 130}) {
      const TestMatrix matrix(Encoding::kBF16, outputs, inputs, 31);
      const PackedWeight weight = pack_or_die(pool_, matrix);
      const Values weights = matrix.decode();
      for (const std::int64_t rows : {1, 4, 15, 16, 17, 32, 33, 49}) {
        const Values x = random_values(rows * inputs, 32);
        const Values bias = random_values(outputs, 33);
        const Values out = run(GetParam(), weight, x, rows, bias.data());
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t n = 0; n < outputs; ++n) {
            const auto column = static_cast<std::size_t>(n);
            auto exact = static_cast<double>(bias[column]);
            double magnitude = std::abs(exact);
            for (std::int64_t k = 0; k < inputs; ++k) {
              const float value = x[static_cast<std::size_t>(r * inputs + k)];
              const double term =
                  static_cast<double>(bf16_to_float(float_to_bf16(value))) *
                  static_cast<double>(weights[static_cast<std::size_t>(n * inputs + k)]);
              exact += term;
              magnitude += std::abs(term);
            }
            const auto got = static_cast<double>(out[static_cast<std::size_t>(r * outputs + n)]);
            ASSERT_NEAR(got, exact, static_cast<double>(inputs + 4) * 0x1p-24 * magnitude + 1e-30)
                << "row " << r << " of " << rows << ", output " << n << " of " << outputs << ", K "
                << inputs;
          }
        }
      }
    }
  }
}

// Bit for bit what the definition of vdpbf16ps gives, pair by pair: a processor's, or the vectors
// that emulate it. Inputs of every second row are so small that they, and their sums, are denormal.
TEST_P(Bf16Products, DotsAreThoseOfTheInstructionsDefinition) {
  if (GetParam() != IsaLevel::kAvx512VnniBf16) GTEST_SKIP() << "tiles, not dot products";
  constexpr std::int64_t kInputs = 256;
  constexpr std::int64_t kOutputs = 16;
  const TestMatrix matrix(Encoding::kBF16, kOutputs, kInputs, 39);
  const PackedWeight weight = pack_or_die(pool_, matrix);
  const Values weights = matrix.decode();
  for (const std::int64_t rows : {2, 6}) {
    Values x = random_values(rows * kInputs, 40);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i / kInputs % 2 == 1) x[i] *= 0x1p-126F;
    }
    const Values out = run(GetParam(), weight, x, rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t n = 0; n < kOutputs; ++n) {
        float sum = 0.0F;
        for (std::int64_t k = 0; k < kInputs; k += 2) {
          std::uint16_t a[2];
          std::uint16_t b[2];
          for (std::int64_t i = 0; i < 2; ++i) {
            a[i] = float_to_bf16(weights[static_cast<std::size_t>(n * kInputs + k + i)]);
            b[i] = float_to_bf16(x[static_cast<std::size_t>(r * kInputs + k + i)]);
          }
          sum = emulated_dot_bf16(sum, a, b);
        }
        EXPECT_EQ(out[static_cast<std::size_t>(r * kOutputs + n)], sum)
            << "row " << r << " of " << rows << ", output " << n;
      }
    }
  }
}

// Across the borders of blocks of rows, tiles, chunks and pieces of K.
TEST_P(Bf16Products, BitsDependOnTheRowAlone) {
  const std::int64_t inputs = 1063;
  const std::int64_t outputs = 71;
  const TestMatrix matrix(Encoding::kBF16, outputs, inputs, 34);
  const PackedWeight weight = pack_or_die(pool_, matrix);
  const std::int64_t rows = 150;
  const Values x = random_values(rows * inputs, 35);
  const Values together = run(GetParam(), weight, x, rows);
  for (const std::int64_t count : {1, 3, 16, 19, 32, 60, 128, 129}) {
    for (const std::int64_t first : {std::int64_t{0}, rows - count}) {
      const Values part(x.begin() + first * inputs, x.begin() + (first + count) * inputs);
      const Values out = run(GetParam(), weight, part, count);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), together.begin() + first * outputs))
          << count << " rows from " << first;
    }
  }
}

TEST_P(Bf16Products, RoundInputsToNearestEvenAndPadWithZeros) {
  constexpr std::int64_t kInputs = 37;
  Values x = random_values(kInputs, 36);
  x[0] = 0x1.01p0F;    // a tie, down to even
  x[1] = 0x1.03p0F;    // a tie, up to even
  x[2] = 0x1.0101p0F;  // above a tie
  x[3] = -0x1.01p0F;
  x[4] = INFINITY;
  x[5] = NAN;
  std::vector<std::uint16_t> rounded(static_cast<std::size_t>(bf16_row_stride(kInputs)), 0x7777);
  op_table(GetParam()).matmul.round_row_bf16(x.data(), kInputs, rounded.data());
  for (std::size_t i = 0; i < 64; ++i) {
    const float value = bf16_to_float(rounded[i]);
    if (i == 5) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(rounded[i], i < kInputs ? float_to_bf16(x[i]) : 0) << i;
    }
  }
  EXPECT_EQ(bf16_to_float(rounded[0]), 1.0F);
  EXPECT_EQ(bf16_to_float(rounded[1]), 0x1.04p0F);
  EXPECT_EQ(bf16_to_float(rounded[2]), 0x1.02p0F);
}

// --dtype float32 asks for exact inputs, whatever the level could do.
TEST_P(Bf16Products, KeepFloat32InputsWhereTheModeAsks) {
  const TestMatrix matrix(Encoding::kBF16, 16, 64, 37);
  const PackedWeight weight = pack_or_die(pool_, matrix);
  const Values x = random_values(64, 38);
  Values out(16);
  OpContext ctx{pool_, op_table(GetParam()), {}};
  const MatmulPart part{&weight, out.data(), 16};
  matmul(ctx, x.data(), 64, 1, ActivationMode::kFloat32, {&part, 1});
  const Values weights = matrix.decode();
  for (std::size_t n = 0; n < 16; ++n) {
    double exact = 0;
    for (std::size_t k = 0; k < 64; ++k) {
      exact += static_cast<double>(x[k]) * static_cast<double>(weights[n * 64 + k]);
    }
    EXPECT_NEAR(static_cast<double>(out[n]), exact, 1e-5);
  }
  EXPECT_NE(out, run(GetParam(), weight, x, 1));
}

INSTANTIATE_TEST_SUITE_P(Levels, Bf16Products, kAllLevels, level_test_name);

}  // namespace matmul_levels_test
}  // namespace quire
