#include "quant/compact_block.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "quant/grid_block.h"
#include "quant/hqq_block.h"
#include "quant/super_block.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

float half_at(const std::uint8_t* from) { return f16_to_float(load_half_bits(from)); }

void set_scale(CompactGroup& group, float scale) {
  group.scales[0] = group.scales[1] = scale;
  group.minima[0] = group.minima[1] = 0.0F;
}

// Code i of group g of a block whose 2-bit codes lie as those of Q2_K, Q3_K and TQ2_0: each 32
// bytes are four groups, the first in the lowest bits.
int two_bits(const std::uint8_t* codes, int g, int i) {
  return codes[g / 4 * 32 + i] >> (2 * (g % 4)) & 3;
}

void expand_q2_k(const std::uint8_t* block, CompactGroup* groups) {
  const float scale = half_at(block + 80);
  const float minimum = half_at(block + 82);
  for (int g = 0; g < 8; ++g) {
    CompactGroup& group = groups[g];
    for (int half = 0; half < 2; ++half) {
      const int factors = block[2 * g + half];
      group.scales[half] = scale * static_cast<float>(factors & 15);
      group.minima[half] = -(minimum * static_cast<float>(factors >> 4));
    }
    for (int i = 0; i < kGroupSize; ++i) {
      group.codes[i] = static_cast<std::int8_t>(two_bits(block + 16, g, i));
    }
  }
}

// Factor i of Q3_K: four bits in the nibbles of eight bytes, two above them in the next four.
int q3_factor(const std::uint8_t* factors, int i) {
  const int low = factors[i % 8] >> (i / 8 * 4) & 15;
  const int high = factors[8 + i % 4] >> (i / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

void expand_q3_k(const std::uint8_t* block, CompactGroup* groups) {
  const float scale = half_at(block + 108);
  for (int g = 0; g < 8; ++g) {
    CompactGroup& group = groups[g];
    set_scale(group, 0.0F);
    for (int half = 0; half < 2; ++half) {
      group.scales[half] = scale * static_cast<float>(q3_factor(block + 96, 2 * g + half));
    }
    for (int i = 0; i < kGroupSize; ++i) {
      const int high = block[i] >> g & 1;
      group.codes[i] = static_cast<std::int8_t>((two_bits(block + 32, g, i) | high << 2) - 4);
    }
  }
}

void expand_q8_k(const std::uint8_t* block, CompactGroup* groups) {
  float scale = 0;
  std::memcpy(&scale, block, sizeof(scale));
  for (int g = 0; g < 8; ++g) {
    set_scale(groups[g], scale);
    std::memcpy(groups[g].codes, block + 4 + g * kGroupSize, kGroupSize);
  }
}

// Weights i and i + count of byte i.
void look_up(const std::uint8_t* nibbles, int count, const std::int8_t* table, std::int8_t* codes) {
  for (int i = 0; i < count; ++i) {
    codes[i] = table[nibbles[i] & 15];
    codes[i + count] = table[nibbles[i] >> 4];
  }
}

void expand_iq4_nl(const std::uint8_t* block, CompactGroup* groups) {
  set_scale(groups[0], half_at(block));
  look_up(block + 2, kHalfGroupSize, kIq4Table, groups[0].codes);
}

void expand_iq4_xs(const std::uint8_t* block, CompactGroup* groups) {
  const float scale = half_at(block);
  const int high = load_half_bits(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int factor = (block[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (2 * g) & 3) << 4;
    set_scale(groups[g], scale * static_cast<float>(factor - 32));
    look_up(block + 8 + g * kHalfGroupSize, kHalfGroupSize, kIq4Table, groups[g].codes);
  }
}

void expand_mxfp4(const std::uint8_t* block, CompactGroup* groups) {
  set_scale(groups[0], e8m0_half(block[0]));
  look_up(block + 1, kHalfGroupSize, kE2m1Table, groups[0].codes);
}

void expand_nvfp4(const std::uint8_t* block, CompactGroup* groups) {
  for (int part = 0; part < 4; ++part) {
    CompactGroup& group = groups[part / 2];
    const int half = part % 2;
    group.scales[half] = e4m3_half(block[part]);
    group.minima[half] = 0.0F;
    look_up(block + 4 + part * 8, 8, kE2m1Table, group.codes + half * kHalfGroupSize);
  }
}

void expand_tq1_0(const std::uint8_t* block, CompactGroup* groups) {
  const float scale = half_at(block + 52);
  for (int g = 0; g < 8; ++g) set_scale(groups[g], scale);
  // The digits of `count` bytes: their first ones are weights from `first` on, then their second.
  const auto expand = [&](const std::uint8_t* from, int count, int digits, int first) {
    int power = 1;
    for (int digit = 0; digit < digits; ++digit, power *= 3, first += count) {
      for (int i = 0; i < count; ++i) {
        const int fraction = from[i] * power & 255;
        const int weight = first + i;
        groups[weight / kGroupSize].codes[weight % kGroupSize] =
            static_cast<std::int8_t>((fraction * 3 >> 8) - 1);
      }
    }
  };
  expand(block, 32, 5, 0);
  expand(block + 32, 16, 5, 160);
  expand(block + 48, 4, 4, 240);
}

void expand_tq2_0(const std::uint8_t* block, CompactGroup* groups) {
  const float scale = half_at(block + 64);
  for (int g = 0; g < 8; ++g) {
    set_scale(groups[g], scale);
    for (int i = 0; i < kGroupSize; ++i) {
      groups[g].codes[i] = static_cast<std::int8_t>(two_bits(block, g, i) - 1);
    }
  }
}

}  // namespace

float e8m0_half(std::uint8_t bits) {
  const std::uint32_t exponent = bits;
  return std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23);
}

float e4m3_half(std::uint8_t bits) {
  if (bits == 0x7F) return 0.0F;  // not a number, as the reference has it
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  return exponent == 0 ? static_cast<float>(mantissa) * 0x1p-10F
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

void expand_block(Encoding encoding, const std::uint8_t* block, CompactGroup* groups) {
  if (is_hqq(encoding)) return expand_hqq_block(encoding, block, groups);
  switch (encoding) {
    case Encoding::kQ2_K:
      return expand_q2_k(block, groups);
    case Encoding::kQ3_K:
      return expand_q3_k(block, groups);
    case Encoding::kQ8_K:
      return expand_q8_k(block, groups);
    case Encoding::kIQ4_NL:
      return expand_iq4_nl(block, groups);
    case Encoding::kIQ4_XS:
      return expand_iq4_xs(block, groups);
    case Encoding::kMXFP4:
      return expand_mxfp4(block, groups);
    case Encoding::kNVFP4:
    case Encoding::kNVFP4Scaled:
      return expand_nvfp4(block, groups);
    case Encoding::kTQ1_0:
      return expand_tq1_0(block, groups);
    case Encoding::kTQ2_0:
      return expand_tq2_0(block, groups);
    default:
      return expand_grid_block(encoding, block, groups);
  }
}

void divide_scales(const std::uint8_t* row, std::int64_t count, CompactGroup* groups) {
  float divisor = 0;
  std::memcpy(&divisor, row, sizeof(divisor));
  for (std::int64_t g = 0; g < count; ++g) {
    for (float& scale : groups[g].scales) scale /= divisor;
    for (float& minimum : groups[g].minima) minimum /= divisor;
  }
}

bool is_finite_block(Encoding encoding, const std::uint8_t* block) {
  if (is_hqq(encoding)) return is_finite_hqq_block(encoding, block);
  switch (encoding) {
    case Encoding::kQ2_K:
      return is_finite_half(block + 80) && is_finite_half(block + 82);
    case Encoding::kQ3_K:
      return is_finite_half(block + 108);
    case Encoding::kQ8_K: {
      // A code is at most 128.
      CompactGroup groups[kMaxBlockGroups];
      expand_q8_k(block, groups);
      return std::isfinite(groups[0].scales[0] * 128.0F);
    }
    case Encoding::kTQ1_0:
      return is_finite_half(block + 52);
    case Encoding::kTQ2_0:
      return is_finite_half(block + 64);
    case Encoding::kIQ1_M:
      return (iq1_m_scale(block) & 0x7C00) != 0x7C00;
    case Encoding::kMXFP4:
      return std::isfinite(e8m0_half(block[0]) * 12.0F);
    case Encoding::kNVFP4:
    case Encoding::kNVFP4Scaled:
      return true;
    default:
      return is_finite_half(block);
  }
}

}  // namespace quire
