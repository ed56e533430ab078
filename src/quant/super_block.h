// Where the numbers of a group of 32 weights lie in a block of a K encoding (quant/encoding.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "quant/encoding.h"

namespace quire {

// Code i is nibbles[i] >> nibble_shift & 15, and above it, where the encoding has more than four
// bits, high[i] >> high_shift (& 1 for Q5_K, & 3 for Q6_K).
struct SuperGroup {
  const std::uint8_t* nibbles = nullptr;  // 32 bytes
  int nibble_shift = 0;
  const std::uint8_t* high = nullptr;  // 32 bytes
  int high_shift = 0;
  std::uint16_t scale = 0;                 // half bits
  std::uint16_t minimum = 0;               // half bits, of what is to be added
  std::int16_t scale_factors[2] = {1, 1};  // of each half of the group
  std::int16_t minimum_factor = 1;
};

inline std::uint16_t load_half_bits(const std::uint8_t* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

inline bool is_finite_half(const std::uint8_t* from) {
  return (load_half_bits(from) & 0x7C00) != 0x7C00;
}

// Eighth `g` of a block of Q4_K, Q5_K or Q6_K.
template <Encoding kEncoding>
inline SuperGroup find_super_group(const std::uint8_t* block, int g) {
  static_assert(kEncoding == Encoding::kQ4_K || kEncoding == Encoding::kQ5_K ||
                kEncoding == Encoding::kQ6_K);
  SuperGroup group;
  if constexpr (kEncoding == Encoding::kQ6_K) {
    // Each half of the block has 64 bytes of nibbles, the low ones for its first two groups and the
    // high ones for the others, and 32 bytes with two bits for each group.
    const int quarter = g % 4;
    group.nibbles = block + g / 4 * 64 + quarter % 2 * 32;
    group.nibble_shift = quarter / 2 * 4;
    group.high = block + 128 + g / 4 * 32;
    group.high_shift = 2 * quarter;
    group.scale = load_half_bits(block + 208);
    group.scale_factors[0] = static_cast<std::int8_t>(block[192 + 2 * g]);
    group.scale_factors[1] = static_cast<std::int8_t>(block[192 + 2 * g + 1]);
  } else {
    // Each 32 bytes of nibbles are two groups: the low nibbles are one, the high ones the next.
    // The high bits of group g are bit g of each of 32 bytes.
    constexpr bool kFifthBit = kEncoding == Encoding::kQ5_K;
    group.nibbles = block + (kFifthBit ? 48 : 16) + g / 2 * 32;
    group.nibble_shift = g % 2 * 4;
    if constexpr (kFifthBit) {
      group.high = block + 16;
      group.high_shift = g;
    }
    group.scale = load_half_bits(block);
    group.minimum = load_half_bits(block + 2) ^ 0x8000U;  // the file's is subtracted
    // Eight 6-bit scales and minima: those of the first four groups in the low bits of four bytes
    // each; of the others, four bits in the last four bytes and two bits above the former.
    const std::uint8_t* factors = block + 4;
    const int scale =
        g < 4 ? factors[g] & 0x3F : (factors[g + 4] & 0x0F) | (factors[g - 4] >> 6 << 4);
    const int minimum =
        g < 4 ? factors[g + 4] & 0x3F : (factors[g + 4] >> 4) | (factors[g] >> 6 << 4);
    group.scale_factors[0] = group.scale_factors[1] = static_cast<std::int16_t>(scale);
    group.minimum_factor = static_cast<std::int16_t>(minimum);
  }
  return group;
}

}  // namespace quire
