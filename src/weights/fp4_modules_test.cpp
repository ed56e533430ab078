// NVFP4 and MXFP4 of compressed-tensors against the published definition, and files whose parts do
// not fit each other. Those that the library itself has written are in
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
namespace fp4_modules_test {

using testing::HasSubstr;

constexpr std::int64_t kRows = 21;
constexpr std::int64_t kCols = 192;
constexpr float kE2m1[16] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, 0, -0.5F, -1, -1.5F, -2, -3, -4, -6};

struct Fp4 {
  bool nv;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  float divisor = 1234.5F;

  explicit Fp4(bool is_nv) : nv(is_nv) {
    std::mt19937 random(3);
    codes.resize(kRows * kCols / 2);
    for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(random());
    for (std::int64_t i = 0; i < kRows * kCols / group(); ++i) {
      scales.push_back(static_cast<std::uint8_t>(random() % (nv ? 0x7F : 253)));
    }
  }
  std::int64_t group() const { return nv ? 16 : 32; }

  float weight(std::int64_t index) const {
    const int byte = codes[static_cast<std::size_t>(index / 2)];
    const std::uint8_t scale = scales[static_cast<std::size_t>(index / group())];
    const float of_group =
        nv ? fp8_e4m3_to_float(scale) / divisor : std::ldexp(1.0F, int{scale} - 127);
    return kE2m1[index % 2 == 0 ? byte & 15 : byte >> 4] * of_group;
  }

  FakeSource source() const {
    FakeSource source;
    source.add("a.weight_packed", Encoding::kU8, {kRows, kCols / 2}, codes);
    source.add("a.weight_scale", nv ? Encoding::kF8E4M3 : Encoding::kU8, {kRows, kCols / group()},
               scales);
    if (!nv) return source;
    source.add("a.weight_global_scale", Encoding::kF32, {1}, std::vector<float>{divisor});
    source.add("a.input_global_scale", Encoding::kF32, {1}, std::vector<float>{1.0F});
    return source;
  }
};

Result<std::unique_ptr<WeightSource>> open(FakeSource source) {
  return open_fake(std::move(source), QuantizationMethod::kCompressedTensors, "compressed-tensors");
}

TEST(Fp4Modules, DecodeExactly) {
  for (const bool nv : {true, false}) {
    const Fp4 matrix(nv);
    const auto opened = open(matrix.source());
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    ASSERT_EQ((*opened)->tensors().size(), 1U);
    const TensorInfo& tensor = (*opened)->tensors()[0];
    EXPECT_EQ(tensor.name, "a.weight");
    EXPECT_EQ(tensor.shape, (std::vector{kRows, kCols}));
    EXPECT_EQ(tensor.format_name(), nv ? "compressed-tensors nvfp4, groups of 16"
                                       : "compressed-tensors mxfp4, groups of 32");
    const std::vector<float> values = decoded_values(**opened, tensor);
    ASSERT_EQ(std::ssize(values), kRows * kCols);
    for (std::int64_t i = 0; i < std::ssize(values); ++i) {
      ASSERT_EQ(values[static_cast<std::size_t>(i)], matrix.weight(i))
          << i / kCols << " " << i % kCols;
    }
  }
}

void expect_refused(FakeSource source, const std::vector<std::string>& words,
                    StatusCode code = StatusCode::kBadModel) {
  const auto opened = open(std::move(source));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), code);
  for (const std::string& word : words) EXPECT_THAT(opened.status().to_string(), HasSubstr(word));
}

TEST(Fp4Modules, PartsThatDoNotFitAreNamed) {
  for (const bool nv : {true, false}) {
    FakeSource source = Fp4(nv).source();
    source.remove("a.weight_scale");
    expect_refused(std::move(source), {"a.weight_scale is missing"});
    source = Fp4(nv).source();
    source.at("a.weight_scale").shape = {kRows, 5};
    expect_refused(std::move(source), {"a.weight_scale", "expected", "found"});
    source = Fp4(nv).source();
    source.at("a.weight_packed").shape = {kRows, nv ? 40 : 24};
    expect_refused(std::move(source),
                   {"a.weight_packed", "inputs are not supported", "multiple of"},
                   StatusCode::kUnimplemented);
  }
  for (const float divisor : {0.0F, -1.0F, INFINITY, NAN}) {
    Fp4 matrix(true);
    matrix.divisor = divisor;
    expect_refused(matrix.source(), {"a.weight_global_scale", "divides no scale"});
  }
}

TEST(Fp4Modules, ScalesThatAreNotFiniteOrNegative) {
  ThreadPool pool(2);
  for (const bool nv : {true, false}) {
    for (const int scale : {nv ? 0x7F : 0xFD, nv ? 0x81 : 0xFF}) {
      Fp4 matrix(nv);
      matrix.scales[static_cast<std::size_t>(kCols / matrix.group())] =
          static_cast<std::uint8_t>(scale);
      const auto opened = open(matrix.source());
      ASSERT_TRUE(opened.ok());
      const auto rows = (*opened)->rows((*opened)->tensors()[0], pool);
      ASSERT_FALSE(rows.ok());
      EXPECT_THAT(rows.status().to_string(), HasSubstr("output 1 has a scale that is not finite"));
    }
  }
}

}  // namespace fp4_modules_test
}  // namespace quire
