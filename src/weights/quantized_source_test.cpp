// Matrices that lie in several tensors: decoded exactly, in every bit width and order, and refused
// where their parts do not fit.
#include "weights/quantized_source.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/grouped_tensor.h"
#include "tensor/float_convert.h"
#include "tensor/thread_pool.h"
#include "weights/decoded_values.h"
#include "weights/fake_source.h"

namespace quire {
namespace quantized_source_test {

using ::testing::HasSubstr;

// What a module stands for: w = scale * (code - zero).
struct Matrix {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t span;
  int bits;
  std::vector<int> codes;     // [rows][cols]
  std::vector<float> scales;  // [rows][spans]
  std::vector<int> zeros;     // [rows][spans]
  std::vector<int> span_of;   // [cols]

  Matrix(std::int64_t r, std::int64_t c, std::int64_t s, int b, bool shuffled = false)
      : rows(r), cols(c), span(s), bits(b) {
    std::mt19937 random(static_cast<unsigned>(r * 31 + c + b));
    const int most = (1 << bits) - 1;
    for (std::int64_t i = 0; i < rows * cols; ++i)
      codes.push_back(static_cast<int>(random()) & most);
    for (std::int64_t i = 0; i < rows * spans(); ++i) {
      scales.push_back(f16_to_float(static_cast<std::uint16_t>(0x2000U + random() % 0x0FFFU)));
      zeros.push_back(1 + (static_cast<int>(random()) & most));  // as v1 stores them
    }
    for (std::int64_t k = 0; k < cols; ++k) span_of.push_back(static_cast<int>(k / span));
    if (shuffled) std::shuffle(span_of.begin(), span_of.end(), random);
  }
  std::int64_t spans() const { return cols / span; }
  float weight(std::int64_t n, std::int64_t k) const {
    const auto at = static_cast<std::size_t>(n * spans() + span_of[static_cast<std::size_t>(k)]);
    return scales[at] *
           static_cast<float>(codes[static_cast<std::size_t>(n * cols + k)] - zeros[at]);
  }
};

// Puts integer `index` of a column of words, `stride` apart.
void put(std::vector<std::uint32_t>& words, std::size_t first, std::size_t stride,
         std::size_t index, int bits, int value) {
  for (int b = 0; b < bits; ++b) {
    const std::size_t bit = index * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b);
    words[first + bit / 32 * stride] |= static_cast<std::uint32_t>(value >> b & 1) << (bit % 32);
  }
}

FakeSource gptq_source(const Matrix& m, bool v1 = true) {
  const auto rows = static_cast<std::size_t>(m.rows);
  const auto cols = static_cast<std::size_t>(m.cols);
  const auto spans = static_cast<std::size_t>(m.spans());
  const std::size_t code_words = cols * static_cast<std::size_t>(m.bits) / 32;
  const std::size_t zero_words = rows * static_cast<std::size_t>(m.bits) / 32;
  std::vector<std::uint32_t> codes(code_words * rows);
  std::vector<std::uint32_t> zeros(spans * zero_words);
  std::vector<std::uint16_t> scales(spans * rows);
  for (std::size_t n = 0; n < rows; ++n) {
    for (std::size_t k = 0; k < cols; ++k) put(codes, n, rows, k, m.bits, m.codes[n * cols + k]);
    for (std::size_t s = 0; s < spans; ++s) {
      put(zeros, s * zero_words, 1, n, m.bits, m.zeros[n * spans + s] - (v1 ? 1 : 0));
      scales[s * rows + n] = float_to_f16(m.scales[n * spans + s]);
    }
  }
  FakeSource source;
  source.add("a.norm.weight", Encoding::kF16, {2}, std::vector<std::uint16_t>{1, 2});
  source.add("a.qweight", Encoding::kI32, {std::ssize(codes) / m.rows, m.rows}, codes);
  source.add("a.qzeros", Encoding::kI32, {m.spans(), static_cast<std::int64_t>(zero_words)}, zeros);
  source.add("a.scales", Encoding::kF16, {m.spans(), m.rows}, scales);
  source.add("a.g_idx", Encoding::kI32, {m.cols}, m.span_of);
  return source;
}

QuantizationConfig gptq_config(int bits, std::int64_t group_size) {
  QuantizationConfig config;
  config.method = QuantizationMethod::kGptq;
  config.name = "gptq";
  config.where = "config.json: quantization_config";
  config.bits = bits;
  config.group_size = group_size;
  return config;
}

std::unique_ptr<WeightSource> open_or_die(FakeSource source, const QuantizationConfig& config) {
  auto opened = open_quantized(std::make_unique<FakeSource>(std::move(source)), config);
  EXPECT_TRUE(opened.ok()) << opened.status().to_string();
  return opened.ok() ? *std::move(opened) : nullptr;
}

std::vector<float> decode(const WeightSource& source, std::string_view name) {
  return decoded_values(source, *source.find(name));
}

void expect_refused(FakeSource source, const QuantizationConfig& config,
                    const std::vector<std::string>& words,
                    StatusCode code = StatusCode::kBadModel) {
  const auto opened = open_quantized(std::make_unique<FakeSource>(std::move(source)), config);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), code);
  for (const std::string& word : words) EXPECT_THAT(opened.status().to_string(), HasSubstr(word));
}

TEST(QuantizedSource, GptqDecodesExactlyInEveryWidthAndSpan) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {384, 32}, {384, 64}, {384, 96}, {384, 128}, {384, 384}, {512, 256}, {512, 512}, {320, 64}};
  for (const int bits : {2, 3, 4, 8}) {
    for (const auto& [cols, span] : shapes) {
      for (const bool v1 : {true, false}) {
        Matrix m(64, cols, span, bits);
        if (!v1) {
          for (int& zero : m.zeros) --zero;  // there is room for a zero point of 0
        }
        QuantizationConfig config = gptq_config(bits, span == cols ? -1 : span);
        config.zeros_minus_one = v1;
        const auto source = open_or_die(gptq_source(m, v1), config);
        const TensorInfo* tensor = source->find("a.weight");
        ASSERT_NE(tensor, nullptr);
        EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{64, cols}));
        EXPECT_EQ(source->tensors().size(), 2U);
        const auto got = decode(*source, "a.weight");
        for (std::size_t i = 0; i < got.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          ASSERT_EQ(got[i], m.weight(at / cols, at % cols))
              << bits << " bits, " << span << " of " << cols << ", " << i;
        }
      }
    }
  }
}

TEST(QuantizedSource, GptqDecodesExactlyInActivationOrder) {
  for (const int bits : {2, 3, 4, 8}) {
    for (const std::int64_t span : {32, 64, 128}) {
      const Matrix m(64, 384, span, bits, /*shuffled=*/true);
      const auto source = open_or_die(gptq_source(m), gptq_config(bits, span));
      const std::span<const std::int32_t> order = source->find("a.weight")->input_order;
      ASSERT_EQ(order.size(), 384U);
      const auto got = decode(*source, "a.weight");
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], m.weight(static_cast<std::int64_t>(i / 384), order[i % 384]))
            << bits << " bits, " << span << ", " << i;
      }
    }
  }
}

// Of the blocks that hold GPTQ's codes of 2 and 3 bits, those with the fewest bytes.
TEST(QuantizedSource, NarrowGptqCodesGetTheBlocksThatFitTheirRows) {
  const auto encoding = [](std::int64_t cols, std::int64_t span) {
    GroupedTensor matrix;
    matrix.cols = cols;
    matrix.span = span;
    matrix.codes.bits = 3;
    return rows_encoding(matrix);
  };
  EXPECT_EQ(encoding(128, 32), Encoding::kGptq3Span32);
  EXPECT_EQ(encoding(96, 32), Encoding::kHqq3Span32);
  EXPECT_EQ(encoding(384, 64), Encoding::kGptq3Span64);
  EXPECT_EQ(encoding(320, 64), Encoding::kHqq3Span64);
  EXPECT_EQ(encoding(384, 128), Encoding::kGptq3Span128);
  EXPECT_EQ(encoding(768, 768), Encoding::kGptq3Span256);
  EXPECT_EQ(encoding(384, 384), Encoding::kGptq3Span128);
  EXPECT_EQ(encoding(384, 96), Encoding::kGptq3Span32);
}

TEST(QuantizedSource, SaysHowEachMatrixIsWrittenAndHowLargeItIs) {
  const auto source = open_or_die(gptq_source(Matrix(64, 256, 128, 4)), gptq_config(4, 128));
  const TensorInfo& tensor = *source->find("a.weight");
  EXPECT_EQ(tensor.format_name(), "gptq int4, groups of 128");
  EXPECT_EQ(tensor.bytes(), 64U * 128 + 2 * 8 * 4 + 2 * 64 * 2 + 256 * 4);
  EXPECT_EQ(source->find("a.qweight"), nullptr);
  EXPECT_EQ(source->find("a.norm.weight")->format_name(), "F16");
}

TEST(QuantizedSource, AMissingPartIsNamed) {
  for (const std::string part : {"a.scales", "a.qzeros"}) {
    FakeSource source = gptq_source(Matrix(64, 128, 32, 4));
    source.remove(part);
    expect_refused(std::move(source), gptq_config(4, 32), {"m.safetensors", part, "is missing"});
  }
}

TEST(QuantizedSource, AMissingIndexMeansInputsInTheirOrder) {
  const Matrix m(64, 128, 32, 4);
  FakeSource source = gptq_source(m);
  source.remove("a.g_idx");
  const auto opened = open_or_die(std::move(source), gptq_config(4, 32));
  const auto got = decode(*opened, "a.weight");
  EXPECT_EQ(got[130], m.weight(1, 2));
}

TEST(QuantizedSource, ZeroPointsOfAnotherShape) {
  FakeSource source = gptq_source(Matrix(64, 128, 32, 4));
  source.at("a.qzeros").shape = {8, 4};
  expect_refused(std::move(source), gptq_config(4, 32),
                 {"a.qzeros", "expected I32 of [4, 8], found I32 of [8, 4]"});
}

TEST(QuantizedSource, ScalesThatAreNoFloats) {
  FakeSource source = gptq_source(Matrix(64, 128, 32, 4));
  source.at("a.scales").encoding = Encoding::kI32;
  expect_refused(std::move(source), gptq_config(4, 32), {"a.scales", "found I32"});
}

TEST(QuantizedSource, GroupsThatDoNotDivideTheInputs) {
  FakeSource source = gptq_source(Matrix(64, 96, 32, 4));
  source.at("a.scales").shape = {5, 64};
  expect_refused(std::move(source), gptq_config(4, 32), {"5 groups do not divide 96 inputs"});
}

TEST(QuantizedSource, GroupsOtherThanTheConfigurationSays) {
  expect_refused(gptq_source(Matrix(64, 128, 32, 4)), gptq_config(4, 64),
                 {"4 groups for 128 inputs", "group_size = 64"});
}

TEST(QuantizedSource, CodesOfOtherBitsThanTheConfigurationSays) {
  expect_refused(gptq_source(Matrix(64, 128, 32, 8)), gptq_config(4, 32),
                 {"a.qweight", "do not hold 128 inputs of 4 bits"});
  QuantizationConfig config = gptq_config(4, 32);
  config.per_module = true;  // rules for single modules
  EXPECT_NE(open_or_die(gptq_source(Matrix(64, 128, 32, 8)), config), nullptr);
}

TEST(QuantizedSource, GroupsOfTooFewInputs) {
  FakeSource source = gptq_source(Matrix(64, 96, 96, 4));
  source.at("a.scales").shape = {6, 64};
  expect_refused(std::move(source), gptq_config(4, 32), {"groups of 16 inputs are not supported"},
                 StatusCode::kUnimplemented);
}

TEST(QuantizedSource, AnIndexThatNamesGroupsThatThereAreNot) {
  Matrix m(64, 128, 32, 4);
  m.span_of[5] = 4;
  expect_refused(gptq_source(m), gptq_config(4, 32), {"a.g_idx", "group 4 of 4"});
  m.span_of[5] = -1;
  expect_refused(gptq_source(m), gptq_config(4, 32), {"a.g_idx", "group -1 of 4"});
}

TEST(QuantizedSource, AnIndexWithUnevenGroups) {
  Matrix m(64, 128, 32, 4);
  m.span_of[5] = 3;
  expect_refused(gptq_source(m), gptq_config(4, 32), {"group 0 has 31 inputs; expected 32"});
}

TEST(QuantizedSource, AMatrixThatIsThereTwice) {
  FakeSource source = gptq_source(Matrix(64, 128, 32, 4));
  source.add("a.weight", Encoding::kF16, {1, 2}, std::vector<std::uint16_t>{1, 2});
  expect_refused(std::move(source), gptq_config(4, 32), {"a.weight", "both quantized and not"});
}

TEST(QuantizedSource, IntegersThatBelongToNoMatrix) {
  FakeSource source = gptq_source(Matrix(64, 128, 32, 4));
  source.add("b.qzeros", Encoding::kI32, {1}, std::vector<std::int32_t>{1});
  expect_refused(std::move(source), gptq_config(4, 32), {"b.qzeros", "belongs to no matrix"});
}

TEST(QuantizedSource, ScalesThatAreNotFinite) {
  ThreadPool pool(2);
  Matrix m(64, 128, 32, 4);
  m.scales[7] = INFINITY;
  const auto source = open_or_die(gptq_source(m), gptq_config(4, 32));
  const auto rows = source->rows(*source->find("a.weight"), pool);
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.status().to_string(), HasSubstr("output 1 has a scale that is not finite"));
}

// compressed-tensors has scales of BF16, whose range is wider than half precision's.
TEST(QuantizedSource, ScalesOfBf16BelowHalfPrecisionStayExact) {
  QuantizationConfig config;
  config.method = QuantizationMethod::kCompressedTensors;
  config.name = "compressed-tensors";
  for (const float scale : {0.75F, 0x1.8p-20F, 0x1.82p-40F, 0x1.02p60F}) {
    FakeSource source;
    source.add("a.weight_packed", Encoding::kI32, {1, 8},
               std::vector<std::uint32_t>(8, 0x76543210U));
    source.add("a.weight_shape", Encoding::kI64, {2}, std::vector<std::int64_t>{1, 64});
    source.add("a.weight_scale", Encoding::kBF16, {1, 2},
               std::vector<std::uint16_t>{float_to_bf16(scale), float_to_bf16(scale * 0.5F)});
    const auto opened = open_or_die(std::move(source), config);
    const auto got = decode(*opened, "a.weight");
    for (std::size_t i = 0; i < 64; ++i) {
      const float expected = (i < 32 ? scale : scale * 0.5F) * (static_cast<float>(i % 8) - 8.0F);
      EXPECT_EQ(got[i], expected) << scale << " " << i;
    }
  }
}

TEST(QuantizedSource, ScalesFarApartAreRefused) {
  ThreadPool pool(2);
  QuantizationConfig config;
  config.method = QuantizationMethod::kCompressedTensors;
  FakeSource source;
  source.add("a.weight_packed", Encoding::kI32, {1, 8}, std::vector<std::uint32_t>(8));
  source.add("a.weight_shape", Encoding::kI64, {2}, std::vector<std::int64_t>{1, 64});
  source.add("a.weight_scale", Encoding::kBF16, {1, 2},
             std::vector<std::uint16_t>{float_to_bf16(0x1p30F), float_to_bf16(0x1p-30F)});
  const auto opened = open_or_die(std::move(source), config);
  const auto rows = opened->rows(*opened->find("a.weight"), pool);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().code(), StatusCode::kUnimplemented);
}

TEST(QuantizedSource, CompressedCodesOfAnotherShape) {
  QuantizationConfig config;
  config.method = QuantizationMethod::kCompressedTensors;
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{2, 64}, {1, 65}, {0, 64}, {1, -64}, {1, std::int64_t{1} << 40}}) {
    FakeSource source;
    source.add("a.weight_packed", Encoding::kI32, {1, 8}, std::vector<std::uint32_t>(8));
    source.add("a.weight_shape", Encoding::kI64, {2}, sizes);
    source.add("a.weight_scale", Encoding::kBF16, {1, 2}, std::vector<std::uint16_t>(2));
    expect_refused(std::move(source), config, {"a.weight"});
  }
}

}  // namespace quantized_source_test
}  // namespace quire
