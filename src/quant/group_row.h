// The canonical form of group-quantized weights: 32 integer codes with a half-precision scale and,
// for some encodings, a half-precision minimum, each times small integers in the encodings that
// scale twice. Every supported block encoding is one of these without loss.
#pragma once

#include <cstdint>

#include "quant/encoding.h"

namespace quire {

inline constexpr int kGroupSize = 32;
inline constexpr int kHalfGroupSize = 16;

// w[i] = scale * scale_factors[i / 16] * (codes[i] - zero) + minimum * minimum_factor
struct WeightGroup {
  std::uint16_t scale = 0;    // half bits
  std::uint16_t minimum = 0;  // half bits; +0 where the encoding has none, -dmin for Q4_K and Q5_K
  std::int16_t scale_factors[2] = {1, 1};  // Q4_K, Q5_K: 0..63, both equal; Q6_K: -128..127
  std::int16_t minimum_factor = 1;         // Q4_K, Q5_K: 0..63
  std::int16_t zero = 0;                   // Q4_0: 8, Q5_0: 16, Q6_K: 32, else 0
  std::int16_t codes[kGroupSize] = {};     // Q8_0: -128..127; else 0..15, 0..31 (Q5), 0..63 (Q6_K)
};

// Reads group `index` of a row of a block encoding: block `index`, or an eighth of block index / 8.
WeightGroup read_group(Encoding encoding, const std::uint8_t* row, std::int64_t index);

}  // namespace quire
