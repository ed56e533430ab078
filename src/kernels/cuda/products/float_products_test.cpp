// Products with inputs in float32, and rows of embedding tables, on a GPU.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/matmul_test_support.h"

namespace quire {
namespace cuda_float_products_test {

using Floats = std::vector<float>;

class CudaFloatProducts : public CudaOps {
 protected:
  // Calls check(encoding, inputs, outputs) for every encoding.
  template <typename F>
  static void for_encodings(const F& check) {
    for (const Encoding encoding : kAllEncodings) {
      SCOPED_TRACE(encoding_traits(encoding).name);
      // Where the outputs of a panel share scales, it is whole.
      const std::int64_t outputs = encoding == Encoding::kF8Block128 ? 48 : 41;
      check(encoding, std::int64_t{768}, outputs);
      if (!is_quantized(layout_of(encoding))) check(encoding, std::int64_t{333}, outputs);
    }
  }

  static Floats multiply(DeviceUnderTest& on, const EncodedMatrix& matrix, const Floats& x,
                         bool accumulate) {
    const PackedWeight weight = on.weight(matrix);
    const std::int64_t rows = std::ssize(x) / matrix.cols;
    const std::int64_t stride = matrix.rows + 3;
    on.ops->begin_step();
    const auto inputs = on.array(x);
    const auto bias = on.array(Floats(static_cast<std::size_t>(matrix.rows), 0.25F));
    const auto out = on.array(Floats(static_cast<std::size_t>(rows * stride), 0.5F));
    const MatmulPart part = {.weight = &weight,
                             .out = out.data(),
                             .out_stride = stride,
                             .bias = accumulate ? bias.data() : nullptr,
                             .accumulate = accumulate};
    on.ops->matmul(inputs.data(), matrix.cols, rows, ActivationMode::kFloat32, {&part, 1},
                   kMatmulStage);
    return out.read(*on.ops);
  }
};

TEST_F(CudaFloatProducts, AreThoseOfTheCpu) {
  for_encodings([&](Encoding encoding, std::int64_t inputs, std::int64_t outputs) {
    const TestMatrix matrix(encoding, outputs, inputs, 3);
    for (const bool accumulate : {false, true}) {
      const Floats x = numbers(70 * inputs);
      const Floats all = multiply(gpu, matrix.view(), x, accumulate);
      const Floats expected = multiply(cpu, matrix.view(), x, accumulate);
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_NEAR(all[i], expected[i], 2e-5F * (1.0F + std::abs(expected[i]))) << "number " << i;
      }
      for (const std::int64_t rows : {1, 5, 17}) {
        const Floats some =
            multiply(gpu, matrix.view(), Floats(x.begin(), x.begin() + rows * inputs), accumulate);
        for (std::size_t i = 0; i < some.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(some[i]), std::bit_cast<std::uint32_t>(all[i]))
              << "number " << i << " of " << rows << " rows";
        }
      }
    }
  });
}

TEST_F(CudaFloatProducts, TakeAnOrderOfInputs) {
  const TestMatrix matrix(Encoding::kUint4Zero128, 40, 512, 5);
  std::vector<std::int32_t> order(512);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), generator);
  EncodedMatrix view = matrix.view();
  view.input_order = order.data();
  for (const std::int64_t rows : {3, 40}) {
    const Floats x = numbers(rows * 512);
    expect_alike([&](DeviceUnderTest& on) { return multiply(on, view, x, false); }, 2e-5F, 2e-5F);
  }
}

TEST_F(CudaFloatProducts, EmbeddingsAreTheVeryWeights) {
  for_encodings([&](Encoding encoding, std::int64_t inputs, std::int64_t outputs) {
    const TestMatrix matrix(encoding, outputs, inputs, 4);
    expect_alike(
        [&](DeviceUnderTest& on) {
          const PackedWeight table = on.weight(matrix.view());
          on.ops->begin_step();
          const auto last = static_cast<TokenId>(outputs - 1);
          const auto ids = on.array(std::vector<TokenId>{0, 3, last, 17, 17});
          const auto out = on.array(Floats(static_cast<std::size_t>(5 * inputs)));
          on.ops->embedding(table, ids.data(), 5, out.data());
          return out.read(*on.ops);
        },
        0.0F, 0.0F);
  });
}

}  // namespace cuda_float_products_test
}  // namespace quire
