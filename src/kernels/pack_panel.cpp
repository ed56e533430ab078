#include "kernels/pack_panel.h"

#include <bit>
#include <cstring>

#include "kernels/finite_check.h"
#include "kernels/group_layout.h"
#include "kernels/pack_module_rows.h"
#include "kernels/transpose.h"
#include "quant/compact_block.h"
#include "quant/load_quantization.h"
#include "quant/super_block.h"

namespace quire {
namespace {

using Halves = std::uint16_t __attribute__((vector_size(16)));

// Lines of 32-bit words, straight from the rows: F32, BF16 and, at `offset` of each row, whole
// words of anything else.
void pack_words(const std::uint8_t* const* rows, std::int64_t words, FiniteCheck& check,
                std::uint8_t* out) {
  constexpr int kTile = 16;  // a line of the cache of every row
  const auto see = [&](Words seen) { check.see(seen); };
  std::int64_t w = 0;
  for (; w + kTile <= words; w += kTile) {
    const auto load = [&](int row, int i) { return load_words(rows[row] + 4 * w + 16 * i); };
    transpose_rows<kTile>(load, see, out + w * 64);
  }
  for (; w + 4 <= words; w += 4) {
    const auto load = [&](int row, int) { return load_words(rows[row] + 4 * w); };
    transpose_rows<4>(load, see, out + w * 64);
  }
  for (; w < words; ++w) {
    for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
      const std::uint32_t word = load_word(rows[n] + 4 * w);
      check.see(word);
      std::memcpy(out + w * 64 + 4 * n, &word, 4);
    }
  }
}

std::uint16_t load_half_bits(const std::uint8_t* from) {
  std::uint16_t half = 0;
  std::memcpy(&half, from, sizeof(half));
  return half;
}

// An odd last input is padded with zero.
bool pack_bf16(const PanelRows& source, std::uint8_t* panel) {
  FiniteCheck check(Encoding::kBF16);
  const std::int64_t words = source.inputs / 2;
  pack_words(source.rows, words, check, panel);
  if (source.inputs % 2 != 0) {
    for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
      const std::uint32_t word = load_half_bits(source.rows[n] + 4 * words);
      check.see(word);
      std::memcpy(panel + words * 64 + 4 * n, &word, 4);
    }
  }
  return check.all_finite();
}

// Pairs of inputs as words, then each line of pairs as two lines of halves.
bool pack_f16(const PanelRows& source, std::uint8_t* panel) {
  FiniteCheck check(Encoding::kF16);
  const auto see = [&](Words seen) { check.see(seen); };
  std::int64_t k = 0;
  for (; k + 8 <= source.inputs; k += 8) {
    alignas(16) std::uint8_t lines[4 * 64];
    transpose_rows<4>([&](int row, int) { return load_words(source.rows[row] + 2 * k); }, see,
                      lines);
    for (int i = 0; i < 8; ++i) {  // eight outputs of a line
      const auto low = reinterpret_cast<Halves>(load_words(lines + i * 32));
      const auto high = reinterpret_cast<Halves>(load_words(lines + i * 32 + 16));
      const Halves even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
      const Halves odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
      std::uint8_t* out = panel + (k + i / 2 * 2) * 32 + i % 2 * 16;
      std::memcpy(out, &even, sizeof(even));
      std::memcpy(out + 32, &odd, sizeof(odd));
    }
  }
  for (; k < source.inputs; ++k) {
    for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
      const std::uint16_t half = load_half_bits(source.rows[n] + 2 * k);
      check.see(std::uint32_t{half});
      std::memcpy(panel + k * 32 + 2 * n, &half, 2);
    }
  }
  return check.all_finite();
}

// The halves at `from` of every row, side by side.
[[gnu::always_inline]] inline void pack_halves(const std::uint8_t* const* rows, std::int64_t from,
                                               FiniteCheck& check, std::uint8_t* out) {
  for (int half = 0; half < 2; ++half) {
    Halves halves;
    for (int n = 0; n < 8; ++n) halves[n] = load_half_bits(rows[half * 8 + n] + from);
    const auto words = reinterpret_cast<Words>(halves);
    check.see(words);
    store_words(words, out + 16 * half);
  }
}

// Bit 4 j + i of each word to bit j of its byte i: the fifth bits of quad j.
Words spread_fifth_bits(Words bits) {
  Words spread = {};
  for (int i = 0; i < 4; ++i) {
    Words every_fourth = bits >> i & 0x11111111U;
    every_fourth = (every_fourth | every_fourth >> 3) & 0x03030303U;
    every_fourth = (every_fourth | every_fourth >> 6) & 0x000F000FU;
    every_fourth = (every_fourth | every_fourth >> 12) & 0x000000FFU;
    spread |= every_fourth << (8 * i);
  }
  return spread;
}

// Q8_0, Q4_* and Q5_*: the codes of a block are the words of the lines, in their order. Nibbles
// too: the file pairs weights j and j + 16, and that is quads u and u + 4.
template <WeightLayout kLayout>
bool pack_blocks(const PanelRows& source, std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(kLayout);
  constexpr int kWords = kForm.code_bits == 8 ? 8 : 4;
  constexpr std::int64_t kHighBits = kForm.has_minimum ? 4 : 2;
  constexpr std::int64_t kCodes = kHighBits + (kForm.code_bits == 5 ? 4 : 0);
  const std::int64_t block_bytes = encoding_traits(source.encoding).block_bytes;
  FiniteCheck check(Encoding::kF16);
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    const std::int64_t from = g * block_bytes;
    std::uint8_t* out = panel + kForm.block_offset(g);
    transpose_rows<kWords>(
        [&](int row, int i) { return load_words(source.rows[row] + from + kCodes + 16 * i); },
        [](Words) {}, out);
    if constexpr (kForm.code_bits == 5) {
      for (int n = 0; n < kPanelOutputs; n += 4) {
        Words bits;
        for (int i = 0; i < 4; ++i) bits[i] = load_word(source.rows[n + i] + from + kHighBits);
        store_words(spread_fifth_bits(bits), out + 256 + 4 * n);
      }
    }
    pack_halves(source.rows, from, check, out + kForm.scale_offset());
    if constexpr (kForm.has_minimum) {
      pack_halves(source.rows, from + 2, check, out + kForm.minimum_offset());
    }
  }
  return check.all_finite();
}

// `count` words at `from`, each byte shifted right and masked, one above the other `bits` bits
// apart: the lines of high bits.
std::uint32_t stack_bits(const std::uint8_t* from, int shift, std::uint32_t mask, int count,
                         int bits) {
  std::uint32_t stacked = 0;
  for (int j = 0; j < count; ++j) {
    stacked |= (load_word(from + 4 * j) >> shift & mask) << (j * bits);
  }
  return stacked;
}

// Encodings with two-fold scales.
template <Encoding kEncoding, WeightLayout kLayout>
bool pack_super_blocks(const PanelRows& source, std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(kLayout);
  const std::int64_t block_bytes = encoding_traits(kEncoding).block_bytes;
  FiniteCheck check(Encoding::kF16);
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    SuperGroup groups[kPanelOutputs];
    for (int n = 0; n < kPanelOutputs; ++n) {
      groups[n] = find_super_group<kEncoding>(source.rows[n] + g / 8 * block_bytes,
                                              static_cast<int>(g % 8));
    }
    std::uint8_t* block = panel + kForm.block_offset(g);
    std::uint8_t* out = block + kForm.group_offset(g);
    const auto nibbles = [&](int row, int) {
      const SuperGroup& group = groups[row];
      const Words first = load_words(group.nibbles) >> group.nibble_shift & 0x0F0F0F0FU;
      const Words second = load_words(group.nibbles + 16) >> group.nibble_shift & 0x0F0F0F0FU;
      return first | second << 4;
    };
    transpose_rows<4>(
        nibbles, [](Words) {}, out);
    for (int n = 0; n < kPanelOutputs; ++n) {
      const SuperGroup& group = groups[n];
      if constexpr (kForm.code_bits == 5) {
        const std::uint32_t bits = stack_bits(group.high, group.high_shift, 0x01010101U, 8, 1);
        std::memcpy(out + 256 + 4 * n, &bits, 4);
      } else if constexpr (kForm.code_bits == 6) {
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t bits =
              stack_bits(group.high + 16 * half, group.high_shift, 0x03030303U, 4, 2);
          std::memcpy(out + 256 + 64 * half + 4 * n, &bits, 4);
        }
      }
      const bool halves = kForm.factors == ScaleFactors::kHalfGroup;
      out[kForm.code_bytes() + n] = static_cast<std::uint8_t>(group.scale_factors[0]);
      out[kForm.code_bytes() + 16 + n] =
          static_cast<std::uint8_t>(halves ? group.scale_factors[1] : group.minimum_factor);
      if (g % 8 != 0) continue;  // every group of a block brings the same two
      check.see(std::uint32_t{group.scale} | std::uint32_t{group.minimum} << 16);
      std::memcpy(block + kForm.scale_offset() + 2 * n, &group.scale, 2);
      if constexpr (kForm.has_minimum) {
        std::memcpy(block + kForm.minimum_offset() + 2 * n, &group.minimum, 2);
      }
    }
  }
  return check.all_finite();
}

// Whether scales divided by a row's first number are finite; +0 is that of a row that is not there.
bool is_divisor(std::uint32_t bits) {
  return bits == 0 || (std::bit_cast<float>(bits) >= 0x1p-100F && bits < 0x7F800000U);
}

// The blocks of all rows side by side.
bool pack_compact_blocks(const PanelRows& source, std::uint8_t* panel) {
  const EncodingTraits& traits = encoding_traits(source.encoding);
  const auto bytes = static_cast<std::size_t>(traits.block_bytes);
  bool all_finite = true;
  for (const std::uint8_t* row : source.rows) {
    const auto header = static_cast<std::size_t>(traits.row_header_bytes);
    if (header != 0 && !is_divisor(load_word(row))) all_finite = false;
    std::memcpy(panel, row, header);
    panel += header;
  }
  for (std::int64_t k = 0; k < source.inputs; k += traits.block_elements) {
    const std::int64_t from =
        traits.row_header_bytes + k / traits.block_elements * traits.block_bytes;
    for (const std::uint8_t* row : source.rows) {
      if (!is_finite_block(source.encoding, row + from)) all_finite = false;
      std::memcpy(panel, row + from, bytes);
      panel += bytes;
    }
  }
  return all_finite;
}

bool is_finite_row(const PanelRows& source, std::int64_t n) {
  FiniteCheck check(source.encoding);
  const std::int64_t bytes = source.inputs * encoding_traits(source.encoding).block_bytes;
  for (std::int64_t at = 0; at < bytes; at += 16) check.see(load_words(source.rows[n] + at));
  return check.all_finite();
}

// What quantizing a panel needs: a row as floats, and the codes of all rows.
struct QuantizeScratch {
  float* weights;
  std::uint8_t* codes;

  QuantizeScratch(std::span<std::byte> memory, std::int64_t inputs)
      : weights(reinterpret_cast<float*>(memory.data())),
        codes(reinterpret_cast<std::uint8_t*>(weights + inputs)) {}
};

bool quantize_int8_panel(const PanelRows& source, std::span<std::byte> memory,
                         std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(WeightLayout::kInt8Row);
  const QuantizeScratch scratch(memory, source.inputs);
  const std::uint8_t* rows[kPanelOutputs];
  for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
    if (!is_finite_row(source, n)) return false;
    decode_row(source.encoding, source.rows[n], source.inputs, scratch.weights);
    auto* codes = reinterpret_cast<std::int8_t*>(scratch.codes + n * source.inputs);
    const float scale = quantize_int8_row(scratch.weights, source.inputs, codes);
    std::memcpy(panel + 4 * n, &scale, 4);
    rows[n] = scratch.codes + n * source.inputs;
  }
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    transpose_rows<8>(
        [&](int row, int i) { return load_words(rows[row] + g * kGroupInputs + 16 * i); },
        [](Words) {}, panel + kForm.block_offset(g));
  }
  return true;
}

bool quantize_int4_panel(const PanelRows& source, std::span<std::byte> memory,
                         std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(WeightLayout::kInt4Group128);
  constexpr std::int64_t kGroups = kInt4GroupSize / kGroupInputs;
  const QuantizeScratch scratch(memory, source.inputs);
  const std::int64_t groups = source.inputs / kGroupInputs;
  FiniteCheck check(Encoding::kF16);
  for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
    if (!is_finite_row(source, n)) return false;
    decode_row(source.encoding, source.rows[n], source.inputs, scratch.weights);
    std::uint8_t codes[kInt4GroupSize] = {};
    for (std::int64_t g = 0; g < groups; g += kGroups) {
      const std::int64_t count = g + kGroups < groups ? kGroups : groups - g;
      const Int4Scale scale =
          quantize_int4_group(scratch.weights + g * kGroupInputs, count * kGroupInputs, codes);
      std::uint8_t* block = panel + kForm.block_offset(g);
      std::memcpy(block + kForm.scale_offset() + 2 * n, &scale.scale, 2);
      std::memcpy(block + kForm.minimum_offset() + 2 * n, &scale.minimum, 2);
      check.see(std::uint32_t{scale.scale} | std::uint32_t{scale.minimum} << 16);
      // Weights j and j + 16 of a group in one byte, as the lines have them.
      std::uint8_t* nibbles = scratch.codes + (n * groups + g) * 16;
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j < 16; ++j) {
          const std::uint8_t* pair = codes + i * kGroupInputs + j;
          nibbles[i * 16 + j] = static_cast<std::uint8_t>(pair[0] | pair[16] << 4);
        }
      }
    }
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    transpose_rows<4>(
        [&](int row, int) { return load_words(scratch.codes + (row * groups + g) * 16); },
        [](Words) {}, panel + kForm.block_offset(g) + kForm.group_offset(g));
  }
  return check.all_finite();
}

}  // namespace

std::uint64_t pack_scratch_bytes(WeightLayout layout, std::int64_t inputs) {
  const auto k = static_cast<std::uint64_t>(inputs);
  switch (layout) {
    case WeightLayout::kInt8Row:
      return k * (sizeof(float) + kPanelOutputs);
    case WeightLayout::kInt4Group128:
      return k * (sizeof(float) + kPanelOutputs / 2);
    default:
      return 0;
  }
}

bool pack_panel(const PanelRows& source, WeightLayout layout, std::span<std::byte> scratch,
                std::uint8_t* panel) {
  switch (layout) {
    case WeightLayout::kF32: {
      FiniteCheck check(Encoding::kF32);
      pack_words(source.rows, source.inputs, check, panel);
      return check.all_finite();
    }
    case WeightLayout::kF16:
      return pack_f16(source, panel);
    case WeightLayout::kBF16:
      return pack_bf16(source, panel);
    case WeightLayout::kInt8:
      return pack_blocks<WeightLayout::kInt8>(source, panel);
    case WeightLayout::kInt4:
      return pack_blocks<WeightLayout::kInt4>(source, panel);
    case WeightLayout::kInt5:
      return pack_blocks<WeightLayout::kInt5>(source, panel);
    case WeightLayout::kUint4:
      return pack_blocks<WeightLayout::kUint4>(source, panel);
    case WeightLayout::kUint5:
      return pack_blocks<WeightLayout::kUint5>(source, panel);
    case WeightLayout::kUint4Super:
      return pack_super_blocks<Encoding::kQ4_K, WeightLayout::kUint4Super>(source, panel);
    case WeightLayout::kUint5Super:
      return pack_super_blocks<Encoding::kQ5_K, WeightLayout::kUint5Super>(source, panel);
    case WeightLayout::kInt6Super:
      return pack_super_blocks<Encoding::kQ6_K, WeightLayout::kInt6Super>(source, panel);
    case WeightLayout::kUint4Zero32:
    case WeightLayout::kUint4Zero64:
    case WeightLayout::kUint4Zero128:
    case WeightLayout::kUint4ZeroRow:
    case WeightLayout::kUint4Scale32:
    case WeightLayout::kUint4Scale64:
    case WeightLayout::kUint4Scale128:
    case WeightLayout::kInt8Zero32:
    case WeightLayout::kInt8Zero64:
    case WeightLayout::kInt8Zero128:
    case WeightLayout::kInt8ZeroRow:
    case WeightLayout::kInt8Scale32:
    case WeightLayout::kInt8Scale64:
      return pack_zero_groups(source, layout, panel);
    case WeightLayout::kF8Row:
      return pack_f8_rows(source, panel);
    case WeightLayout::kF8Block128:
      return pack_f8_blocks(source, panel);
    case WeightLayout::kInt8Row:
      if (source.encoding == Encoding::kInt8Row) return pack_int8_rows(source, panel);
      return quantize_int8_panel(source, scratch, panel);
    case WeightLayout::kInt4Group128:
      return quantize_int4_panel(source, scratch, panel);
    default:
      if (is_codebook(layout)) return pack_codebook(source, layout, panel);
      return pack_compact_blocks(source, panel);
  }
}

}  // namespace quire
