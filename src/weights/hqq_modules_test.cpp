// HQQ's matrices against the published definition, and files whose parts do not fit each other or
// are not read. Those that the package itself has written are in
// tests/quantized_reference_test.cpp.
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/float_convert.h"
#include "tensor/thread_pool.h"
#include "weights/decoded_values.h"
#include "weights/fake_source.h"
#include "weights/quantized_source.h"

namespace quire {
namespace hqq_modules_test {

using ::testing::HasSubstr;

constexpr std::int64_t kRows = 24;
constexpr std::int64_t kCols = 256;

struct Hqq {
  int bits;
  std::int64_t span;
  Encoding numbers = Encoding::kF16;
  std::vector<int> codes;
  std::vector<std::uint16_t> scales;
  std::vector<std::uint16_t> zeros;

  Hqq(int code_bits, std::int64_t inputs, Encoding encoding)
      : bits(code_bits), span(inputs), numbers(encoding) {
    std::mt19937 random(7);
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      codes.push_back(static_cast<int>(random() % (1U << bits)));
    }
    const auto largest = static_cast<float>(1 << bits);
    for (std::int64_t i = 0; i < groups(); ++i) {
      scales.push_back(half(0.5F / largest + static_cast<float>(random() % 1000) * 1e-5F));
      zeros.push_back(half(largest * (0.25F + static_cast<float>(random() % 1000) * 5e-4F)));
    }
  }
  std::int64_t groups() const { return kRows * kCols / span; }
  std::uint16_t half(float value) const {
    return numbers == Encoding::kF16 ? float_to_f16(value) : float_to_bf16(value);
  }
  float number(std::uint16_t bits_of) const {
    return numbers == Encoding::kF16 ? f16_to_float(bits_of) : bf16_to_float(bits_of);
  }

  float weight(std::int64_t index) const {
    const auto group = static_cast<std::size_t>(index / span);
    const auto code = static_cast<float>(codes[static_cast<std::size_t>(index)]);
    return (code - number(zeros[group])) * number(scales[group]);
  }

  // The first of the codes in a byte or word, in the highest bits, are of the first groups.
  std::vector<std::uint32_t> packed() const {
    const std::int64_t together = bits == 3 ? 10 : 8 / bits;
    const std::int64_t packed_rows = (groups() + together - 1) / together;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(packed_rows * span));
    for (std::int64_t i = 0; i < std::ssize(codes); ++i) {
      const std::int64_t place = together - 1 - i / span / packed_rows;
      words[static_cast<std::size_t>(i / span % packed_rows * span + i % span)] |=
          static_cast<std::uint32_t>(codes[static_cast<std::size_t>(i)]) << (bits * place);
    }
    return words;
  }

  FakeSource source() const {
    FakeSource source;
    const std::vector<std::uint32_t> words = packed();
    const std::vector<std::int64_t> shape = {std::ssize(words) / span, span};
    if (bits == 3) {
      source.add("a.W_q", Encoding::kI32, shape, words);
    } else {
      source.add("a.W_q", Encoding::kU8, shape,
                 std::vector<std::uint8_t>(words.begin(), words.end()));
    }
    source.add("a.scale", numbers, {groups(), 1}, scales);
    source.add("a.zero", numbers, {groups(), 1}, zeros);
    source.add("a.shape", Encoding::kI64, {2}, std::vector<std::int64_t>{kRows, kCols});
    const std::string packing = bits == 3 ? "3bit_32" : std::to_string(bits) + "bit_u8";
    source.add("a.packing", Encoding::kU8, {std::ssize(packing)},
               std::vector<char>(packing.begin(), packing.end()));
    source.add("a.nbits", Encoding::kI32, {}, std::vector<std::int32_t>{bits});
    source.add("a.axis", Encoding::kI32, {}, std::vector<std::int32_t>{1});
    source.add("a.view_as_float", Encoding::kU8, {}, std::vector<std::uint8_t>{0});
    return source;
  }
};

Result<std::unique_ptr<WeightSource>> open(FakeSource source) {
  return open_fake(std::move(source), QuantizationMethod::kHqq, "hqq");
}

TEST(HqqModules, DecodeExactly) {
  for (const int bits : {1, 2, 3, 4, 8}) {
    for (const std::int64_t span : {32, 64, 128, 256}) {
      for (const Encoding numbers : {Encoding::kF16, Encoding::kBF16}) {
        const Hqq matrix(bits, span, numbers);
        const auto opened = open(matrix.source());
        ASSERT_TRUE(opened.ok()) << opened.status().to_string();
        ASSERT_EQ((*opened)->tensors().size(), 1U);
        const TensorInfo& tensor = (*opened)->tensors()[0];
        EXPECT_EQ(tensor.name, "a.weight");
        EXPECT_EQ(tensor.shape, (std::vector{kRows, kCols}));
        EXPECT_EQ(tensor.format_name(),
                  "hqq int" + std::to_string(bits) + ", " +
                      (span == kCols ? "one scale a row" : "groups of " + std::to_string(span)));
        const std::vector<float> values = decoded_values(**opened, tensor);
        ASSERT_EQ(std::ssize(values), kRows * kCols);
        for (std::int64_t i = 0; i < std::ssize(values); ++i) {
          ASSERT_EQ(values[static_cast<std::size_t>(i)], matrix.weight(i))
              << bits << " bits, " << span << ": " << i / kCols << " " << i % kCols;
        }
      }
    }
  }
}

// Scales of bfloat16 that are beyond half precision get a factor of their row.
TEST(HqqModules, SmallScalesOfBfloat16) {
  Hqq matrix(4, 64, Encoding::kBF16);
  for (std::uint16_t& scale : matrix.scales) scale = float_to_bf16(matrix.number(scale) * 0x1p-30F);
  const auto opened = open(matrix.source());
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const std::vector<float> values = decoded_values(**opened, (*opened)->tensors()[0]);
  ASSERT_EQ(std::ssize(values), kRows * kCols);
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    ASSERT_EQ(values[static_cast<std::size_t>(i)], matrix.weight(i)) << i;
  }
}

void expect_refused(FakeSource source, const std::vector<std::string>& words,
                    StatusCode code = StatusCode::kBadModel) {
  const auto opened = open(std::move(source));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), code);
  for (const std::string& word : words) EXPECT_THAT(opened.status().to_string(), HasSubstr(word));
}

TEST(HqqModules, PartsThatDoNotFitAreNamed) {
  const Hqq matrix(4, 64, Encoding::kF16);
  for (const std::string part : {"scale", "zero", "shape", "packing"}) {
    FakeSource source = matrix.source();
    source.remove("a." + part);
    expect_refused(std::move(source), {"a." + part + " is missing"});
  }
  FakeSource source = matrix.source();
  source.at("a.W_q").shape = {matrix.groups() / 4, 128};
  expect_refused(std::move(source), {"a.scale", "expected", "found"});
  source = matrix.source();
  source.at("a.W_q").shape = {matrix.groups() / 2 - 1, 64};
  expect_refused(std::move(source), {"a.W_q", "do not hold"});
  source = matrix.source();
  source.at("a.zero").encoding = Encoding::kBF16;
  expect_refused(std::move(source), {"a.zero", "expected F16"});
  source = matrix.source();
  source.at("a.axis").shape = {2};
  source.at("a.axis").data = {};
  expect_refused(std::move(source), {"a.axis", "one number"});
}

TEST(HqqModules, WhatIsNotReadIsNamed) {
  const Hqq matrix(4, 64, Encoding::kF16);
  const auto refused = [&](const std::string& part, Encoding encoding, const auto& values,
                           std::vector<std::int64_t> shape, const std::vector<std::string>& words) {
    FakeSource source = matrix.source();
    source.remove("a." + part);
    source.add("a." + part, encoding, std::move(shape), values);
    expect_refused(std::move(source), words, StatusCode::kUnimplemented);
  };
  refused("axis", Encoding::kI32, std::vector<std::int32_t>{0}, {}, {"axis = 0", "axis = 1"});
  refused("view_as_float", Encoding::kU8, std::vector<std::uint8_t>{1}, {}, {"view_as_float = 1"});
  refused("packing", Encoding::kU8, std::vector<char>{'5', 'b'}, {2}, {"packing = 5b", "4bit_u8"});
  refused("scale_q", Encoding::kU8, std::vector<std::uint8_t>{1}, {1},
          {"a.scale_q", "quant_scale"});
  FakeSource source = matrix.source();
  source.at("a.W_q").shape = {2 * matrix.groups(), 16};
  expect_refused(std::move(source), {"groups of 16", "multiple of 32"}, StatusCode::kUnimplemented);
  source = matrix.source();
  source.at("a.W_q").shape = {24, 192};
  expect_refused(std::move(source), {"groups of 192", "from one row"}, StatusCode::kUnimplemented);
}

TEST(HqqModules, NumbersThatAreNotFinite) {
  ThreadPool pool(2);
  for (const bool of_scales : {true, false}) {
    Hqq matrix(4, 64, Encoding::kF16);
    (of_scales ? matrix.scales : matrix.zeros)[kCols / 64] = 0x7C00;
    const auto opened = open(matrix.source());
    ASSERT_TRUE(opened.ok());
    const auto rows = (*opened)->rows((*opened)->tensors()[0], pool);
    ASSERT_FALSE(rows.ok());
    EXPECT_THAT(rows.status().to_string(), HasSubstr("output 1 has a"));
    EXPECT_THAT(rows.status().to_string(), HasSubstr("not finite"));
  }
}

}  // namespace hqq_modules_test
}  // namespace quire
