// The emulated instructions against their definitions, on cases worked out by hand.
#include "kernels/cpu/emulated_dots.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/emulated_tiles.h"
#include "kernels/cpu/tiles.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

float dot(float sum, float a0, float a1, float b0, float b1) {
  const std::uint16_t a[] = {float_to_bf16(a0), float_to_bf16(a1)};
  const std::uint16_t b[] = {float_to_bf16(b0), float_to_bf16(b1)};
  return emulated_dot_bf16(sum, a, b);
}

TEST(EmulatedDots, Bf16AddsTheUpperProductFirst) {
  EXPECT_EQ(dot(1.0F, 2.0F, 3.0F, 5.0F, 7.0F), 32.0F);
  // The lower first would give 0: 1 is lost beside 2^30.
  EXPECT_EQ(dot(0x1p30F, 1.0F, -0x1p30F, 1.0F, 1.0F), 1.0F);
  EXPECT_EQ(dot(0x1p30F, -0x1p30F, 1.0F, 1.0F, 1.0F), 0.0F);
}

TEST(EmulatedDots, Bf16RoundsEachAdditionToEven) {
  EXPECT_EQ(dot(0x1p24F, 0.0F, 1.0F, 0.0F, 1.0F), 0x1p24F);          // a tie, down
  EXPECT_EQ(dot(0x1p24F + 2, 0.0F, 1.0F, 0.0F, 1.0F), 0x1p24F + 4);  // a tie, up
  EXPECT_EQ(dot(0x1p24F, 1.0F, 1.0F, 1.0F, 1.0F), 0x1p24F);          // twice down, not once 2
}

TEST(EmulatedDots, Bf16TakesDenormalNumbersForZero) {
  EXPECT_EQ(dot(0.0F, 0.0F, 0x1p-130F, 0.0F, 0x1p10F), 0.0F);  // an input
  EXPECT_EQ(dot(0x1p-130F, 0.0F, 0.0F, 0.0F, 0.0F), 0.0F);     // the sum
  EXPECT_EQ(dot(0.0F, 0.0F, 0x1p-70F, 0.0F, 0x1p-60F), 0.0F);  // the result
  EXPECT_EQ(dot(0.0F, 0.0F, 0x1p-66F, 0.0F, 0x1p-60F), 0x1p-126F);
  EXPECT_TRUE(std::isnan(dot(0.0F, 1.0F, std::nanf(""), 1.0F, 1.0F)));
  EXPECT_EQ(dot(0.0F, 1.0F, INFINITY, 1.0F, 1.0F), INFINITY);
}

TEST(EmulatedDots, BytesAreUnsignedTimesSigned) {
  const std::uint8_t bytes[] = {255, 255, 1, 2};
  const std::int8_t signed_bytes[] = {-128, -128, 3, -4};
  EXPECT_EQ(emulated_dot_bytes(10, bytes, signed_bytes), 10 - 2 * 255 * 128 + 3 - 8);
}

// Shapes of sum, left and right: M x N, M x K, K x N in lanes of four bytes.
TileConfig shapes(int m, int n, int k) {
  TileConfig config;
  config.set(0, m, 4 * n);
  config.set(1, m, 4 * k);
  config.set(2, k, 4 * n);
  return config;
}

TEST(EmulatedTiles, BytesGiveTheMatrixProduct) {
  constexpr int kM = 3;
  constexpr int kN = 5;
  constexpr int kK = 4;
  EmulatedTiles tiles;
  const TileConfig config = shapes(kM, kN, kK);
  tiles.configure(&config);
  std::vector<std::int8_t> left(kM * kK * 4);
  std::vector<std::int8_t> right(kK * 4 * kN);  // [k / 4][n][k % 4]
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<std::int8_t>(37 * i - 100);
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = static_cast<std::int8_t>(91 * i + 5);
  std::vector<std::int32_t> sums(kM * kN, 1000);
  tiles.load(0, sums.data(), 4 * kN);
  tiles.load(1, left.data(), 4 * kK);
  tiles.load(2, right.data(), 4 * kN);
  tiles.dot_bytes(0, 1, 2);
  tiles.store(0, sums.data(), 4 * kN);
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      int expected = 1000;
      for (int k = 0; k < 4 * kK; ++k) {
        expected += left[static_cast<std::size_t>(m * 4 * kK + k)] *
                    right[static_cast<std::size_t>((k / 4 * kN + n) * 4 + k % 4)];
      }
      EXPECT_EQ(sums[static_cast<std::size_t>(m * kN + n)], expected) << m << ", " << n;
    }
  }
  tiles.zero(0);
  tiles.store(0, sums.data(), 4 * kN);
  EXPECT_EQ(sums, std::vector<std::int32_t>(kM * kN, 0));
}

// One output of K pairs.
float tile_dot(float sum, const std::vector<float>& a, const std::vector<float>& b) {
  EmulatedTiles tiles;
  const TileConfig config = shapes(1, 1, static_cast<int>(a.size()) / 2);
  tiles.configure(&config);
  std::vector<std::uint16_t> left;
  std::vector<std::uint16_t> right;
  for (const float x : a) left.push_back(float_to_bf16(x));
  for (const float x : b) right.push_back(float_to_bf16(x));
  tiles.load(0, &sum, 4);
  tiles.load(1, left.data(), 64);
  tiles.load(2, right.data(), 4);
  tiles.dot_bf16(0, 1, 2);
  tiles.store(0, &sum, 4);
  return sum;
}

TEST(EmulatedTiles, Bf16SumsEvenAndOddPositionsApart) {
  EXPECT_EQ(tile_dot(1.0F, {2, 3, 4, 5}, {7, 11, 13, 17}), 1.0F + 14 + 33 + 52 + 85);
  // Even positions sum to 1 and odd ones to 0; in the order of K, 1 would be lost.
  EXPECT_EQ(tile_dot(0.0F, {1, 0x1p30F, 0, -0x1p30F}, {1, 1, 1, 1}), 1.0F);
  // The products are summed before they meet the old sum.
  EXPECT_EQ(tile_dot(0x1p24F, {1, 1}, {1, 1}), 0x1p24F + 2);
}

TEST(EmulatedTiles, Bf16TakesDenormalNumbersForZero) {
  EXPECT_EQ(tile_dot(0.0F, {0x1p-130F, 0}, {0x1p10F, 0}), 0.0F);
  EXPECT_EQ(tile_dot(0x1p-130F, {0, 0}, {0, 0}), 0.0F);
  EXPECT_EQ(tile_dot(0.0F, {0x1p-70F, 0}, {0x1p-60F, 0}), 0.0F);
}

TEST(EmulatedTilesDeathTest, RefusesWhatTheProcessorRefuses) {
  EmulatedTiles tiles;
  EXPECT_DEATH(tiles.zero(0), "not configured");
  TileConfig config = shapes(3, 5, 4);
  tiles.configure(&config);
  EXPECT_DEATH(tiles.zero(3), "without a shape");
  EXPECT_DEATH(tiles.dot_bytes(0, 1, 1), "twice");
  EXPECT_DEATH(tiles.dot_bytes(0, 2, 1), "rows of the left");
  tiles.release();
  EXPECT_DEATH(tiles.zero(0), "not configured");
  config.set(0, 17, 64);
  EXPECT_DEATH(tiles.configure(&config), "too large");
}

}  // namespace
}  // namespace quire
