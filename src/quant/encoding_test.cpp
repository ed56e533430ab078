#include "quant/encoding.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "quant/codebook_groups.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

std::vector<std::uint8_t> from_hex(std::string_view hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// The reference's decoded floats (gguf package), bit for bit.
void check_golden(Encoding encoding, const std::string& file) {
  const auto golden = read_json_file(QUIRE_SOURCE_DIR "/tests/data/quant/" + file, 1U << 24);
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  int cases = 0;
  for (const json::value& item : golden->at("cases").as_array()) {
    const auto encoded = from_hex(item.at("encoded").as_string());
    const auto decoded = from_hex(item.at("decoded").as_string());
    std::vector<float> values(decoded.size() / 4);
    decode_row(encoding, encoded.data(), static_cast<std::int64_t>(values.size()), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      float expected = 0;
      std::memcpy(&expected, decoded.data() + 4 * i, 4);
      ASSERT_EQ(values[i], expected) << item.at("name").as_string() << " element " << i;
    }
    ++cases;
  }
  EXPECT_GT(cases, 3);
}

TEST(Encoding, Q8_0DecodesAsTheReference) { check_golden(Encoding::kQ8_0, "q8_0.json"); }
TEST(Encoding, Q4_0DecodesAsTheReference) { check_golden(Encoding::kQ4_0, "q4_0.json"); }
TEST(Encoding, Q4_1DecodesAsTheReference) { check_golden(Encoding::kQ4_1, "q4_1.json"); }

TEST(Encoding, Q5_0DecodesAsTheReference) { check_golden(Encoding::kQ5_0, "q5_0.json"); }
TEST(Encoding, Q5_1DecodesAsTheReference) { check_golden(Encoding::kQ5_1, "q5_1.json"); }
TEST(Encoding, Q4_KDecodesAsTheReference) { check_golden(Encoding::kQ4_K, "q4_k.json"); }
TEST(Encoding, Q5_KDecodesAsTheReference) { check_golden(Encoding::kQ5_K, "q5_k.json"); }
TEST(Encoding, Q6_KDecodesAsTheReference) { check_golden(Encoding::kQ6_K, "q6_k.json"); }

TEST(Encoding, Q2_KDecodesAsTheReference) { check_golden(Encoding::kQ2_K, "q2_k.json"); }
TEST(Encoding, Q3_KDecodesAsTheReference) { check_golden(Encoding::kQ3_K, "q3_k.json"); }
TEST(Encoding, IQ4_NLDecodesAsTheReference) { check_golden(Encoding::kIQ4_NL, "iq4_nl.json"); }
TEST(Encoding, IQ4_XSDecodesAsTheReference) { check_golden(Encoding::kIQ4_XS, "iq4_xs.json"); }
TEST(Encoding, MXFP4DecodesAsTheReference) { check_golden(Encoding::kMXFP4, "mxfp4.json"); }
TEST(Encoding, NVFP4DecodesAsTheReference) { check_golden(Encoding::kNVFP4, "nvfp4.json"); }

TEST(Encoding, IQ2_XXSDecodesAsTheReference) { check_golden(Encoding::kIQ2_XXS, "iq2_xxs.json"); }
TEST(Encoding, IQ2_XSDecodesAsTheReference) { check_golden(Encoding::kIQ2_XS, "iq2_xs.json"); }
TEST(Encoding, IQ2_SDecodesAsTheReference) { check_golden(Encoding::kIQ2_S, "iq2_s.json"); }
TEST(Encoding, IQ3_XXSDecodesAsTheReference) { check_golden(Encoding::kIQ3_XXS, "iq3_xxs.json"); }
TEST(Encoding, IQ3_SDecodesAsTheReference) { check_golden(Encoding::kIQ3_S, "iq3_s.json"); }
TEST(Encoding, IQ1_SDecodesAsTheReference) { check_golden(Encoding::kIQ1_S, "iq1_s.json"); }
TEST(Encoding, IQ1_MDecodesAsTheReference) { check_golden(Encoding::kIQ1_M, "iq1_m.json"); }
TEST(Encoding, TQ1_0DecodesAsTheReference) { check_golden(Encoding::kTQ1_0, "tq1_0.json"); }
TEST(Encoding, TQ2_0DecodesAsTheReference) { check_golden(Encoding::kTQ2_0, "tq2_0.json"); }

// No file should hold Q8_K, so the gguf package does not decode it: w = d * q (ggml-quants.c).
TEST(Encoding, Q8_KIsScaledCodes) {
  std::vector<std::uint8_t> block(292);
  const float scale = -0.375F;
  std::memcpy(block.data(), &scale, 4);
  for (std::size_t i = 0; i < 256; ++i) block[4 + i] = static_cast<std::uint8_t>(i);
  std::vector<float> values(256);
  decode_row(Encoding::kQ8_K, block.data(), 256, values.data());
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(values[i], scale * static_cast<float>(static_cast<std::int8_t>(i)));
  }
}

TEST(Encoding, IntegersStandForTheValuesOfATable) {
  for (const Codebook codebook : {Codebook::kNF4, Codebook::kFP4}) {
    const float* table = codebook_table(codebook);
    const CodebookIntegers& integers = codebook_integers(codebook);
    const float bound = codebook == Codebook::kNF4 ? integers.unit / 2 : 0x1p-24F;
    for (int code = 0; code < 16; ++code) {
      EXPECT_LE(std::abs(integers.values[code]), kLargestCodebookInteger);
      EXPECT_NEAR(integers.unit * static_cast<float>(integers.values[code]), table[code], bound);
    }
  }
}

TEST(Encoding, RowBytesNeedWholeBlocks) {
  EXPECT_EQ(encoded_row_bytes(Encoding::kQ4_1, 64), 40U);
  EXPECT_FALSE(encoded_row_bytes(Encoding::kQ4_1, 63).has_value());
  EXPECT_EQ(encoded_row_bytes(Encoding::kQ6_K, 512), 420U);
  EXPECT_FALSE(encoded_row_bytes(Encoding::kQ6_K, 640).has_value());
  EXPECT_FALSE(encoded_row_bytes(Encoding::kF32, -1).has_value());
}

TEST(FloatConvert, EveryHalfSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0) continue;  // NaN
    EXPECT_EQ(float_to_f16(f16_to_float(half)), half);
  }
}

}  // namespace
}  // namespace quire
