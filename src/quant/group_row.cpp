#include "quant/group_row.h"

#include <cstring>

namespace quire {
namespace {

std::uint16_t load_u16(const std::uint8_t* data) {
  std::uint16_t value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

// Weight i in the low nibble of byte i, weight i + 16 in its high one.
void read_nibbles(const std::uint8_t* bytes, WeightGroup& group) {
  for (int i = 0; i < kHalfGroupSize; ++i) {
    group.codes[i] = bytes[i] & 0x0F;
    group.codes[i + kHalfGroupSize] = static_cast<std::int16_t>(bytes[i] >> 4);
  }
}

// Adds `bits` bits of byte i, from bit `shift` on, above the lowest four of code i.
void add_high_bits(const std::uint8_t* bytes, int shift, int bits, WeightGroup& group) {
  const int mask = (1 << bits) - 1;
  for (int i = 0; i < kGroupSize; ++i) {
    group.codes[i] = static_cast<std::int16_t>(group.codes[i] | ((bytes[i] >> shift & mask) << 4));
  }
}

WeightGroup read_q8_0(const std::uint8_t* block) {
  WeightGroup group;
  group.scale = load_u16(block);
  for (int i = 0; i < kGroupSize; ++i) group.codes[i] = static_cast<std::int8_t>(block[2 + i]);
  return group;
}

// Q4_0, Q4_1, Q5_0 and Q5_1: scale, then minimum and high bits where there are any, then nibbles.
WeightGroup read_nibble_block(const std::uint8_t* block, bool has_minimum, bool has_fifth_bit) {
  WeightGroup group;
  group.scale = load_u16(block);
  block += 2;
  if (has_minimum) {
    group.minimum = load_u16(block);
    block += 2;
  } else {
    group.zero = has_fifth_bit ? 16 : 8;
  }
  read_nibbles(has_fifth_bit ? block + 4 : block, group);
  if (has_fifth_bit) {
    for (int i = 0; i < kGroupSize; ++i) {
      const int bit = block[i / 8] >> (i % 8) & 1;
      group.codes[i] = static_cast<std::int16_t>(group.codes[i] | (bit << 4));
    }
  }
  return group;
}

// Eighth `g` of a Q4_K or Q5_K block. Each 32 bytes of nibbles hold two groups: the low nibbles are
// one, the high ones the next. The high bits of group g are bit g of each of 32 bytes.
WeightGroup read_q4_k_or_q5_k(const std::uint8_t* block, int g, bool has_fifth_bit) {
  WeightGroup group;
  group.scale = load_u16(block);
  group.minimum = load_u16(block + 2) ^ 0x8000U;  // it is subtracted
  const std::uint8_t* factors = block + 4;
  // Eight 6-bit scales and minima: those of the first four groups in the low bits of four bytes
  // each; of the others, four bits in the last four bytes and two bits above the former.
  int scale = 0;
  int minimum = 0;
  if (g < 4) {
    scale = factors[g] & 0x3F;
    minimum = factors[g + 4] & 0x3F;
  } else {
    scale = (factors[g + 4] & 0x0F) | (factors[g - 4] >> 6 << 4);
    minimum = (factors[g + 4] >> 4) | (factors[g] >> 6 << 4);
  }
  group.scale_factors[0] = group.scale_factors[1] = static_cast<std::int16_t>(scale);
  group.minimum_factor = static_cast<std::int16_t>(minimum);
  const std::uint8_t* nibbles = block + (has_fifth_bit ? 48 : 16) + g / 2 * kGroupSize;
  for (int i = 0; i < kGroupSize; ++i) {
    group.codes[i] = static_cast<std::int16_t>(nibbles[i] >> (g % 2 * 4) & 0x0F);
  }
  if (has_fifth_bit) add_high_bits(block + 16, g, 1, group);
  return group;
}

// Eighth `g` of a Q6_K block. Each half of the block has 64 bytes of nibbles, the low ones for its
// first two groups and the high ones for the others, and 32 bytes with two bits for each group.
WeightGroup read_q6_k(const std::uint8_t* block, int g) {
  WeightGroup group;
  group.zero = 32;
  group.scale = load_u16(block + 208);
  for (int half = 0; half < 2; ++half) {
    group.scale_factors[half] = static_cast<std::int8_t>(block[192 + 2 * g + half]);
  }
  const int quarter = g % 4;
  const std::uint8_t* nibbles = block + g / 4 * 64 + quarter % 2 * kGroupSize;
  for (int i = 0; i < kGroupSize; ++i) {
    group.codes[i] = static_cast<std::int16_t>(nibbles[i] >> (quarter / 2 * 4) & 0x0F);
  }
  add_high_bits(block + 128 + g / 4 * kGroupSize, 2 * quarter, 2, group);
  return group;
}

}  // namespace

WeightGroup read_group(Encoding encoding, const std::uint8_t* row, std::int64_t index) {
  const EncodingTraits& traits = encoding_traits(encoding);
  const std::int64_t groups = traits.block_elements / kGroupSize;
  const std::uint8_t* block = row + index / groups * traits.block_bytes;
  const int g = static_cast<int>(index % groups);
  switch (encoding) {
    case Encoding::kQ8_0:
      return read_q8_0(block);
    case Encoding::kQ4_0:
      return read_nibble_block(block, /*has_minimum=*/false, /*has_fifth_bit=*/false);
    case Encoding::kQ4_1:
      return read_nibble_block(block, /*has_minimum=*/true, /*has_fifth_bit=*/false);
    case Encoding::kQ5_0:
      return read_nibble_block(block, /*has_minimum=*/false, /*has_fifth_bit=*/true);
    case Encoding::kQ5_1:
      return read_nibble_block(block, /*has_minimum=*/true, /*has_fifth_bit=*/true);
    case Encoding::kQ4_K:
      return read_q4_k_or_q5_k(block, g, /*has_fifth_bit=*/false);
    case Encoding::kQ5_K:
      return read_q4_k_or_q5_k(block, g, /*has_fifth_bit=*/true);
    case Encoding::kQ6_K:
      return read_q6_k(block, g);
    case Encoding::kF32:
    case Encoding::kF16:
    case Encoding::kBF16:
      break;
  }
  return {};  // has no groups
}

}  // namespace quire
