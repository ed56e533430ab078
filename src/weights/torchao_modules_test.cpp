// torchao's plain tensors: what they stand for, and what is refused. Those that the package itself
// has written are in tests/quantized_reference_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/float_convert.h"
#include "weights/decoded_values.h"
#include "weights/fake_source.h"
#include "weights/quantized_source.h"

namespace quire {
namespace torchao_modules_test {

using ::testing::HasSubstr;

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kCols = 64;

float scale_of(std::int64_t row, std::int64_t group) {
  return 0.25F + 0.125F * static_cast<float>(row + 3 * group);
}
int code_of(std::int64_t index) { return static_cast<int>(index * 37 % 251) - 125; }
int zero_of(std::int64_t row, std::int64_t group) { return static_cast<int>(row - 2 * group) - 1; }

// Groups of 32 inputs or, with scales of float32, whole rows.
FakeSource source_of(bool by_row, bool has_zeros) {
  const std::int64_t groups = by_row ? 1 : 2;
  std::vector<std::int8_t> codes;
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    codes.push_back(static_cast<std::int8_t>(code_of(i)));
  }
  std::vector<float> floats;
  std::vector<std::uint16_t> halves;
  std::vector<std::int8_t> zeros;
  for (std::int64_t i = 0; i < kRows * groups; ++i) {
    floats.push_back(scale_of(i / groups, i % groups));
    halves.push_back(float_to_bf16(floats.back()));
    zeros.push_back(static_cast<std::int8_t>(has_zeros ? zero_of(i / groups, i % groups) : 0));
  }
  FakeSource source;
  source.add("a._weight_qdata", Encoding::kI8, {kRows, kCols}, codes);
  if (by_row) {
    source.add("a._weight_scale", Encoding::kF32, {kRows, groups}, floats);
  } else {
    source.add("a._weight_scale", Encoding::kBF16, {kRows, groups}, halves);
  }
  source.add("a._weight_zero_point", Encoding::kI8, {kRows, groups}, zeros);
  return source;
}

Result<std::unique_ptr<WeightSource>> open(FakeSource source) {
  return open_fake(std::move(source), QuantizationMethod::kTorchao, "torchao");
}

TEST(TorchaoModules, DecodeExactly) {
  for (const bool by_row : {true, false}) {
    for (const bool has_zeros : {true, false}) {
      const auto opened = open(source_of(by_row, has_zeros));
      ASSERT_TRUE(opened.ok()) << opened.status().to_string();
      ASSERT_EQ((*opened)->tensors().size(), 1U);
      const TensorInfo& tensor = (*opened)->tensors()[0];
      EXPECT_EQ(tensor.name, "a.weight");
      EXPECT_EQ(tensor.format_name(),
                by_row ? "torchao int8, one scale a row" : "torchao int8, groups of 32");
      // Zero points that are all zero cost nothing.
      if (by_row && !has_zeros) {
        EXPECT_EQ(tensor.encoding, Encoding::kInt8Row);
      }
      const std::vector<float> values = decoded_values(**opened, tensor);
      ASSERT_EQ(std::ssize(values), kRows * kCols);
      for (std::int64_t i = 0; i < std::ssize(values); ++i) {
        const std::int64_t row = i / kCols;
        const std::int64_t group = by_row ? 0 : i % kCols / 32;
        const int zero = has_zeros ? zero_of(row, group) : 0;
        ASSERT_EQ(values[static_cast<std::size_t>(i)],
                  scale_of(row, group) * static_cast<float>(code_of(i) - zero))
            << i;
      }
    }
  }
}

void expect_refused(FakeSource source, const std::vector<std::string>& words, StatusCode code) {
  const auto opened = open(std::move(source));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), code);
  for (const std::string& word : words) EXPECT_THAT(opened.status().to_string(), HasSubstr(word));
}

TEST(TorchaoModules, WhatDoesNotFitIsNamed) {
  FakeSource source = source_of(true, false);
  source.remove("a._weight_scale");
  expect_refused(std::move(source), {"a._weight_scale is missing"}, StatusCode::kBadModel);
  source = source_of(true, false);
  source.at("a._weight_zero_point").shape = {kRows};
  expect_refused(std::move(source), {"a._weight_zero_point", "expected", "found"},
                 StatusCode::kBadModel);
  source = source_of(true, false);
  source.add("a._weight_act_pre_scale", Encoding::kF32, {kCols}, std::vector<float>(kCols));
  expect_refused(std::move(source), {"a._weight_act_pre_scale", "factors of inputs"},
                 StatusCode::kUnimplemented);
}

}  // namespace torchao_modules_test
}  // namespace quire
