// The products of a gated MLP: the same bits as both products on their own and the activation of
// their outputs, at every level and for every number of rows and threads.
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"
#include "tensor/buffer.h"

namespace quire {
namespace gated_matmul_test {

using Values = std::vector<float>;

struct Case {
  Encoding gate = Encoding::kBF16;
  Encoding up = Encoding::kBF16;
  std::int64_t width = 0;
  std::int64_t inputs = 0;
  ActivationMode mode = ActivationMode::kInt16;
  LoadQuantization quantization = LoadQuantization::kNone;
  bool bias = false;
  Activation activation = Activation::kSilu;
};

class GatedMatmul : public testing::TestWithParam<IsaLevel> {
 protected:
  const OpTable& table() const { return op_table(GetParam()); }

  PackedWeight pack(const Case& c, Encoding encoding, unsigned seed) {
    const TestMatrix matrix(encoding, c.width, c.inputs, seed);
    const EncodedMatrix view = matrix.view();
    PackOptions options;
    options.quantization = c.quantization;
    return std::move(PackedWeight::pack(pool_, &view, 1, options)).value();
  }

  // What the op is to give: two products, then the activation of whole rows.
  Values apart(const Case& c, const GatedProducts& products, const Values& x, std::int64_t rows) {
    auto workspace = Buffer::allocate(matmul_workspace_bytes(rows, c.inputs)).value();
    OpContext ctx{pool_, table(), workspace.bytes()};
    const auto count = static_cast<std::size_t>(rows * c.width);
    Values gate(count);
    Values up(count);
    Values out(count);
    const MatmulPart parts[] = {{products.gate, gate.data(), c.width, products.gate_bias},
                                {products.up, up.data(), c.width, products.up_bias}};
    matmul(ctx, x.data(), c.inputs, rows, c.mode, parts);
    const auto activate_and_mul = c.activation == Activation::kSilu
                                      ? table().rows.silu_and_mul
                                      : table().rows.gelu_tanh_and_mul;
    for (std::int64_t at = 0; at < rows * c.width; at += c.width) {
      activate_and_mul(gate.data() + at, up.data() + at, c.width, out.data() + at);
    }
    return out;
  }

  Values together(const Case& c, const GatedProducts& products, const Values& x, std::int64_t rows,
                  ThreadPool& pool) {
    const std::uint64_t bytes =
        matmul_workspace_bytes(rows, c.inputs) + gated_scratch_bytes(pool.num_threads());
    auto workspace = Buffer::allocate(bytes).value();
    OpContext ctx{pool, table(), workspace.bytes()};
    Values out(static_cast<std::size_t>(rows * c.width), kNan);
    gated_matmul(ctx, x.data(), rows, c.mode, products, out.data());
    return out;
  }

  void check(const Case& c, const std::vector<std::int64_t>& row_counts) {
    const PackedWeight gate = pack(c, c.gate, 1);
    const PackedWeight up = pack(c, c.up, 2);
    const Values gate_bias = random_floats(static_cast<std::size_t>(c.width), 1.0F, 3);
    const Values up_bias = random_floats(static_cast<std::size_t>(c.width), 1.0F, 4);
    const GatedProducts products = {.gate = &gate,
                                    .up = &up,
                                    .gate_bias = c.bias ? gate_bias.data() : nullptr,
                                    .up_bias = c.bias ? up_bias.data() : nullptr,
                                    .activation = c.activation};
    for (const std::int64_t rows : row_counts) {
      const Values x = random_floats(static_cast<std::size_t>(rows * c.inputs), 2.0F, 5);
      const Values expected = apart(c, products, x, rows);
      for (ThreadPool* pool : {&pool_, &serial_}) {
        const Values actual = together(c, products, x, rows, *pool);
        for (std::size_t i = 0; i < actual.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]),
                    std::bit_cast<std::uint32_t>(expected[i]))
              << encoding_traits(c.gate).name << ", " << rows << " rows, row "
              << static_cast<std::int64_t>(i) / c.width << ", output "
              << static_cast<std::int64_t>(i) % c.width;
        }
      }
    }
  }

  ThreadPool pool_{3};
  ThreadPool serial_{1};
};

// Chunks of rows end at 32, 48 and 96 and their multiples; a few rows may be left over.
const std::vector<std::int64_t> kRowCounts = {1, 2, 3, 4, 33, 48, 49, 98, 151};

TEST_P(GatedMatmul, EveryEncodingGivesTheBitsOfTheProductsApart) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const Encoding encoding : kAllEncodings) {
    check({.gate = encoding, .up = encoding, .width = 80, .inputs = 256}, {1, 3, 50, 98});
  }
}

TEST_P(GatedMatmul, RowsAndWidthsThatAreNoWholeChunks) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t width : {1, 16, 21, 200}) {
    check({.width = width, .inputs = 64}, kRowCounts);
    check({.gate = Encoding::kQ4_0, .up = Encoding::kQ4_0, .width = width, .inputs = 64},
          kRowCounts);
  }
}

TEST_P(GatedMatmul, MoreThanOneTileOfPanels) {
  QUIRE_SKIP_ABSENT_LEVEL();
  check({.gate = Encoding::kQ8_0, .up = Encoding::kQ8_0, .width = 2003, .inputs = 32}, {1, 16, 97});
  check({.width = 2003, .inputs = 33}, {2, 16, 97});
}

TEST_P(GatedMatmul, EveryModeAndQuantizationAtLoad) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const ActivationMode mode :
       {ActivationMode::kFloat32, ActivationMode::kInt8, ActivationMode::kInt16}) {
    check({.gate = Encoding::kQ4_1, .up = Encoding::kQ4_1, .width = 48, .inputs = 96, .mode = mode},
          {1, 7, 100});
    for (const LoadQuantization quantization : {LoadQuantization::kInt8, LoadQuantization::kInt4}) {
      check({.width = 48, .inputs = 128, .mode = mode, .quantization = quantization}, {1, 7, 100});
    }
  }
}

TEST_P(GatedMatmul, BiasesAndTheOtherActivation) {
  QUIRE_SKIP_ABSENT_LEVEL();
  check({.width = 100, .inputs = 64, .bias = true}, {1, 5, 98});
  check({.width = 100, .inputs = 64, .bias = true, .activation = Activation::kGeluTanh},
        {1, 5, 98});
}

TEST_P(GatedMatmul, MatricesOfTwoEncodings) {
  QUIRE_SKIP_ABSENT_LEVEL();
  check({.gate = Encoding::kF32, .up = Encoding::kBF16, .width = 40, .inputs = 64}, {2, 5, 98});
  check({.gate = Encoding::kQ4_K, .up = Encoding::kQ6_K, .width = 40, .inputs = 256}, {2, 5, 98});
  check({.gate = Encoding::kQ8_0, .up = Encoding::kF16, .width = 40, .inputs = 64}, {2, 5, 98});
}

INSTANTIATE_TEST_SUITE_P(Levels, GatedMatmul, kAllLevels, level_test_name);

}  // namespace gated_matmul_test
}  // namespace quire
