#include "apps/make_model/block_encoder.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

std::vector<float> bell_shaped(std::int64_t count, std::uint64_t seed) {
  std::vector<float> weights;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = -2;
    for (std::uint64_t j = 0; j < 4; ++j) {
      sum += random_uniform(seed, static_cast<std::uint64_t>(i) * 4 + j);
    }
    weights.push_back(static_cast<float>(sum * 0.035));
  }
  return weights;
}

std::vector<float> round_trip(Encoding encoding, const std::vector<float>& weights) {
  const auto count = static_cast<std::int64_t>(weights.size());
  std::vector<std::uint8_t> bytes(encoded_row_bytes(encoding, count).value());
  encode_row(encoding, weights.data(), count, bytes.data());
  std::vector<float> decoded(weights.size());
  decode_row(encoding, bytes.data(), count, decoded.data());
  return decoded;
}

struct Case {
  Encoding encoding;
  // The worst error allowed, as a share of the largest weight of its 256: half a step of the grid,
  // and what rounding the scales to halves and to 6 bits can add.
  double worst;
};

class BlockEncoder : public ::testing::TestWithParam<Case> {};

TEST_P(BlockEncoder, DecodesToWithinHalfAStep) {
  const auto [encoding, worst] = GetParam();
  ASSERT_TRUE(can_encode(encoding));
  constexpr std::int64_t kCount = 256;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> weights = bell_shaped(kCount, seed);
    const std::vector<float> decoded = round_trip(encoding, weights);
    float largest = 0;
    for (const float weight : weights) largest = std::max(largest, std::fabs(weight));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ASSERT_LE(std::fabs(weights[i] - decoded[i]), worst * largest) << "seed " << seed << " " << i;
    }
  }
}

TEST_P(BlockEncoder, KeepsZerosAndConstants) {
  const std::vector<float> zeros(256, 0.0F);
  EXPECT_EQ(round_trip(GetParam().encoding, zeros), zeros);
  for (const float constant : {0.5F, -0.25F}) {
    for (const float decoded : round_trip(GetParam().encoding, std::vector<float>(256, constant))) {
      EXPECT_NEAR(decoded, constant, std::fabs(constant) * 0.04) << constant;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Encodings, BlockEncoder,
    ::testing::Values(Case{Encoding::kF32, 0}, Case{Encoding::kF16, 0x1p-11},
                      Case{Encoding::kBF16, 0x1p-8}, Case{Encoding::kQ8_0, 0.0041},
                      Case{Encoding::kQ4_0, 0.126}, Case{Encoding::kQ4_1, 0.068},
                      Case{Encoding::kQ5_0, 0.064}, Case{Encoding::kQ4_K, 0.09},
                      Case{Encoding::kQ6_K, 0.019}),
    [](const auto& info) { return std::string(encoding_traits(info.param.encoding).name); });

}  // namespace
}  // namespace quire
