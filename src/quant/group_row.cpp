#include "quant/group_row.h"

#include "quant/super_block.h"

namespace quire {
namespace {

// Weight i in the low nibble of byte i, weight i + 16 in its high one.
void read_nibbles(const std::uint8_t* bytes, WeightGroup& group) {
  for (int i = 0; i < kHalfGroupSize; ++i) {
    group.codes[i] = bytes[i] & 0x0F;
    group.codes[i + kHalfGroupSize] = static_cast<std::int16_t>(bytes[i] >> 4);
  }
}

WeightGroup read_q8_0(const std::uint8_t* block) {
  WeightGroup group;
  group.scale = load_half_bits(block);
  for (int i = 0; i < kGroupSize; ++i) group.codes[i] = static_cast<std::int8_t>(block[2 + i]);
  return group;
}

// Q4_0, Q4_1, Q5_0 and Q5_1: scale, then minimum and high bits where there are any, then nibbles.
WeightGroup read_nibble_block(const std::uint8_t* block, bool has_minimum, bool has_fifth_bit) {
  WeightGroup group;
  group.scale = load_half_bits(block);
  block += 2;
  if (has_minimum) {
    group.minimum = load_half_bits(block);
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

template <Encoding kEncoding>
WeightGroup read_super_group(const std::uint8_t* block, int g) {
  const SuperGroup found = find_super_group<kEncoding>(block, g);
  WeightGroup group;
  group.scale = found.scale;
  group.minimum = found.minimum;
  group.scale_factors[0] = found.scale_factors[0];
  group.scale_factors[1] = found.scale_factors[1];
  group.minimum_factor = found.minimum_factor;
  if (kEncoding == Encoding::kQ6_K) group.zero = 32;
  for (int i = 0; i < kGroupSize; ++i) {
    int code = found.nibbles[i] >> found.nibble_shift & 15;
    if constexpr (kEncoding != Encoding::kQ4_K) {
      constexpr int kMask = kEncoding == Encoding::kQ5_K ? 1 : 3;
      code |= (found.high[i] >> found.high_shift & kMask) << 4;
    }
    group.codes[i] = static_cast<std::int16_t>(code);
  }
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
      return read_super_group<Encoding::kQ4_K>(block, g);
    case Encoding::kQ5_K:
      return read_super_group<Encoding::kQ5_K>(block, g);
    case Encoding::kQ6_K:
      return read_super_group<Encoding::kQ6_K>(block, g);
    default:
      return {};  // floats, and compact blocks
  }
}

}  // namespace quire
