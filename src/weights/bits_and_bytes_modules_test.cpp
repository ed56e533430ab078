// NF4 and FP4 of bitsandbytes: matrices of every size of blocks against the published definition,
// and files whose parts do not fit each other. Those that bitsandbytes itself has written are in
// tests/quantized_reference_test.cpp.
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/codebook_groups.h"
#include "tensor/thread_pool.h"
#include "weights/decoded_values.h"
#include "weights/fake_source.h"
#include "weights/quantized_source.h"

namespace quire {
namespace bits_and_bytes_modules_test {

using testing::HasSubstr;
using Strings = std::vector<std::string>;

// Random codes and scales, and the weights that they stand for.
struct FourBits {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t block;
  bool nested;
  Codebook codebook;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<std::uint8_t> scale_bytes;
  std::vector<float> units;
  std::vector<float> map = std::vector<float>(kNestedScales, kNestedScales + 256);
  double offset = 0.078125;

  FourBits(std::int64_t r, std::int64_t c, std::int64_t b, bool n, Codebook of)
      : rows(r), cols(c), block(b), nested(n), codebook(of) {
    std::mt19937 random(7);
    codes.resize(static_cast<std::size_t>(rows * cols / 2));
    for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(random());
    std::uniform_real_distribution<float> uniform(0.01F, 1.0F);
    for (std::int64_t i = 0; i < blocks(); ++i) {
      scales.push_back(uniform(random));
      scale_bytes.push_back(static_cast<std::uint8_t>(random()));
      if (i % 256 == 0) units.push_back(uniform(random));
    }
  }

  std::int64_t blocks() const { return (rows * cols + block - 1) / block; }

  float weight(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index / block);
    float scale = scales[at];
    if (nested) {
      scale = map[scale_bytes[at]] * units[at / 256];
      scale += static_cast<float>(offset);
    }
    const int byte = codes[static_cast<std::size_t>(index / 2)];
    return codebook_table(codebook)[index % 2 == 0 ? byte >> 4 : byte & 15] * scale;
  }

  std::string state() const {
    const std::string type = codebook == Codebook::kNF4 ? "nf4" : "fp4";
    std::string text = fmt::format(
        R"({{"quant_type": "{}", "blocksize": {}, "dtype": "bfloat16", "shape": [{}, {}])", type,
        block, rows, cols);
    if (nested) {
      text += fmt::format(
          R"(, "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": {})", offset);
    }
    return text + "}";
  }

  FakeSource source() const { return source_with(state()); }
  FakeSource source_with(const std::string& state_text) const {
    FakeSource source;
    const std::string weight = "a.weight";
    source.add(weight, Encoding::kU8, {std::ssize(codes), 1}, codes);
    if (nested) {
      source.add(weight + ".absmax", Encoding::kU8, {blocks()}, scale_bytes);
      source.add(weight + ".nested_absmax", Encoding::kF32, {std::ssize(units)}, units);
      source.add(weight + ".nested_quant_map", Encoding::kF32, {256}, map);
    } else {
      source.add(weight + ".absmax", Encoding::kF32, {blocks()}, scales);
    }
    const float* table = codebook_table(codebook);
    source.add(weight + ".quant_map", Encoding::kF32, {16}, std::vector<float>(table, table + 16));
    source.add(weight + ".quant_state.bitsandbytes__" +
                   std::string(codebook == Codebook::kNF4 ? "nf4" : "fp4"),
               Encoding::kU8, {std::ssize(state_text)},
               std::vector<char>(state_text.begin(), state_text.end()));
    source.add("a.norm.weight", Encoding::kBF16, {2}, std::vector<std::uint16_t>{1, 2});
    return source;
  }
};

Result<std::unique_ptr<WeightSource>> open(FakeSource source) {
  return open_fake(std::move(source), QuantizationMethod::kBitsAndBytes, "bitsandbytes");
}

void expect_decodes(const FourBits& matrix, Encoding expected) {
  auto opened = open(matrix.source());
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const TensorInfo* tensor = (*opened)->find("a.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ((*opened)->tensors().size(), 2U);
  EXPECT_EQ(tensor->shape, (std::vector{matrix.rows, matrix.cols}));
  EXPECT_EQ(tensor->encoding, expected) << encoding_traits(tensor->encoding).name;
  const std::vector<float> values = decoded_values(**opened, *tensor);
  ASSERT_EQ(std::ssize(values), matrix.rows * matrix.cols);
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    ASSERT_EQ(values[static_cast<std::size_t>(i)], matrix.weight(i))
        << "blocks of " << matrix.block << ", output " << i / matrix.cols << ", input "
        << i % matrix.cols;
  }
}

// Rows that are no whole blocks, and whose scales' units change within a row.
TEST(BitsAndBytes, DecodesExactlyInBlocksOfAnySize) {
  for (const Codebook codebook : {Codebook::kNF4, Codebook::kFP4}) {
    for (const bool nested : {false, true}) {
      for (std::int64_t block = 64; block <= 4096; block *= 2) {
        for (const auto& [rows, cols, span] :
             {std::tuple(70, 576, 64), std::tuple(19, 2432, 128), std::tuple(21, 2048, 256),
              std::tuple(3, 40960, 256)}) {
          expect_decodes(FourBits(rows, cols, block, nested, codebook),
                         codebook_encoding(codebook, nested, std::min<std::int64_t>(span, block)));
        }
      }
    }
  }
}

// Another version's arithmetic may give a map another last bit: scales become floats, and stay
// exact.
TEST(BitsAndBytes, ScalesOfAnotherNestedMapAreKeptAsFloats) {
  FourBits matrix(70, 576, 64, true, Codebook::kNF4);
  matrix.map[3] = std::nextafter(matrix.map[3], 1.0F);
  expect_decodes(matrix, Encoding::kNF4Span64);
}

// Training with sharded parameters stores codes as numbers of another type.
TEST(BitsAndBytes, CodesMayBeStoredAsNumbersOfAnyType) {
  const FourBits matrix(70, 576, 64, true, Codebook::kNF4);
  FakeSource source = matrix.source();
  source.at("a.weight").encoding = Encoding::kBF16;
  source.at("a.weight").shape = {std::ssize(matrix.codes) / 2, 1};
  EXPECT_TRUE(open(std::move(source)).ok());
}

TEST(BitsAndBytes, SaysHowEachMatrixIsWrittenAndHowLargeItIs) {
  const FourBits matrix(64, 512, 64, true, Codebook::kNF4);
  const auto opened = open(matrix.source());
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const TensorInfo& tensor = *(*opened)->find("a.weight");
  EXPECT_EQ(tensor.format_name(), "bitsandbytes nf4, blocks of 64, double quantization");
  EXPECT_EQ(tensor.bytes(), 64U * 512 / 2 + 512 + 2 * 4 + 256 * 4 + 16 * 4 + matrix.state().size());
}

void expect_refused(FakeSource source, const Strings& words,
                    StatusCode code = StatusCode::kBadModel) {
  const auto opened = open(std::move(source));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), code);
  for (const std::string& word : words) EXPECT_THAT(opened.status().to_string(), HasSubstr(word));
}

TEST(BitsAndBytes, AMissingPartIsNamed) {
  const FourBits matrix(64, 128, 64, true, Codebook::kNF4);
  for (const std::string part : {"a.weight.absmax", "a.weight.quant_map", "a.weight.nested_absmax",
                                 "a.weight.nested_quant_map"}) {
    FakeSource source = matrix.source();
    source.remove(part);
    expect_refused(std::move(source), {"m.safetensors", part, "is missing"});
  }
  FakeSource source = matrix.source();
  source.remove("a.weight.quant_state.bitsandbytes__nf4");
  expect_refused(std::move(source), {"a.weight", "belongs to no matrix"});
}

TEST(BitsAndBytes, PartsOfAnotherShape) {
  const FourBits matrix(64, 128, 64, true, Codebook::kNF4);
  for (const std::string part : {"absmax", "nested_absmax", "nested_quant_map", "quant_map"}) {
    FakeSource source = matrix.source();
    TensorInfo& tensor = source.at("a.weight." + part);
    tensor.shape = {3};
    expect_refused(std::move(source), {part, "expected", "found"});
  }
  FakeSource source = matrix.source();
  source.at("a.weight").data = source.at("a.weight").data.first(64);
  expect_refused(std::move(source), {"64 bytes do not hold a matrix of 64 by 128"});
}

TEST(BitsAndBytes, AStateThatIsNone) {
  const FourBits matrix(64, 128, 64, false, Codebook::kNF4);
  for (const std::string state :
       {"", "[]", "{", R"({"quant_type": "nf4"})", R"({"quant_type": "nf4", "shape": [64]})",
        R"({"quant_type": "nf4", "blocksize": 64, "shape": [64, -128]})",
        R"({"quant_type": "nf4", "blocksize": "64", "shape": [64, 128]})"}) {
    expect_refused(matrix.source_with(state), {"a.weight.quant_state"});
  }
  expect_refused(matrix.source_with(std::string(5000, ' ')), {"at most 4096 bytes"});
}

TEST(BitsAndBytes, WhatIsNotComputedIsNamed) {
  const auto refuse = [](const FourBits& matrix, const std::string& state, const Strings& words) {
    expect_refused(matrix.source_with(state), words, StatusCode::kUnimplemented);
  };
  const FourBits matrix(64, 128, 64, true, Codebook::kNF4);
  refuse(matrix, R"({"quant_type": "af4", "blocksize": 64, "shape": [64, 128]})",
         {"quant_type = af4", "nf4 or fp4"});
  refuse(matrix, R"({"quant_type": "nf4", "blocksize": 32, "shape": [64, 128]})",
         {"blocksize = 32"});
  refuse(matrix, R"({"quant_type": "nf4", "blocksize": 96, "shape": [64, 128]})",
         {"blocksize = 96"});
  refuse(matrix,
         R"({"quant_type": "nf4", "blocksize": 64, "shape": [64, 128], "nested_blocksize": 128})",
         {"nested_blocksize = 128"});
  const FourBits narrow(64, 96, 64, false, Codebook::kNF4);
  refuse(narrow, narrow.state(), {"96 inputs are not supported", "multiple of 64"});
  FourBits other(64, 128, 64, false, Codebook::kFP4);
  FakeSource source = other.source();
  source.at("a.weight.quant_map").data = source.at("a.weight.absmax").data.first(64);
  expect_refused(std::move(source), {"another table than that of fp4"}, StatusCode::kUnimplemented);
}

TEST(BitsAndBytes, ScalesThatAreNotFinite) {
  FourBits matrix(64, 128, 64, false, Codebook::kNF4);
  matrix.scales[7] = INFINITY;
  const auto opened = open(matrix.source());
  ASSERT_TRUE(opened.ok());
  ThreadPool pool(2);
  const auto rows = (*opened)->rows(*(*opened)->find("a.weight"), pool);
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.status().to_string(), HasSubstr("output 3 has a scale that is not finite"));
}

}  // namespace bits_and_bytes_modules_test
}  // namespace quire
