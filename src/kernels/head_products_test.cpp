// A product for each head: the bits of a product of its own, at every level, for every number of
// rows and threads.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"
#include "kernels/sizing.h"
#include "tensor/buffer.h"

namespace quire {
namespace head_products_test {

struct Case {
  Encoding encoding = Encoding::kBF16;
  std::int64_t num_heads = 5;
  std::int64_t inputs = 40;
  std::int64_t outputs = 24;
  std::int64_t copied = 8;
  ActivationMode mode = ActivationMode::kInt16;
};

class HeadProductsOp : public testing::TestWithParam<IsaLevel> {
 protected:
  static void check(const Case& c, std::int64_t rows, int threads) {
    ThreadPool pool(threads);
    std::vector<PackedWeight> weights;
    for (std::int64_t head = 0; head < c.num_heads; ++head) {
      const TestMatrix matrix(c.encoding, c.outputs, c.inputs, static_cast<unsigned>(head));
      const EncodedMatrix view = matrix.view();
      weights.push_back(std::move(PackedWeight::pack(pool, &view, 1, {})).value());
    }
    const std::int64_t x_head = c.inputs + c.copied + 3;
    const std::int64_t x_row = c.num_heads * x_head;
    const std::int64_t out_head = c.copied + c.outputs + 5;
    const std::int64_t out_row = c.num_heads * out_head + 7;
    const auto x = random_floats(static_cast<std::size_t>(rows * x_row), 1.0F, 7);
    std::vector<float> out(static_cast<std::size_t>(rows * out_row), -3.0F);
    std::vector<float> expected = out;
    Buffer memory = Buffer::allocate(head_products_workspace_bytes(
                                         rows, {.num_heads = c.num_heads, .max_inputs = c.inputs}) +
                                     matmul_workspace_bytes(1, c.inputs))
                        .value();
    OpContext ctx{pool, op_table(GetParam()), memory.bytes()};
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t head = 0; head < c.num_heads; ++head) {
        const float* const from = x.data() + row * x_row + head * x_head;
        float* const to = expected.data() + row * out_row + head * out_head;
        std::copy_n(from + c.inputs, c.copied, to);
        const MatmulPart part = {.weight = &weights[static_cast<std::size_t>(head)],
                                 .out = to + c.copied,
                                 .out_stride = c.outputs};
        matmul(ctx, from, c.inputs, 1, c.mode, std::span(&part, 1));
      }
    }
    matmul_by_head(ctx, rows, c.mode,
                   {.weights = weights,
                    .x = x.data(),
                    .x_stride = x_row,
                    .x_head_stride = x_head,
                    .copied = c.copied,
                    .out = out.data(),
                    .out_stride = out_row,
                    .out_head_stride = out_head});
    EXPECT_EQ(out, expected) << rows << " rows, " << threads << " threads";
  }
};

TEST_P(HeadProductsOp, HaveTheBitsOfEachOnItsOwn) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const std::int64_t rows : {1, 3, 70, 300}) {
    check({}, rows, 2);
    check({.encoding = Encoding::kF32, .copied = 0}, rows, 1);
    check({.encoding = Encoding::kF16, .num_heads = 33, .inputs = 16, .outputs = 12}, rows, 3);
    check({.encoding = Encoding::kQ8_0, .inputs = 64, .outputs = 48}, rows, 2);
    check({.mode = ActivationMode::kFloat32}, rows, 2);
  }
  check({.num_heads = 300, .inputs = 8, .outputs = 16}, 2, 3);
}

INSTANTIATE_TEST_SUITE_P(Levels, HeadProductsOp, kAllLevels, level_test_name);

}  // namespace head_products_test
}  // namespace quire
