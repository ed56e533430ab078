// Matrix products over weights that were quantized at load, on every level and in every mode:
// against sums in double over the decoded weights, and bit for bit against themselves.
#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "tensor/buffer.h"

namespace quire {
namespace matmul_at_load_test {

using Values = std::vector<float>;
using Case = std::tuple<IsaLevel, LoadQuantization, ActivationMode>;

// A mode, and the largest error of an input relative to the largest of its group of 32.
double rounding_of(ActivationMode mode) {
  switch (mode) {
    case ActivationMode::kInt8:
      return 0.5 / 127;
    case ActivationMode::kInt16:
      return 0.5 / 32639;
    case ActivationMode::kFloat32:
      break;
  }
  return 0.0;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto [level, quantization, mode] = info.param;
  const std::string names[] = {"float", "rounded8", "rounded16"};
  return std::string(isa_level_name(level)) + "_" +
         std::string(load_quantization_name(quantization)) + "_" +
         names[mode == ActivationMode::kFloat32 ? 0 : (mode == ActivationMode::kInt8 ? 1 : 2)];
}

class MatmulAtLoad : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!level_can_run(level())) {
      GTEST_SKIP() << why_level_is_skipped(level());
    }
  }
  IsaLevel level() const { return std::get<0>(GetParam()); }
  ActivationMode mode() const { return std::get<2>(GetParam()); }

  PackedWeight pack(const TestMatrix& matrix) {
    PackOptions options;
    options.quantization = std::get<1>(GetParam());
    const EncodedMatrix view = matrix.view();
    return std::move(PackedWeight::pack(pool_, &view, 1, options)).value();
  }

  Values multiply(ThreadPool& pool, const PackedWeight& weight, const Values& x,
                  std::int64_t rows) {
    auto workspace = Buffer::allocate(matmul_workspace_bytes(rows, weight.inputs()) + 64).value();
    OpContext ctx{pool, op_table(level()), workspace.bytes()};
    Values out(static_cast<std::size_t>(rows * weight.outputs()));
    const MatmulPart part{.weight = &weight, .out = out.data(), .out_stride = weight.outputs()};
    matmul(ctx, x.data(), weight.inputs(), rows, mode(), {&part, 1});
    return out;
  }

  ThreadPool pool_{2};
  ThreadPool serial_{1};
};

Values random_inputs(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-5, 5);
  Values x(static_cast<std::size_t>(count));
  for (float& value : x) value = std::ldexp(normal(random), exponent(random));
  return x;
}

// An output in double, and what rounding may change of it.
struct Exact {
  double value = 0;
  double bound = 1e-30;
};

Exact exact_output(std::span<const float> x, std::span<const float> weights, double rounding) {
  Exact exact;
  const auto inputs = static_cast<double>(x.size());
  for (std::size_t g = 0; g < x.size(); g += 32) {
    float largest = 0;
    for (const float value : x.subspan(g, 32)) largest = std::max(largest, std::fabs(value));
    for (std::size_t k = g; k < g + 32; ++k) {
      const double w = weights[k];
      const double value = x[k];
      exact.value += w * value;
      exact.bound += std::fabs(w) * largest * rounding;
      // The rounding of a sum of K products, with room for scale and minimum.
      exact.bound += 4 * (inputs + 4) * 0x1p-24 * (std::fabs(w * value) + std::fabs(w) * largest);
    }
  }
  return exact;
}

TEST_P(MatmulAtLoad, AgreesWithSumsInDouble) {
  for (const std::int64_t inputs : {32, 128, 160, 576, 1120}) {
    for (const std::int64_t outputs : {1, 17, 83, 200}) {
      const TestMatrix matrix(Encoding::kBF16, outputs, inputs, static_cast<unsigned>(inputs));
      const PackedWeight weight = pack(matrix);
      const double rounding = rounding_of(mode_at(level(), weight.layout(), mode()));
      // Products of fewer rows have the first of these.
      constexpr std::int64_t kMostRows = 13;
      const Values x = random_inputs(kMostRows * inputs, static_cast<unsigned>(outputs));
      std::vector<Exact> exact(static_cast<std::size_t>(kMostRows * outputs));
      Values row(static_cast<std::size_t>(inputs));
      for (std::int64_t n = 0; n < outputs; ++n) {
        weight.decode_output(n, row.data());
        for (std::int64_t r = 0; r < kMostRows; ++r) {
          exact[static_cast<std::size_t>(r * outputs + n)] =
              exact_output({&x[static_cast<std::size_t>(r * inputs)], row.size()}, row, rounding);
        }
      }
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 13}) {
        const Values out = multiply(pool_, weight, x, rows);
        for (std::size_t i = 0; i < out.size(); ++i) {
          ASSERT_NEAR(out[i], exact[i].value, exact[i].bound)
              << inputs << " inputs, output " << static_cast<std::int64_t>(i) % outputs << " of "
              << outputs << ", row " << static_cast<std::int64_t>(i) / outputs << " of " << rows;
        }
      }
    }
  }
}

TEST_P(MatmulAtLoad, BitsDependOnTheRowAlone) {
  constexpr std::int64_t kInputs = 672;
  constexpr std::int64_t kOutputs = 16 * 11 + 5;
  constexpr std::int64_t kRows = 17;
  const PackedWeight weight = pack(TestMatrix(Encoding::kF32, kOutputs, kInputs, 3));
  const Values x = random_inputs(kRows * kInputs, 5);
  const Values together = multiply(pool_, weight, x, kRows);
  EXPECT_EQ(together, multiply(serial_, weight, x, kRows)) << "one thread";
  for (std::int64_t count = 1; count <= 7; ++count) {
    for (std::int64_t first = 0; first + count <= kRows; first += count) {
      const Values part(x.begin() + first * kInputs, x.begin() + (first + count) * kInputs);
      const Values out = multiply(pool_, weight, part, count);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), together.begin() + first * kOutputs))
          << count << " rows from " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, MatmulAtLoad,
    testing::Combine(kAllLevels, testing::Values(LoadQuantization::kInt8, LoadQuantization::kInt4),
                     testing::Values(ActivationMode::kFloat32, ActivationMode::kInt8,
                                     ActivationMode::kInt16)),
    case_name);

}  // namespace matmul_at_load_test
}  // namespace quire
