// The canonical form of group-quantized weights: 32 integer codes with a half-precision scale and,
// for some encodings, a half-precision minimum. Every supported block encoding is one of these
// without loss.
#pragma once

#include <cstdint>

#include "quant/encoding.h"

namespace quire {

inline constexpr int kGroupSize = 32;

// w[i] = scale * (codes[i] - zero) + minimum.
struct WeightGroup {
  std::uint16_t scale = 0;              // half bits
  std::uint16_t minimum = 0;            // half bits; +0 where the encoding has none
  std::int16_t zero = 0;                // 8 for Q4_0, else 0
  std::int16_t codes[kGroupSize] = {};  // Q8_0: -128..127; Q4_*: 0..15
};

// Reads one block of a block encoding (Q8_0, Q4_0, Q4_1).
WeightGroup read_group(Encoding encoding, const std::uint8_t* block);

}  // namespace quire
