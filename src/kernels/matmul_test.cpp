// Matrix products on every level: against sums in double, and bit for bit against themselves under
// every number of rows, split of panels and number of threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/ops.h"
#include "kernels/spoiled_matrix_test_support.h"
#include "tensor/buffer.h"

namespace quire {
namespace matmul_test {

using Values = std::vector<float>;

// Inputs whose sums cancel: magnitudes over ten binary orders, both signs.
Values random_inputs(std::int64_t rows, std::int64_t stride, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-5, 5);
  Values x(static_cast<std::size_t>(rows * stride));
  for (float& value : x) value = std::ldexp(normal(random), exponent(random));
  return x;
}

std::vector<std::uint32_t> bits_of(const Values& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

struct Product {
  std::int64_t rows = 1;
  std::int64_t x_stride = 0;
  std::int64_t out_stride = 0;
  ActivationMode mode = ActivationMode::kFloat32;
  const float* bias = nullptr;
  bool accumulate = false;
};

// Runs matmul() for one weight on `level`; what is not written keeps `before`.
Values run(IsaLevel level, ThreadPool& pool, const PackedWeight& weight, const Values& x,
           const Product& product, float before = 0.0F) {
  const std::uint64_t bytes = matmul_workspace_bytes(product.rows, weight.inputs());
  auto workspace = Buffer::allocate(bytes + 64).value();
  OpContext ctx{pool, op_table(level), workspace.bytes()};
  Values out(static_cast<std::size_t>(product.rows * product.out_stride), before);
  const MatmulPart part{&weight, out.data(), product.out_stride, product.bias, product.accumulate};
  matmul(ctx, x.data(), product.x_stride, product.rows, product.mode, {&part, 1});
  return out;
}

// One output in double, and the sum of its terms' magnitudes, which scales the rounding error.
struct Exact {
  double value = 0;
  double magnitude = 0;
};

Exact exact_float(const float* x, const float* weights, std::int64_t inputs) {
  Exact exact;
  for (std::int64_t k = 0; k < inputs; ++k) {
    const double term = static_cast<double>(x[k]) * static_cast<double>(weights[k]);
    exact.value += term;
    exact.magnitude += std::abs(term);
  }
  return exact;
}

// The inputs that rounded activations stand for: x rounded to multiples of amax / largest in
// groups.
Values round_inputs(const Values& x, ActivationMode mode) {
  const float codes = mode == ActivationMode::kInt8 ? 127.0F : 32639.0F;
  Values rounded(x.size());
  for (std::size_t g = 0; g + 32 <= x.size(); g += 32) {
    float largest = 0;
    for (std::size_t i = g; i < g + 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float scale = largest / codes;
    for (std::size_t i = g; i < g + 32; ++i) {
      rounded[i] = largest > 0 ? scale * std::nearbyint(x[i] * (codes / largest)) : 0.0F;
    }
  }
  return rounded;
}

using Case = std::tuple<IsaLevel, Encoding, ActivationMode>;

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto [level, encoding, mode] = info.param;
  return std::string(isa_level_name(level)) + "_" + std::string(encoding_traits(encoding).name) +
         (mode == ActivationMode::kFloat32 ? "_float"
          : mode == ActivationMode::kInt8  ? "_int8"
                                           : "_int16");
}

class Matmul : public testing::TestWithParam<Case> {
 protected:
  IsaLevel level() const { return std::get<0>(GetParam()); }
  Encoding encoding() const { return std::get<1>(GetParam()); }
  ActivationMode mode() const { return std::get<2>(GetParam()); }
  bool quantized() const { return unit() > 1; }
  // Numbers of inputs are multiples of it.
  std::int64_t unit() const { return encoding_traits(encoding()).block_elements; }
  std::int64_t inputs_near(std::int64_t count) const {
    return (count + unit() - 1) / unit() * unit();
  }

  // Inputs as the products see them.
  Values seen_inputs(const Values& x) const {
    if (mode() == ActivationMode::kFloat32) return x;
    if (rounds_to_bf16(level(), encoding())) {
      Values rounded;
      for (const float value : x) rounded.push_back(bf16_to_float(float_to_bf16(value)));
      return rounded;
    }
    if (!quantized()) return x;
    const ActivationMode used = mode_at(level(), layout_of(encoding()), mode());
    return used == ActivationMode::kFloat32 ? x : round_inputs(x, used);
  }

  void SetUp() override {
    if (!level_can_run(level())) {
      GTEST_SKIP() << why_level_is_skipped(level());
    }
  }

  ThreadPool pool_{2};
  ThreadPool serial_{1};
};

TEST_P(Matmul, AgreesWithSumsInDouble) {
  // That rows beside a row change none of its bits is the next test's.
  const std::vector<std::int64_t> row_counts =
      level_is_slow(level()) ? std::vector<std::int64_t>{1, 2, 9, 17}
                             : std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17};
  const std::vector<std::int64_t> counts =
      unit() > 32 ? std::vector<std::int64_t>{1, 3} : std::vector<std::int64_t>{1, 2, 7, 18, 53};
  for (const std::int64_t count : counts) {
    for (const std::int64_t outputs : {1, 15, 16, 17, 40, 131, 200}) {
      const std::int64_t inputs = count * unit();
      const TestMatrix matrix(encoding(), outputs, inputs, 7U + static_cast<unsigned>(outputs));
      const PackedWeight weight = pack_or_die(pool_, matrix);
      // Products of fewer rows have the first of these.
      constexpr std::int64_t kMostRows = 17;
      const Values x = random_inputs(kMostRows, inputs, static_cast<unsigned>(outputs));
      const Values seen = seen_inputs(x);
      const Values weights = seen_weights(matrix, weight, mode());
      std::vector<Exact> exact;  // [rows][outputs]
      for (std::int64_t r = 0; r < kMostRows; ++r) {
        for (std::int64_t n = 0; n < outputs; ++n) {
          exact.push_back(exact_float(&seen[static_cast<std::size_t>(r * inputs)],
                                      &weights[static_cast<std::size_t>(n * inputs)], inputs));
        }
      }
      for (const std::int64_t rows : row_counts) {
        const Product product{rows, inputs, outputs, mode()};
        const Values out = run(level(), pool_, weight, x, product);
        for (std::size_t i = 0; i < out.size(); ++i) {
          // The bound of a sum of K rounded products, doubled for scale and minimum.
          const double bound = 2 * static_cast<double>(inputs + 4) * 0x1p-24 * exact[i].magnitude;
          ASSERT_NEAR(static_cast<double>(out[i]), exact[i].value, bound + 1e-30)
              << "row " << static_cast<std::int64_t>(i) / outputs << " of " << rows << ", output "
              << static_cast<std::int64_t>(i) % outputs << " of " << outputs << ", K " << inputs;
        }
      }
    }
  }
}

TEST_P(Matmul, BitsDependOnTheRowAlone) {
  const std::int64_t inputs = inputs_near(201);
  const std::int64_t outputs = 16 * 21 + 5;
  const TestMatrix matrix(encoding(), outputs, inputs, 3);
  const PackedWeight weight = pack_or_die(pool_, matrix);
  const std::int64_t rows = 17;
  const Values x = random_inputs(rows, inputs, 5);
  const Values bias = random_inputs(1, outputs, 6);
  Product product{rows, inputs, outputs, mode(), bias.data(), true};
  const Values together = run(level(), pool_, weight, x, product, 0.3F);
  EXPECT_EQ(together, run(level(), serial_, weight, x, product, 0.3F)) << "one thread";
  for (std::int64_t count = 1; count <= 8; ++count) {
    for (std::int64_t r = 0; r + count <= rows; r += count) {
      product.rows = count;
      const Values part(x.begin() + r * inputs, x.begin() + (r + count) * inputs);
      const Values out = run(level(), pool_, weight, part, product, 0.3F);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), together.begin() + r * outputs))
          << count << " rows from " << r;
    }
  }
}

// The kernels themselves, called for every range of panels.
TEST_P(Matmul, BitsDoNotDependOnTheSplit) {
  const std::int64_t inputs = inputs_near(quantized() ? 150 : 77);
  const std::int64_t outputs = 16 * 11 - 3;
  const TestMatrix matrix(encoding(), outputs, inputs, 4);
  const PackedWeight weight = pack_or_die(pool_, matrix);
  for (const std::int64_t rows : {1, 2, 5, 13}) {
    const Values x = random_inputs(rows, inputs, 8);
    const Product product{rows, inputs, outputs, mode()};
    const Values whole = run(level(), pool_, weight, x, product);
    for (const std::int64_t height : {1, 2, 3, 5, 7}) {
      // Rows [first, first + height panels) of the matrix as a weight of their own.
      for (std::int64_t first = 0; first < outputs; first += height * kPanelOutputs) {
        const std::int64_t count = std::min(height * kPanelOutputs, outputs - first);
        const auto row_bytes = encoded_row_bytes(encoding(), inputs).value();
        const EncodedMatrix view{
            encoding(), count, inputs,
            matrix.data.data() + static_cast<std::uint64_t>(first) * row_bytes};
        const auto piece = PackedWeight::pack(pool_, &view, 1);
        ASSERT_TRUE(piece.ok());
        const Values out = run(level(), serial_, *piece, x, {rows, inputs, count, mode()});
        for (std::int64_t r = 0; r < rows; ++r) {
          ASSERT_TRUE(std::equal(out.begin() + r * count, out.begin() + (r + 1) * count,
                                 whole.begin() + r * outputs + first))
              << "panels of " << height << " from output " << first << ", row " << r;
        }
      }
    }
  }
}

TEST_P(Matmul, AddsBiasAndOldOutputWithinStrides) {
  const std::int64_t inputs = inputs_near(64);
  const std::int64_t outputs = 37;
  const TestMatrix matrix(encoding(), outputs, inputs, 9);
  const PackedWeight weight = pack_or_die(pool_, matrix);
  const std::int64_t rows = 5;
  Values x = random_inputs(rows, inputs + 3, 10);
  // What lies between rows is not read.
  for (std::int64_t r = 0; r < rows; ++r) {
    std::fill_n(x.begin() + r * (inputs + 3) + inputs, 3, std::numeric_limits<float>::quiet_NaN());
  }
  const Values bias = random_inputs(1, outputs, 11);
  Product product{rows, inputs + 3, outputs + 2, mode()};
  const Values plain = run(level(), pool_, weight, x, product, 2.5F);
  product.bias = bias.data();
  const Values with_bias = run(level(), pool_, weight, x, product, 2.5F);
  product.accumulate = true;
  const Values all = run(level(), pool_, weight, x, product, 2.5F);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t n = 0; n < outputs + 2; ++n) {
      const auto i = static_cast<std::size_t>(r * (outputs + 2) + n);
      if (n >= outputs) {  // between rows of the output nothing is written
        EXPECT_EQ(plain[i], 2.5F);
        EXPECT_EQ(all[i], 2.5F);
        continue;
      }
      const float size = std::fabs(plain[i]) + std::fabs(bias[static_cast<std::size_t>(n)]) + 2.5F;
      EXPECT_NEAR(with_bias[i], plain[i] + bias[static_cast<std::size_t>(n)], size * 3e-7F);
      EXPECT_NEAR(all[i], with_bias[i] + 2.5F, size * 3e-7F);
    }
  }
}

TEST_P(Matmul, InputsThatAreNotFiniteShow) {
  const std::int64_t inputs = inputs_near(96);
  const TestMatrix matrix(encoding(), 20, inputs, 12);
  const PackedWeight weight = pack_or_die(pool_, matrix);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Values x = random_inputs(3, inputs, 13);
    x[static_cast<std::size_t>(inputs) + 40] = bad;
    const Values out = run(level(), pool_, weight, x, {3, inputs, 20, mode()});
    for (std::size_t n = 0; n < 20; ++n) {
      EXPECT_TRUE(std::isfinite(out[n]));
      EXPECT_FALSE(std::isfinite(out[20 + n])) << n;
      EXPECT_TRUE(std::isfinite(out[40 + n]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Matmul,
                         testing::Combine(kAllLevels, testing::ValuesIn(kAllEncodings),
                                          testing::Values(ActivationMode::kFloat32,
                                                          ActivationMode::kInt8,
                                                          ActivationMode::kInt16)),
                         case_name);

class QuantizeRow : public testing::TestWithParam<IsaLevel> {};

TEST_P(QuantizeRow, IsTheReferenceBitForBit) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::int64_t inputs = 1280;
  Values x = random_inputs(1, inputs, 14);
  std::fill_n(x.begin(), 32, 0.0F);
  std::fill_n(x.begin() + 32, 32, 1e-38F);
  x[70] = std::numeric_limits<float>::infinity();
  x[100] = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(x.begin() + 128, 32, -3.0F);
  std::fill_n(x.begin() + 160, 32, std::numeric_limits<float>::max());
  for (std::size_t i = 0; i < 32; ++i) x[192 + i] = static_cast<float>(i) - 15.5F;  // ties
  x[192] = 127.0F;
  struct Rounded {
    std::vector<std::int8_t> codes;
    Values scales;
    std::vector<std::int16_t> sums;
    Values scaled_sums;
    std::vector<std::int32_t> offsets;
  };
  const auto round = [&](IsaLevel level) {
    Rounded r{std::vector<std::int8_t>(inputs), Values(inputs / 32),
              std::vector<std::int16_t>(inputs / 16), Values(inputs / 32),
              std::vector<std::int32_t>(inputs / 32)};
    op_table(level).matmul.quantize_row_int8(x.data(), inputs,
                                             {.codes = r.codes.data(),
                                              .stride = inputs,
                                              .scales = r.scales.data(),
                                              .sums = r.sums.data(),
                                              .scaled_sums = r.scaled_sums.data(),
                                              .offsets = r.offsets.data()});
    return r;
  };
  const Rounded expected = round(IsaLevel::kRef);
  const Rounded got = round(GetParam());
  EXPECT_EQ(got.codes, expected.codes);
  EXPECT_EQ(got.sums, expected.sums);
  EXPECT_EQ(bits_of(got.scales), bits_of(expected.scales));
  EXPECT_EQ(bits_of(got.scaled_sums), bits_of(expected.scaled_sums));
  EXPECT_EQ(got.offsets, expected.offsets);
  EXPECT_EQ(got.codes[0], 0);
  EXPECT_EQ(got.scales[1], 0.0F);  // too small for a scale
  EXPECT_TRUE(std::isnan(got.scales[2]));
  EXPECT_TRUE(std::isnan(got.scales[3]));
  EXPECT_EQ(got.codes[130], -127);
  EXPECT_EQ(got.sums[8], -127 * 16);
  EXPECT_EQ(got.sums[9], -127 * 16);
  EXPECT_EQ(got.offsets[4], 128 * 127 * 32);
  EXPECT_EQ(got.codes[160], 127);
  EXPECT_EQ(got.codes[192 + 1], -14);  // -14.5 to even
  EXPECT_EQ(got.codes[192 + 2], -14);  // -13.5
}

INSTANTIATE_TEST_SUITE_P(Levels, QuantizeRow, kAllLevels, level_test_name);

bool has_zero_points(Encoding encoding) {
  const WeightLayout layout = layout_of(encoding);
  return is_blocks(layout) ? is_hqq(encoding) : group_layout(layout).span == ScaleSpan::kZeroGroups;
}

// Codes at the ends of their ranges fill the 16-bit sums to the brim.
TEST_P(QuantizeRow, ExtremeCodesDoNotSaturate) {
  QUIRE_SKIP_ABSENT_LEVEL();
  ThreadPool pool(1);
  for (const Encoding encoding : kQuantizedEncodings) {
    const std::size_t inputs = encoding_traits(encoding).block_elements == 32 ? 64 : 256;
    const auto k = static_cast<std::int64_t>(inputs);
    Values largest(16);  // of an output: what its codes stand for, at most
    for (const int fill : {0x00, 0x7F, 0x80, 0x81, 0xFF}) {
      TestMatrix matrix(encoding, 16, k, 1);
      for (std::size_t i = 0; i < matrix.data.size(); ++i) {
        if (is_code_byte(matrix, i)) matrix.data[i] = static_cast<std::uint8_t>(fill);
      }
      const Values weights = matrix.decode();
      const PackedWeight weight = pack_or_die(pool, matrix);
      for (const float value : {1.0F, -1.0F}) {
        const Values x(inputs, value);
        const Values out = run(GetParam(), pool, weight, x, {1, k, 16, ActivationMode::kInt8});
        for (std::size_t n = 0; n < 16; ++n) {
          const Exact exact = exact_float(x.data(), &weights[n * inputs], k);
          // What is subtracted from codes with zero points is as large as they are.
          const float before = has_zero_points(encoding) ? largest[n] : 0.0F;
          largest[n] = std::max(before, static_cast<float>(exact.magnitude));
          EXPECT_NEAR(static_cast<double>(out[n]), exact.value, 1e-6 * double{largest[n]})
              << encoding_traits(encoding).name << ", codes of " << fill << ", output " << n;
        }
      }
    }
  }
}

TEST(MatmulParts, ShareTheirInput) {
  ThreadPool pool(2);
  const TestMatrix query(Encoding::kQ4_1, 48, 64, 17);
  const TestMatrix key(Encoding::kQ8_0, 19, 64, 18);
  const TestMatrix value(Encoding::kF32, 33, 64, 19);
  const PackedWeight weights[] = {pack_or_die(pool, query), pack_or_die(pool, key),
                                  pack_or_die(pool, value)};
  const Values x = random_inputs(7, 64, 20);
  auto workspace = Buffer::allocate(matmul_workspace_bytes(7, 64)).value();
  const IsaLevel level = available_levels().back();
  OpContext ctx{pool, op_table(level), workspace.bytes()};
  Values out(700);
  const MatmulPart parts[] = {{&weights[0], out.data(), 100},
                              {&weights[1], out.data() + 48, 100},
                              {&weights[2], out.data() + 67, 100}};
  matmul(ctx, x.data(), 64, 7, ActivationMode::kInt8, parts);
  for (std::size_t p = 0; p < 3; ++p) {
    const std::int64_t outputs = weights[p].outputs();
    const Values alone = run(level, pool, weights[p], x, {7, 64, outputs, ActivationMode::kInt8});
    for (std::int64_t r = 0; r < 7; ++r) {
      EXPECT_TRUE(std::equal(alone.begin() + r * outputs, alone.begin() + (r + 1) * outputs,
                             parts[p].out + r * 100));
    }
  }
}

TEST(Embedding, GivesTheTableExactly) {
  ThreadPool pool(2);
  OpContext ctx{pool, op_table(IsaLevel::kRef), {}};
  for (const Encoding encoding : kAllEncodings) {
    const std::int64_t cols = encoding_traits(encoding).block_elements == 256 ? 512 : 128;
    const TestMatrix matrix(encoding, 45, cols, 21);
    const PackedWeight table = pack_or_die(pool, matrix);
    const Values weights = matrix.decode();
    const TokenId ids[] = {44, 0, 17, 17};
    Values out(static_cast<std::size_t>(4 * cols));
    embedding(ctx, table, ids, 4, out.data());
    for (std::int64_t t = 0; t < 4; ++t) {
      const auto row = weights.begin() + std::int64_t{ids[t]} * cols;
      EXPECT_TRUE(std::equal(row, row + cols, out.begin() + t * cols))
          << encoding_traits(encoding).name << " token " << ids[t];
    }
  }
}

TEST(PackedWeight, RefusesWhatDoesNotFit) {
  ThreadPool pool(1);
  for (const Encoding encoding : kQuantizedEncodings) {
    TestMatrix matrix(encoding, 16, 512, 23);
    EncodedMatrix view = matrix.view();
    view.cols = encoding_traits(encoding).block_elements < 256 ? 500 : 320;
    const auto odd = PackedWeight::pack(pool, &view, 1);
    ASSERT_FALSE(odd.ok());
    EXPECT_EQ(odd.status().code(), StatusCode::kBadModel);
    EXPECT_NE(odd.status().to_string().find(encoding_traits(encoding).name), std::string::npos);
    // The last block's scale becomes infinite.
    if (!spoil_last_row(matrix)) continue;
    view = matrix.view();
    const auto infinite = PackedWeight::pack(pool, &view, 1);
    ASSERT_FALSE(infinite.ok());
    EXPECT_EQ(infinite.status().code(), StatusCode::kBadModel);
  }
}

}  // namespace matmul_test
}  // namespace quire
