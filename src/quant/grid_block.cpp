#include "quant/grid_block.h"

#include <cstring>

#include "quant/grid_tables.h"
#include "quant/super_block.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

constexpr int kOctets = 4;  // of a group

std::uint32_t word_at(const std::uint8_t* from) {
  std::uint32_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// d * (2 * factor + 1) * unit for each half; exact.
void set_scales(CompactGroup& group, float scale, std::uint32_t first, std::uint32_t second,
                float unit) {
  const std::uint32_t factors[2] = {first, second};
  for (int half = 0; half < 2; ++half) {
    group.scales[half] = scale * (static_cast<float>(2 * factors[half] + 1) * unit);
    group.minima[half] = 0.0F;
  }
}

// Bit i of `signs` negates value i.
void put_signed(std::uint64_t values, std::uint32_t signs, std::int8_t* codes) {
  for (int i = 0; i < 8; ++i) {
    const auto value = static_cast<std::int8_t>(values >> (8 * i) & 255);
    codes[i] = static_cast<std::int8_t>((signs >> i & 1) != 0 ? -value : value);
  }
}

std::uint64_t two_quads(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}

// A scale's nibble g of those at `factors`.
std::uint32_t nibble(const std::uint8_t* factors, int g) {
  return static_cast<std::uint32_t>(factors[g / 2] >> (g % 2 * 4) & 15);
}

void expand_iq2_xxs(const std::uint8_t* block, float scale, int g, CompactGroup& group) {
  const std::uint8_t* indices = block + 2 + 8 * g;
  const std::uint32_t word = word_at(indices + 4);
  set_scales(group, scale, word >> 28, word >> 28, 0.125F);
  for (int i = 0; i < kOctets; ++i) {
    put_signed(kIq2XxsGrid.entries[indices[i]], eight_signs(word >> (7 * i) & 127),
               group.codes + 8 * i);
  }
}

void expand_iq2_xs(const std::uint8_t* block, float scale, int g, CompactGroup& group) {
  const std::uint8_t* factors = block + 66;
  set_scales(group, scale, nibble(factors, 2 * g), nibble(factors, 2 * g + 1), 0.125F);
  for (int i = 0; i < kOctets; ++i) {
    const std::uint32_t word = load_half_bits(block + 2 + 8 * g + 2 * i);
    put_signed(kIq2XsGrid.entries[word & 511], eight_signs(word >> 9), group.codes + 8 * i);
  }
}

void expand_iq2_s(const std::uint8_t* block, float scale, int g, CompactGroup& group) {
  const std::uint8_t* factors = block + 74;
  set_scales(group, scale, nibble(factors, 2 * g), nibble(factors, 2 * g + 1), 0.125F);
  for (int i = 0; i < kOctets; ++i) {
    const int octet = 4 * g + i;
    const int index = block[2 + octet] | (block[66 + g] >> (2 * i) & 3) << 8;
    put_signed(kIq2SGrid.entries[index], block[34 + octet], group.codes + 8 * i);
  }
}

void expand_iq3_xxs(const std::uint8_t* block, float scale, int g, CompactGroup& group) {
  const std::uint8_t* indices = block + 2 + 8 * g;
  const std::uint32_t word = word_at(block + 66 + 4 * g);
  set_scales(group, scale, word >> 28, word >> 28, 0.25F);
  for (int i = 0; i < kOctets; ++i) {
    put_signed(
        two_quads(kIq3XxsGrid.entries[indices[2 * i]], kIq3XxsGrid.entries[indices[2 * i + 1]]),
        eight_signs(word >> (7 * i) & 127), group.codes + 8 * i);
  }
}

void expand_iq3_s(const std::uint8_t* block, float scale, int g, CompactGroup& group) {
  const std::uint8_t* indices = block + 2 + 8 * g;
  const std::uint32_t factor = nibble(block + 106, g);
  set_scales(group, scale, factor, factor, 1.0F);
  const auto quad = [&](int i) {
    return kIq3SGrid.entries[indices[i] | (block[66 + g] >> i & 1) << 8];
  };
  for (int i = 0; i < kOctets; ++i) {
    put_signed(two_quads(quad(2 * i), quad(2 * i + 1)), block[74 + 4 * g + i], group.codes + 8 * i);
  }
}

// Eighths: the grid's, and one more or less.
void put_eighths(std::uint64_t values, bool is_less, std::int8_t* codes) {
  for (int i = 0; i < 8; ++i) {
    const auto value = static_cast<std::int8_t>(values >> (8 * i) & 255);
    codes[i] = static_cast<std::int8_t>(is_less ? value - 1 : value + 1);
  }
}

void expand_iq1_s(const std::uint8_t* block, float scale, int g, CompactGroup& group) {
  const std::uint32_t word = load_half_bits(block + 34 + 2 * g);
  set_scales(group, scale, word >> 12 & 7, word >> 12 & 7, 0.125F);
  for (int i = 0; i < kOctets; ++i) {
    const std::uint32_t index = block[2 + 4 * g + i] | (word >> (3 * i) & 7) << 8;
    put_eighths(kIq1Grid.entries[index], (word & 0x8000U) != 0, group.codes + 8 * i);
  }
}

void expand_iq1_m(const std::uint8_t* block, float scale, int g, CompactGroup& group) {
  const std::uint32_t factors = load_half_bits(block + 48 + g / 2 * 2);
  const int shift = g % 2 * 6;
  set_scales(group, scale, factors >> shift & 7, factors >> (shift + 3) & 7, 0.125F);
  for (int i = 0; i < kOctets; ++i) {
    const std::uint32_t bits = nibble(block + 32, 4 * g + i);
    const std::uint32_t index = block[4 * g + i] | (bits & 7) << 8;
    put_eighths(kIq1Grid.entries[index], (bits & 8) != 0, group.codes + 8 * i);
  }
}

using ExpandGroup = void (*)(const std::uint8_t* block, float scale, int g, CompactGroup& group);

ExpandGroup expander_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::kIQ2_XXS:
      return expand_iq2_xxs;
    case Encoding::kIQ2_XS:
      return expand_iq2_xs;
    case Encoding::kIQ2_S:
      return expand_iq2_s;
    case Encoding::kIQ3_XXS:
      return expand_iq3_xxs;
    case Encoding::kIQ3_S:
      return expand_iq3_s;
    case Encoding::kIQ1_S:
      return expand_iq1_s;
    default:
      return expand_iq1_m;
  }
}

}  // namespace

std::uint16_t iq1_m_scale(const std::uint8_t* block) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    bits |= static_cast<std::uint32_t>(load_half_bits(block + 48 + 2 * i) >> 12) << (4 * i);
  }
  return static_cast<std::uint16_t>(bits);
}

void expand_grid_block(Encoding encoding, const std::uint8_t* block, CompactGroup* groups) {
  const ExpandGroup expand = expander_of(encoding);
  const std::uint16_t bits =
      encoding == Encoding::kIQ1_M ? iq1_m_scale(block) : load_half_bits(block);
  const float scale = f16_to_float(bits);
  for (int g = 0; g < kMaxBlockGroups; ++g) expand(block, scale, g, groups[g]);
}

}  // namespace quire
