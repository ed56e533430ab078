// Products of single heads on a GPU: what the CPU's definition gives, and a row's bits whatever
// other rows there are.
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/matmul_test_support.h"

namespace quire {
namespace cuda_head_products_test {

using Floats = std::vector<float>;

struct Heads {
  Encoding encoding = Encoding::kBF16;
  std::int64_t inputs = 128;
  std::int64_t outputs = 72;
  std::int64_t copied = 0;
  std::int64_t gap = 0;  // behind the heads of a row
  bool is_float = false;
};

class CudaHeadProducts : public CudaOps {
 protected:
  static constexpr std::int64_t kNumHeads = 5;

  static std::int64_t row_of(const Heads& heads) {
    return kNumHeads * (heads.inputs + heads.copied) + heads.gap;
  }

  // x: of some rows. Numbers that an op must not write are 7.
  Floats compute(DeviceUnderTest& on, const Heads& heads, const Floats& x) {
    const std::int64_t rows = std::ssize(x) / row_of(heads);
    const std::int64_t head_stride = heads.outputs + heads.copied + 4;
    std::vector<PackedWeight> weights;
    for (unsigned head = 0; head < kNumHeads; ++head) {
      const TestMatrix matrix(heads.encoding, heads.outputs, heads.inputs, head);
      weights.push_back(on.weight(matrix.view()));
    }
    on.ops->begin_step();
    const auto inputs = on.array(x);
    const auto out =
        on.array(Floats(static_cast<std::size_t>(rows * kNumHeads * head_stride), 7.0F));
    const bool is_float = &on == &cpu || heads.is_float;
    on.ops->matmul_by_head(rows, is_float ? ActivationMode::kFloat32 : ActivationMode::kInt8,
                           {.weights = weights,
                            .x = inputs.data(),
                            .x_stride = row_of(heads),
                            .x_head_stride = heads.inputs + heads.copied,
                            .copied = heads.copied,
                            .out = out.data(),
                            .out_stride = kNumHeads * head_stride,
                            .out_head_stride = head_stride},
                           kMatmulStage);
    return out.read(*on.ops);
  }

  void check(const Heads& heads) {
    constexpr std::int64_t kRows = 90;
    const Floats x = numbers(kRows * row_of(heads));
    const Floats expected = compute(cpu, heads, x);
    const Floats actual = compute(gpu, heads, x);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], heads.is_float ? 1e-4F : 0.03F) << "number " << i;
    }
    for (const std::int64_t count : {1, 7, 40}) {
      const Floats some = compute(gpu, heads, Floats(x.begin(), x.begin() + count * row_of(heads)));
      for (std::size_t i = 0; i < some.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(some[i]), std::bit_cast<std::uint32_t>(actual[i]))
            << "number " << i << " of " << count << " rows";
      }
    }
  }
};

TEST_F(CudaHeadProducts, AreThoseOfTheCpu) {
  for (const Encoding encoding : {Encoding::kBF16, Encoding::kF16, Encoding::kQ8_0, Encoding::kQ4_1,
                                  Encoding::kMXFP4, Encoding::kF32}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    for (const bool is_float : {false, true}) {
      check({.encoding = encoding, .copied = 16, .is_float = is_float});
      check({.encoding = encoding, .outputs = 48, .copied = 3, .is_float = is_float});
    }
  }
}

TEST_F(CudaHeadProducts, TakeHeadsThatLieApartAndSizesThatFillNoTile) {
  check({.gap = 8});
  check({.inputs = 50, .outputs = 40, .copied = 2});
  check({.inputs = 50, .outputs = 40, .copied = 2, .gap = 3, .is_float = true});
}

}  // namespace cuda_head_products_test
}  // namespace quire
