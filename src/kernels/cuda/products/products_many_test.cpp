// Products of many rows on a GPU: the bits of products of few, and about what the CPU gives.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/matmul_test_support.h"
#include "tensor/float_convert.h"

namespace quire {
namespace cuda_products_many_test {

using Floats = std::vector<float>;

// Odd sizes: tiles end with all of them.
struct Shape {
  std::int64_t outputs = 200;
  std::int64_t inputs = 768;
  std::int64_t out_stride = 203;
  std::int64_t rows = 300;
};

class CudaProductsMany : public CudaOps {
 protected:
  // Numbers that bfloat16 has, so that rounding changes none.
  Floats rounded_numbers(std::int64_t count) {
    Floats values = numbers(count);
    for (float& value : values) value = bf16_to_float(float_to_bf16(value));
    return values;
  }

  // x times the matrix with a bias, added to `before`, `rows_at_once` rows a call.
  static Floats multiply(DeviceUnderTest& on, const TestMatrix& matrix, const Shape& shape,
                         const Floats& x, const Floats& bias, const Floats& before,
                         std::int64_t rows_at_once) {
    on.ops->begin_step();
    const PackedWeight weight = on.weight(matrix.view());
    const auto inputs = on.array(x);
    const auto biases = on.array(bias);
    const auto out = on.array(before);
    for (std::int64_t row = 0; row < shape.rows; row += rows_at_once) {
      const MatmulPart part = {.weight = &weight,
                               .out = out.data() + row * shape.out_stride,
                               .out_stride = shape.out_stride,
                               .bias = biases.data(),
                               .accumulate = true};
      on.ops->matmul(inputs.data() + row * shape.inputs, shape.inputs,
                     std::min(rows_at_once, shape.rows - row), ActivationMode::kInt16, {&part, 1},
                     kMatmulStage);
    }
    return out.read(*on.ops);
  }

  static Floats gate(DeviceUnderTest& on, const TestMatrix& gate, const TestMatrix& up,
                     const Floats& x, const Floats& bias, std::int64_t rows,
                     std::int64_t rows_at_once) {
    on.ops->begin_step();
    const PackedWeight gate_weight = on.weight(gate.view());
    const PackedWeight up_weight = on.weight(up.view());
    const auto inputs = on.array(x);
    const auto biases = on.array(bias);
    const auto out = on.array(Floats(static_cast<std::size_t>(rows * gate.rows)));
    const GatedProducts products = {.gate = &gate_weight,
                                    .up = &up_weight,
                                    .gate_bias = biases.data(),
                                    .up_bias = biases.data()};
    for (std::int64_t row = 0; row < rows; row += rows_at_once) {
      on.ops->gated_matmul(inputs.data() + row * gate.cols, std::min(rows_at_once, rows - row),
                           ActivationMode::kInt16, products, out.data() + row * gate.rows,
                           kMatmulStage);
    }
    return out.read(*on.ops);
  }
};

bool is_on_tensor_cores(Encoding encoding) {
  return cuda::multiplies_on_tensor_cores(layout_of(encoding));
}

void expect_same_bits(const Floats& actual, const Floats& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << "number " << i << ": " << actual[i] << ", " << expected[i];
  }
}

TEST_F(CudaProductsMany, HaveTheBitsOfFewRows) {
  const Shape shape;
  const Floats x = rounded_numbers(shape.rows * shape.inputs);
  const Floats bias = numbers(shape.outputs);
  const Floats before = numbers(shape.rows * shape.out_stride);
  for (const Encoding encoding : kAllEncodings) {
    if (!is_on_tensor_cores(encoding)) continue;
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix matrix(encoding, shape.outputs, shape.inputs, 7);
    const Floats many = multiply(gpu, matrix, shape, x, bias, before, shape.rows);
    expect_same_bits(many, multiply(gpu, matrix, shape, x, bias, before, 17));
    expect_same_bits(many, multiply(gpu, matrix, shape, x, bias, before, 100));
  }
}

TEST_F(CudaProductsMany, HaveTheBitsOfFewRowsWhereSpansEndEarly) {
  const Shape shape = {.outputs = 72, .inputs = 352, .out_stride = 72};
  const Floats x = rounded_numbers(shape.rows * shape.inputs);
  const Floats bias = numbers(shape.outputs);
  const Floats before = numbers(shape.rows * shape.out_stride);
  for (const Encoding encoding :
       {Encoding::kMXFP4, Encoding::kIQ4_NL, Encoding::kHqq2Span32, Encoding::kHqq8Span32}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix matrix(encoding, shape.outputs, shape.inputs, 12);
    expect_same_bits(multiply(gpu, matrix, shape, x, bias, before, shape.rows),
                     multiply(gpu, matrix, shape, x, bias, before, 33));
  }
}

TEST_F(CudaProductsMany, HaveTheBitsOfFewRowsWhereResultsAreBoxes) {
  const Shape shape = {.outputs = 336, .inputs = 1000, .out_stride = 352};
  const Floats x = rounded_numbers(shape.rows * shape.inputs);
  const Floats bias = numbers(shape.outputs);
  const Floats before = numbers(shape.rows * shape.out_stride);
  for (const Encoding encoding : {Encoding::kBF16, Encoding::kF16}) {
    const TestMatrix matrix(encoding, shape.outputs, shape.inputs, 8);
    expect_same_bits(multiply(gpu, matrix, shape, x, bias, before, shape.rows),
                     multiply(gpu, matrix, shape, x, bias, before, 33));
  }
}

TEST_F(CudaProductsMany, GiveWhatTheCpuGives) {
  const Shape shape;
  const Floats x = rounded_numbers(shape.rows * shape.inputs);
  const Floats bias = numbers(shape.outputs);
  const Floats before = numbers(shape.rows * shape.out_stride);
  for (const Encoding encoding :
       {Encoding::kBF16, Encoding::kF16, Encoding::kQ8_0, Encoding::kQ4_K, Encoding::kQ6_K,
        Encoding::kF8Row, Encoding::kUint4Zero64, Encoding::kMXFP4, Encoding::kQ2_K,
        Encoding::kQ3_K, Encoding::kIQ2_S, Encoding::kHqq4Span64, Encoding::kGptq2Span64}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix matrix(encoding, shape.outputs, shape.inputs, 9);
    expect_alike(
        [&](DeviceUnderTest& on) {
          return multiply(on, matrix, shape, x, bias, before, shape.rows);
        },
        2e-3F, 2e-3F);
  }
}

TEST_F(CudaProductsMany, GatedHaveTheBitsOfFewRows) {
  const std::int64_t rows = 300;
  const std::int64_t outputs = 152;
  const std::int64_t inputs = 512;
  const Floats x = rounded_numbers(rows * inputs);
  const Floats bias = numbers(outputs);
  for (const Encoding encoding : kAllEncodings) {
    if (!is_on_tensor_cores(encoding)) continue;
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix of_gate(encoding, outputs, inputs, 10);
    const TestMatrix of_up(encoding, outputs, inputs, 11);
    const Floats many = gate(gpu, of_gate, of_up, x, bias, rows, rows);
    expect_same_bits(many, gate(gpu, of_gate, of_up, x, bias, rows, 31));
    expect_same_bits(many, gate(gpu, of_gate, of_up, x, bias, rows, 130));
  }
}

// So many tiles that the largest are chosen, and more than there are multiprocessors; the last
// blocks of outputs have none for one of the two that share rows.
TEST_F(CudaProductsMany, HaveTheBitsOfFewRowsInLargeTiles) {
  const Shape shape = {.outputs = 4136, .inputs = 256, .out_stride = 4136, .rows = 1000};
  const Floats x = rounded_numbers(shape.rows * shape.inputs);
  const Floats bias = numbers(shape.outputs);
  const Floats before = numbers(shape.rows * shape.out_stride);
  for (const Encoding encoding :
       {Encoding::kBF16, Encoding::kF16, Encoding::kQ8_0, Encoding::kQ4_0, Encoding::kQ4_1,
        Encoding::kQ4_K, Encoding::kQ6_K, Encoding::kF8Row, Encoding::kF8Block128,
        Encoding::kUint4Zero32, Encoding::kUint4Zero128, Encoding::kUint4ZeroRow}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix matrix(encoding, shape.outputs, shape.inputs, 12);
    const Floats many = multiply(gpu, matrix, shape, x, bias, before, shape.rows);
    expect_same_bits(many, multiply(gpu, matrix, shape, x, bias, before, 64));
    for (const std::int64_t rows_at_once : {65, 129, 257, 513}) {
      expect_same_bits(many, multiply(gpu, matrix, shape, x, bias, before, rows_at_once));
    }
    const TestMatrix up(encoding, shape.outputs, shape.inputs, 13);
    const Floats gated = gate(gpu, matrix, up, x, bias, shape.rows, shape.rows);
    expect_same_bits(gated, gate(gpu, matrix, up, x, bias, shape.rows, 64));
    expect_same_bits(gated, gate(gpu, matrix, up, x, bias, shape.rows, 513));
  }
}

}  // namespace cuda_products_many_test
}  // namespace quire
