// Products with the largest output of each row: the outputs are those of the product alone, and the
// largest is that of the whole row, at every level and for every number of rows and threads.
#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"
#include "tensor/buffer.h"

namespace quire {
namespace matmul_and_best_test {

using Values = std::vector<float>;

class MatmulAndBest : public testing::TestWithParam<IsaLevel> {
 protected:
  const OpTable& table() const { return op_table(GetParam()); }

  Values product(const PackedWeight& weight, const Values& x, std::int64_t rows) {
    auto workspace = Buffer::allocate(matmul_workspace_bytes(rows, weight.inputs())).value();
    OpContext ctx{pool_, table(), workspace.bytes()};
    Values out(static_cast<std::size_t>(rows * weight.outputs()));
    const MatmulPart part = {.weight = &weight, .out = out.data(), .out_stride = weight.outputs()};
    matmul(ctx, x.data(), weight.inputs(), rows, ActivationMode::kInt16, std::span(&part, 1));
    return out;
  }

  // Checks both against the product alone, and returns the largest.
  std::vector<RowBest> check(const PackedWeight& weight, const Values& x, std::int64_t rows) {
    const Values expected = product(weight, x, rows);
    const std::int64_t cols = weight.outputs();
    std::vector<RowBest> best(static_cast<std::size_t>(rows));
    for (ThreadPool* pool : {&pool_, &serial_}) {
      const std::uint64_t bytes = matmul_workspace_bytes(rows, weight.inputs()) +
                                  best_scratch_bytes(rows, pool->num_threads());
      auto workspace = Buffer::allocate(bytes).value();
      OpContext ctx{*pool, table(), workspace.bytes()};
      Values out(expected.size(), kNan);
      const MatmulPart part = {.weight = &weight, .out = out.data(), .out_stride = cols};
      matmul_and_best(ctx, x.data(), weight.inputs(), rows, ActivationMode::kInt16, part,
                      best.data());
      for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(expected[i]));
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const RowBest of_row = table().rows.best_of_row(expected.data() + row * cols, cols);
        const RowBest& found = best[static_cast<std::size_t>(row)];
        EXPECT_EQ(std::isnan(found.value), std::isnan(of_row.value)) << row;
        if (std::isnan(of_row.value)) continue;
        EXPECT_EQ(found.value, of_row.value) << row;
        EXPECT_EQ(found.index, of_row.index) << row << " of " << rows << " by " << cols;
      }
    }
    return best;
  }

  // A matrix of float32 whose rows are given.
  PackedWeight pack(const Values& weights, std::int64_t cols) {
    const auto rows = static_cast<std::int64_t>(weights.size()) / cols;
    const EncodedMatrix view = {Encoding::kF32, rows, cols,
                                reinterpret_cast<const std::uint8_t*>(weights.data())};
    return std::move(PackedWeight::pack(pool_, &view, 1)).value();
  }

  ThreadPool pool_{3};
  ThreadPool serial_{1};
};

TEST_P(MatmulAndBest, FindsTheLargestOfEveryRow) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const Encoding encoding :
       {Encoding::kF32, Encoding::kBF16, Encoding::kQ8_0, Encoding::kQ4_1}) {
    for (const std::int64_t outputs : {1, 16, 17, 1000, 4001}) {
      const PackedWeight weight = pack_or_die(pool_, TestMatrix(encoding, outputs, 64, 1));
      for (const std::int64_t rows : {1, 3, 16, 50, 98}) {
        check(weight, random_floats(static_cast<std::size_t>(rows) * 64, 2.0F, 2), rows);
      }
    }
  }
}

// Each output comes again 700 outputs later, in another worker's panels.
TEST_P(MatmulAndBest, TakesTheFirstAmongEquals) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const Values once = random_floats(std::size_t{700} * 32, 1.0F, 3);
  Values weights;
  for (int i = 0; i < 4; ++i) weights.insert(weights.end(), once.begin(), once.end());
  const PackedWeight weight = pack(weights, 32);
  for (const std::int64_t rows : {1, 2, 9, 97}) {
    const Values x = random_floats(static_cast<std::size_t>(rows) * 32, 2.0F, 4);
    for (const RowBest& best : check(weight, x, rows)) EXPECT_LT(best.index, 700);
  }
  for (const RowBest& best : check(weight, Values(std::size_t{5} * 32, 0.0F), 5)) {
    EXPECT_EQ(best.index, 0);
  }
}

// One output is not a number, or all overflow.
TEST_P(MatmulAndBest, NanStaysAndRowsMayBeMinusInfinity) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const std::int64_t outputs = 900;
  Values weights = random_floats(static_cast<std::size_t>(outputs) * 32, 1.0F, 5);
  weights[std::size_t{700} * 32 + 1] = 0.0F;  // times infinity
  const PackedWeight with_nan = pack(weights, 32);
  Values x(std::size_t{5} * 32, 1.0F);
  for (std::size_t row = 0; row < 5; ++row) x[row * 32 + 1] = kInfinity;
  for (const RowBest& best : check(with_nan, x, 5)) EXPECT_TRUE(std::isnan(best.value));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i % 32 == 0 ? -3e38F : 0.5F;
  const PackedWeight lowest = pack(weights, 32);
  for (const RowBest& best : check(lowest, Values(std::size_t{5} * 32, 10.0F), 5)) {
    EXPECT_EQ(best.value, -kInfinity);
    EXPECT_EQ(best.index, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, MatmulAndBest, kAllLevels, level_test_name);

}  // namespace matmul_and_best_test
}  // namespace quire
