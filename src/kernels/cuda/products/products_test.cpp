// Products of few rows on a GPU: what the CPU's definition gives, and a row's bits whatever else is
// computed beside it.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/matmul_test_support.h"
#include "tensor/float_convert.h"

namespace quire {
namespace cuda_products_test {

using Floats = std::vector<float>;

bool is_on_tensor_cores(Encoding encoding) {
  return cuda::multiplies_on_tensor_cores(layout_of(encoding));
}

class CudaProducts : public CudaOps {
 protected:
  // Numbers that bfloat16 has, so that rounding changes none.
  Floats rounded_numbers(std::int64_t count) {
    Floats values = numbers(count);
    for (float& value : values) value = bf16_to_float(float_to_bf16(value));
    return values;
  }

  // What the GPU rounds to bfloat16 the definition takes as it is.
  ActivationMode mode_of(const DeviceUnderTest& on) const {
    return &on == &gpu ? ActivationMode::kInt16 : ActivationMode::kFloat32;
  }

  // Products of all matrices, side by side; matrices after the first are added to what is there.
  Floats multiply(DeviceUnderTest& on, std::span<const TestMatrix> matrices, std::int64_t rows,
                  const Floats& x, const Floats& bias, const PackOptions& options = {}) {
    on.ops->begin_step();
    const std::int64_t inputs = matrices[0].cols;
    std::int64_t width = 1;  // one float behind each row
    for (const TestMatrix& matrix : matrices) width += matrix.rows;
    const auto in = on.array(x);
    const auto biases = on.array(bias);
    const auto out = on.array(Floats(static_cast<std::size_t>(rows * width), 0.5F));
    std::vector<PackedWeight> weights;
    for (const TestMatrix& matrix : matrices) weights.push_back(on.weight(matrix.view(), options));
    std::vector<MatmulPart> parts;
    std::int64_t first = 0;
    for (const PackedWeight& weight : weights) {
      parts.push_back({.weight = &weight,
                       .out = out.data() + first,
                       .out_stride = width,
                       .bias = first == 0 ? biases.data() : nullptr,
                       .accumulate = first != 0});
      first += weight.outputs();
    }
    on.ops->matmul(in.data(), inputs, rows, mode_of(on), parts, kMatmulStage);
    return out.read(*on.ops);
  }

  Floats gate(DeviceUnderTest& on, const TestMatrix& of_gate, const TestMatrix& of_up,
              std::int64_t rows, const Floats& x, const Floats& bias, GatedProducts products,
              ActivationMode mode) {
    on.ops->begin_step();
    const PackedWeight gate = on.weight(of_gate.view());
    const PackedWeight up = on.weight(of_up.view());
    const auto in = on.array(x);
    const auto biases = on.array(bias);
    const auto out = on.array(Floats(static_cast<std::size_t>(rows * of_gate.rows)));
    products.gate = &gate;
    products.up = &up;
    products.gate_bias = biases.data();
    products.up_bias = biases.data();
    on.ops->gated_matmul(in.data(), rows, mode, products, out.data(), kMatmulStage);
    return out.read(*on.ops);
  }

  void expect_products(std::span<const TestMatrix> matrices, std::int64_t rows, float tolerance,
                       const PackOptions& options = {}) {
    const Floats x = rounded_numbers(rows * matrices[0].cols);
    const Floats bias = numbers(matrices[0].rows);
    expect_alike(
        [&](DeviceUnderTest& on) { return multiply(on, matrices, rows, x, bias, options); },
        tolerance, tolerance);
  }
};

// Values of codebooks are rounded to bfloat16, sums of other weights differ by their order alone.
float tolerance_of(Encoding encoding) { return is_codebook(encoding) ? 2e-2F : 2e-4F; }

TEST_F(CudaProducts, GiveWhatTheDefinitionGives) {
  for (const Encoding encoding : kAllEncodings) {
    if (!is_on_tensor_cores(encoding)) continue;
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix matrix(encoding, 75, 768, 1);
    for (const std::int64_t rows : {1, 3, 9, 21, 50}) {
      expect_products({&matrix, 1}, rows, tolerance_of(encoding));
    }
  }
}

TEST_F(CudaProducts, TakeAnyNumberOfInputsOfDenseWeights) {
  for (const Encoding encoding : {Encoding::kF16, Encoding::kBF16}) {
    for (const std::int64_t inputs : {1, 2, 31, 77, 80, 1111}) {
      const TestMatrix matrix(encoding, 37, inputs, 2);
      expect_products({&matrix, 1}, 5, 2e-4F);
    }
  }
}

TEST(CudaBlockForm, HasTheSizesOfTheFile) {
  for (const Encoding encoding : kAllEncodings) {
    const WeightLayout layout = layout_of(encoding);
    if (!is_blocks(layout)) continue;
    const EncodingTraits& traits = encoding_traits(encoding);
    const cuda::BlockShape shape = cuda::block_shape(layout);
    EXPECT_EQ(shape.bytes, traits.block_bytes) << traits.name;
    EXPECT_EQ(shape.groups * kGroupInputs, traits.block_elements) << traits.name;
    EXPECT_EQ(cuda::fragment_form(layout).header_bytes, kPanelOutputs * traits.row_header_bytes)
        << traits.name;
  }
}

TEST_F(CudaProducts, TakeCompactBlocksThatEndInTheMiddleOfASpan) {
  const std::pair<Encoding, std::int64_t> cases[] = {
      {Encoding::kMXFP4, 32},        {Encoding::kMXFP4, 352},       {Encoding::kNVFP4, 448},
      {Encoding::kNVFP4Scaled, 64},  {Encoding::kIQ4_NL, 352},      {Encoding::kHqq2Span32, 352},
      {Encoding::kHqq3Span64, 448},  {Encoding::kHqq3Span128, 640}, {Encoding::kHqq2Span128, 384},
      {Encoding::kHqq2Span256, 768}, {Encoding::kHqq8Span128, 384}, {Encoding::kHqq4Span128, 640},
      {Encoding::kGptq2Span32, 320}, {Encoding::kGptq3Span128, 640}};
  for (const auto& [encoding, inputs] : cases) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix matrix(encoding, 37, inputs, 12);
    for (const std::int64_t rows : {5, 12, 60, 70}) expect_products({&matrix, 1}, rows, 2e-4F);
  }
}

TEST_F(CudaProducts, TakeWeightsThatAreQuantizedAtLoad) {
  for (const auto quantization : {LoadQuantization::kInt8, LoadQuantization::kInt4}) {
    for (const std::int64_t inputs : {32, 416, 1024}) {  // parts of spans, too
      const TestMatrix matrix(Encoding::kBF16, 52, inputs, 3);
      expect_products({&matrix, 1}, 6, 2e-4F, {.quantization = quantization, .done = {}});
    }
  }
}

TEST_F(CudaProducts, TakePartsOfSeveralLayouts) {
  const TestMatrix matrices[] = {
      TestMatrix(Encoding::kQ4_K, 100, 512, 4), TestMatrix(Encoding::kQ4_K, 30, 512, 5),
      TestMatrix(Encoding::kQ6_K, 48, 512, 6), TestMatrix(Encoding::kF32, 16, 512, 7)};
  for (const std::int64_t rows : {1, 12}) expect_products(matrices, rows, 2e-4F);
}

TEST_F(CudaProducts, RowHasItsBitsBesideAnyOthers) {
  constexpr std::int64_t kRows = 64;
  const std::int64_t inputs = 1024;
  const Floats x = numbers(kRows * inputs);
  const Floats bias = numbers(40);
  for (const Encoding encoding :
       {Encoding::kBF16, Encoding::kQ4_0, Encoding::kQ4_K, Encoding::kQ6_K, Encoding::kF8Row,
        Encoding::kNF4Span64, Encoding::kMXFP4, Encoding::kQ2_K, Encoding::kQ3_K, Encoding::kIQ4_XS,
        Encoding::kNVFP4Scaled, Encoding::kIQ2_XS, Encoding::kIQ1_M, Encoding::kHqq3Span64,
        Encoding::kGptq2Span128}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    const TestMatrix matrix(encoding, 40, inputs, 8);
    const Floats all = multiply(gpu, {&matrix, 1}, kRows, x, bias);
    for (const std::int64_t rows : {1, 2, 8, 10, 33}) {
      const Floats some = multiply(gpu, {&matrix, 1}, rows, x, bias);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << rows << " rows";
    }
  }
}

// Blocks that compute several panels, some blocks one more than others; units that end within a
// stage, and behind it.
TEST_F(CudaProducts, RowHasItsBitsInMatricesOfAnySize) {
  const std::pair<Encoding, std::int64_t> layouts[] = {
      {Encoding::kBF16, 96},  {Encoding::kBF16, 2090}, {Encoding::kF16, 1024},
      {Encoding::kF8Row, 96}, {Encoding::kQ8_0, 1056}, {Encoding::kQ4_0, 288},
      {Encoding::kQ4_K, 256}, {Encoding::kQ6_K, 512},  {Encoding::kNF4Nested64, 512}};
  for (const auto& [encoding, inputs] : layouts) {
    for (const std::int64_t outputs : {2600, 9000}) {
      SCOPED_TRACE(std::string(encoding_traits(encoding).name) + " of " + std::to_string(outputs));
      const TestMatrix matrix(encoding, outputs, inputs, 12);
      const Floats x = numbers(64 * inputs);
      const Floats bias = numbers(outputs);
      const Floats all = multiply(gpu, {&matrix, 1}, 64, x, bias);
      for (const std::int64_t rows : {1, 8, 9, 16, 17}) {
        const Floats some = multiply(gpu, {&matrix, 1}, rows, x, bias);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << rows << " rows";
      }
    }
  }
}

TEST_F(CudaProducts, GatedHaveTheBitsOfAnyNumberOfRows) {
  const GatedProducts kind = {.activation = Activation::kSilu};
  for (const Encoding encoding : {Encoding::kBF16, Encoding::kF8Row, Encoding::kQ4_0}) {
    const TestMatrix gate_matrix(encoding, 4400, 256, 13);
    const TestMatrix up_matrix(encoding, 4400, 256, 14);
    const Floats x = numbers(64 * 256);
    const Floats bias = numbers(4400);
    const auto run = [&](std::int64_t rows) {
      return gate(gpu, gate_matrix, up_matrix, rows, x, bias, kind, mode_of(gpu));
    };
    const Floats all = run(64);
    for (const std::int64_t rows : {1, 8, 16, 33}) {
      const Floats some = run(rows);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << rows << " rows";
    }
  }
}

TEST_F(CudaProducts, TakeInputsInAnotherOrder) {
  const TestMatrix matrix(Encoding::kUint4Zero64, 40, 256, 9);
  std::vector<std::int32_t> order(256);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), generator);
  EncodedMatrix view = matrix.view();
  view.input_order = order.data();
  for (const std::int64_t rows : {1, 40}) {
    const Floats x = rounded_numbers(rows * 256);
    expect_alike(
        [&](DeviceUnderTest& on) {
          on.ops->begin_step();
          const PackedWeight weight = on.weight(view);
          const auto in = on.array(x);
          const auto out = on.array(Floats(static_cast<std::size_t>(rows * 40)));
          const MatmulPart part = {.weight = &weight, .out = out.data(), .out_stride = 40};
          on.ops->matmul(in.data(), 256, rows, mode_of(on), {&part, 1}, kMatmulStage);
          return out.read(*on.ops);
        },
        2e-4F, 2e-4F);
  }
}

TEST_F(CudaProducts, GatedGiveWhatTheDefinitionGives) {
  const std::pair<Encoding, Encoding> pairs[] = {
      {Encoding::kBF16, Encoding::kBF16}, {Encoding::kQ4_K, Encoding::kQ4_K},
      {Encoding::kQ4_K, Encoding::kQ6_K}, {Encoding::kMXFP4, Encoding::kMXFP4},
      {Encoding::kQ2_K, Encoding::kQ2_K}, {Encoding::kF32, Encoding::kF32}};
  const GatedProducts kinds[] = {{.activation = Activation::kSilu},
                                 {.activation = Activation::kGeluTanh},
                                 {.clamped = ClampedGate{.alpha = 1.702F, .limit = 1.5F}}};
  for (const auto& [of_gate, of_up] : pairs) {
    const TestMatrix gate_matrix(of_gate, 100, 512, 10);
    const TestMatrix up_matrix(of_up, 100, 512, 11);
    for (const GatedProducts& kind : kinds) {
      for (const std::int64_t rows : {1, 20, 64}) {
        const Floats x = rounded_numbers(rows * 512);
        const Floats bias = numbers(100);
        const auto run = [&](DeviceUnderTest& on) {
          return gate(on, gate_matrix, up_matrix, rows, x, bias, kind, mode_of(on));
        };
        expect_alike(run, 1e-3F, 1e-3F);
      }
    }
  }
}

}  // namespace cuda_products_test
}  // namespace quire
