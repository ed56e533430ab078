// Products of e4m3 weights: every code for what it stands for, and the runs of inputs whose sums
// are scaled, of which matmul_test.cpp's matrices have one or two.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "tensor/buffer.h"

namespace quire {
namespace matmul_f8_test {

using Values = std::vector<float>;

class F8Products : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override { QUIRE_SKIP_ABSENT_LEVEL(); }

  Values multiply(const PackedWeight& weight, const Values& x, ActivationMode mode) {
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / weight.inputs();
    auto workspace = Buffer::allocate(matmul_workspace_bytes(rows, weight.inputs())).value();
    OpContext ctx{pool_, op_table(GetParam()), workspace.bytes()};
    Values out(static_cast<std::size_t>(rows * weight.outputs()));
    const MatmulPart part{&weight, out.data(), weight.outputs()};
    matmul(ctx, x.data(), weight.inputs(), rows, mode, {&part, 1});
    return out;
  }

  ThreadPool pool_{2};
};

constexpr Encoding kEncodings[] = {Encoding::kF8Row, Encoding::kF8Block128};
constexpr ActivationMode kModes[] = {ActivationMode::kFloat32, ActivationMode::kInt16};

// All codes but NaN in every row, subnormal ones among them, and scales near the ends of float's
// range.
TestMatrix matrix_of_all_codes(Encoding encoding, std::int64_t rows, std::int64_t cols) {
  TestMatrix matrix(encoding, rows, cols, 1);
  const auto block = encoding == Encoding::kF8Row ? cols : 128;
  std::size_t at = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < cols; ++k) {
      if (k % block == 0) {
        const bool shares = encoding == Encoding::kF8Block128;
        const auto which = (shares ? k / block : row) % 4;
        const float scale = which == 0   ? 0x1.8p118F
                            : which == 1 ? 0x1.8p-110F
                            : which == 2 ? -1
                                         : 3;
        std::memcpy(&matrix.data[at], &scale, sizeof(scale));
        at += sizeof(scale);
      }
      const auto code = static_cast<std::uint8_t>(row * 5 + k);
      matrix.data[at++] = (code & 0x7F) == 0x7F ? 0x01 : code;
    }
  }
  return matrix;
}

TEST_P(F8Products, OneInputGivesItsWeightsExactly) {
  constexpr std::int64_t kInputs = 384;
  constexpr std::int64_t kOutputs = 37;
  for (const Encoding encoding : kEncodings) {
    const TestMatrix matrix = matrix_of_all_codes(encoding, kOutputs, kInputs);
    const Values weights = matrix.decode();
    const PackedWeight weight = pack_or_die(pool_, matrix);
    for (const ActivationMode mode : kModes) {
      for (const std::int64_t rows : {1, 2, 3, 5, 7, 12, 61}) {
        for (std::int64_t first = 0; first < kInputs; first += 61) {
          const std::int64_t count = std::min(rows, kInputs - first);
          Values x(static_cast<std::size_t>(count * kInputs));
          for (std::int64_t r = 0; r < count; ++r) {
            x[static_cast<std::size_t>(r * kInputs + first + r)] = 1.0F;
          }
          const Values out = multiply(weight, x, mode);
          for (std::int64_t r = 0; r < count; ++r) {
            for (std::int64_t n = 0; n < kOutputs; ++n) {
              ASSERT_EQ(out[static_cast<std::size_t>(r * kOutputs + n)],
                        weights[static_cast<std::size_t>(n * kInputs + first + r)])
                  << encoding_traits(encoding).name << ", output " << n << ", input " << first + r
                  << ", " << count << " rows";
            }
          }
        }
      }
    }
  }
}

TEST_P(F8Products, BitsDependOnTheRowAlone) {
  constexpr std::int64_t kRows = 150;
  constexpr std::int64_t kOutputs = 16 * 5 + 3;
  for (const Encoding encoding : kEncodings) {
    for (const std::int64_t inputs : {640, 1408}) {
      const TestMatrix matrix(encoding, kOutputs, inputs, 2);
      const PackedWeight weight = pack_or_die(pool_, matrix);
      std::mt19937 random(3);
      std::normal_distribution<float> normal;
      Values x(static_cast<std::size_t>(kRows * inputs));
      for (float& value : x) value = normal(random);
      for (const ActivationMode mode : kModes) {
        const Values together = multiply(weight, x, mode);
        for (const std::int64_t count : {1, 2, 3, 4, 5, 6, 8, 9, 11, 14, 16, 17, 49}) {
          for (const std::int64_t first : {std::int64_t{0}, kRows - count}) {
            const Values part(x.begin() + first * inputs, x.begin() + (first + count) * inputs);
            const Values out = multiply(weight, part, mode);
            ASSERT_TRUE(std::equal(out.begin(), out.end(), together.begin() + first * kOutputs))
                << encoding_traits(encoding).name << ", " << inputs << " inputs, " << count
                << " rows from " << first;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, F8Products, kAllLevels, level_test_name);

}  // namespace matmul_f8_test
}  // namespace quire
