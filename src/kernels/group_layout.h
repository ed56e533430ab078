// How a panel of 16 outputs stores quantized weights: the few facts in which the layouts differ,
// and the offsets that follow from them. Kernels get them as compile-time constants.
//
// A panel is a sequence of blocks. A block is one group of 32 inputs, or eight where scales are
// two-fold, then half-precision scales [16], then half-precision minima [16] where there are any. A
// group is its codes, then 8-bit factors of the scales and minima where they are two-fold.
//
// Codes. A quad is four consecutive inputs of all 16 outputs: [16][4] bytes, one 64-byte line.
//   8 bits: quads 0 to 7, signed bytes.
//   4 bits: four lines; line u has quad u in its low nibbles and quad u + 4 in its high ones.
//   5 bits: as 4 bits, then one line with the fifth bits; those of quad j are bit j of each byte.
//   6 bits: as 4 bits, then two lines with the upper two bits: the first for quads 0 to 3, the
//           second for 4 to 7; those of quad j are bits 2 (j % 4) and above of each byte.
// Codes below 8 bits are unsigned; `zero` is to be subtracted.
//
// Factors: [16] unsigned bytes of the scale, then [16] of the minimum; with one for each half of a
// group (6 bits), [2][16] signed bytes of the scale.
//
//   w = scale * factor * (code - zero) + minimum * factor of the minimum
//
// Quantized at load. Where 128 inputs share a scale, a block is the half-precision scales [16] and
// minima [16], then four groups; the last block of a panel has the groups that are left. Where all
// inputs share one, the panel begins with float scales [16], and blocks are groups alone.
//
// Where each half of a group has a float scale of its own, as in the product layouts of compact
// ones, a group is its codes, then float scales [2][16], then float minima [2][16] where there are
// any.
//
// With zero points. The panel begins with float factors [16]; a block is the half-precision scales
// [16], the zero points [16], bytes or, with codes of eight bits, halves, then the groups that
// share them: one, two, four, or all of the panel. Where an output has one zero point for all of
// its inputs, zero points follow the factors, and blocks have none.
//
//   w = factor * scale * (code - zero point)
//
// which kernels use as a minimum of -zero point * (factor * scale): exact, because factors are
// powers of two.
//
// Floats of eight bits (e4m3) have one float scale for all inputs of an output; or, where a block
// is four groups, one for all of its outputs, in 16 bytes before it. Their codes lie as those of
// bfloat16 weights do: two consecutive inputs of all outputs after the other, [inputs / 2][16][2].
//
// This is the size of the file's own blocks, to the byte for the 32-weight encodings and Q6_K; Q4_K
// and Q5_K grow by 2 to 3% because their 6-bit factors become bytes.
#pragma once

#include <cstdint>

#include "kernels/weight_layout.h"

namespace quire {

enum class ScaleFactors : std::uint8_t {
  kNone,      // scales (and minima) of each group as they are
  kGroup,     // an unsigned factor for the scale, and one for the minimum, of each group
  kHalfGroup  // a signed factor for the scale of each half of a group
};

// The inputs of an output that share a scale, before factors.
enum class ScaleSpan : std::uint8_t {
  kBlock,
  kFourGroups,
  kRow,
  kHalfGroup,
  kZeroGroups,  // 1 << span_shift groups, with zero points
  kPanelBlocks  // four groups of all outputs
};

// Always inlined, so that no copy compiled with a level's flags can replace another one.
struct GroupLayout {
  int code_bits = 8;  // 4, 5, 6 or 8
  int zero = 0;       // to be subtracted from a code
  bool has_minimum = false;
  ScaleFactors factors = ScaleFactors::kNone;
  ScaleSpan span = ScaleSpan::kBlock;
  int span_shift = 0;           // kZeroGroups: known when a kernel runs
  bool zeros_of_panel = false;  // kZeroGroups
  bool float_codes = false;

  [[gnu::always_inline]] constexpr std::int64_t groups_per_block() const {
    if (span == ScaleSpan::kZeroGroups) return std::int64_t{1} << span_shift;
    if (span == ScaleSpan::kFourGroups || span == ScaleSpan::kPanelBlocks) return 4;
    return factors == ScaleFactors::kNone ? 1 : 8;
  }
  [[gnu::always_inline]] constexpr std::int64_t code_bytes() const {
    return std::int64_t{16} * 32 / 8 * code_bits;
  }
  [[gnu::always_inline]] constexpr std::int64_t group_bytes() const {
    return code_bytes() + (factors == ScaleFactors::kNone ? 0 : 32);
  }
  // What stands before the first block of a panel, and before the first group of a block.
  [[gnu::always_inline]] constexpr std::int64_t panel_header_bytes() const {
    if (span == ScaleSpan::kZeroGroups) return 64 + (zeros_of_panel ? zero_bytes() : 0);
    return span == ScaleSpan::kRow ? 64 : 0;
  }
  [[gnu::always_inline]] constexpr std::int64_t block_header_bytes() const {
    return scales_come_first() ? scale_bytes() : 0;
  }
  // From the start of a block to its scales and minima, where it has them.
  [[gnu::always_inline]] constexpr std::int64_t scale_offset() const {
    return scales_come_first() ? 0 : groups_per_block() * group_bytes();
  }
  [[gnu::always_inline]] constexpr std::int64_t minimum_offset() const {
    return scale_offset() + (span == ScaleSpan::kHalfGroup ? 128 : 32);
  }
  // From the start of a panel to the zero points of a group.
  [[gnu::always_inline]] constexpr std::int64_t zeros_offset(std::int64_t group) const {
    return zeros_of_panel ? 64 : block_offset(group) + minimum_offset();
  }
  [[gnu::always_inline]] constexpr std::int64_t block_bytes() const {
    return groups_per_block() * group_bytes() + scale_bytes();
  }
  // From the start of a panel to a group's block, and within the block to the group.
  [[gnu::always_inline]] constexpr std::int64_t block_offset(std::int64_t group) const {
    return panel_header_bytes() + block_of(group) * block_bytes();
  }
  [[gnu::always_inline]] constexpr std::int64_t group_offset(std::int64_t group) const {
    const std::int64_t before = group - block_of(group) * groups_per_block();
    return block_header_bytes() + before * group_bytes();
  }
  // Where the last block of a panel ends with its last group.
  [[gnu::always_inline]] constexpr bool scales_come_first() const {
    return span == ScaleSpan::kFourGroups || span == ScaleSpan::kZeroGroups ||
           span == ScaleSpan::kPanelBlocks;
  }

 private:
  [[gnu::always_inline]] constexpr std::int64_t zero_bytes() const {
    return code_bits == 4 ? 16 : 32;
  }
  [[gnu::always_inline]] constexpr std::int64_t block_of(std::int64_t group) const {
    return span == ScaleSpan::kZeroGroups ? group >> span_shift : group / groups_per_block();
  }
  [[gnu::always_inline]] constexpr std::int64_t scale_bytes() const {
    if (span == ScaleSpan::kRow) return 0;
    if (span == ScaleSpan::kHalfGroup) return has_minimum ? 256 : 128;
    if (span == ScaleSpan::kPanelBlocks) return 16;
    if (span == ScaleSpan::kZeroGroups) return 32 + (zeros_of_panel ? 0 : zero_bytes());
    return has_minimum ? 64 : 32;
  }
};

// Layouts with zero points for codes of as many bits, from the smallest span on; those of 8 bits
// end one earlier.
inline constexpr int kNumZeroLayouts = 7;

[[gnu::always_inline]] constexpr GroupLayout zero_group_layout(WeightLayout layout) {
  const int place = static_cast<int>(layout) - static_cast<int>(WeightLayout::kUint4Zero32);
  const int index = place % kNumZeroLayouts;
  constexpr int kShifts[kNumZeroLayouts] = {0, 1, 2, 40, 0, 1, 2};
  return {.code_bits = place < kNumZeroLayouts ? 4 : 8,
          .has_minimum = true,
          .span = ScaleSpan::kZeroGroups,
          .span_shift = kShifts[index],
          .zeros_of_panel = index >= 4};
}

// `layout` is a quantized one; of a compact one, what its products see.
[[gnu::always_inline]] constexpr GroupLayout group_layout(WeightLayout layout) {
  switch (product_layout(layout)) {
    case WeightLayout::kInt8:
      return {.code_bits = 8};
    case WeightLayout::kInt4:
      return {.code_bits = 4, .zero = 8};
    case WeightLayout::kInt5:
      return {.code_bits = 5, .zero = 16};
    case WeightLayout::kUint4:
      return {.code_bits = 4, .has_minimum = true};
    case WeightLayout::kUint5:
      return {.code_bits = 5, .has_minimum = true};
    case WeightLayout::kUint4Super:
      return {.code_bits = 4, .has_minimum = true, .factors = ScaleFactors::kGroup};
    case WeightLayout::kUint5Super:
      return {.code_bits = 5, .has_minimum = true, .factors = ScaleFactors::kGroup};
    case WeightLayout::kInt6Super:
      return {.code_bits = 6, .zero = 32, .factors = ScaleFactors::kHalfGroup};
    case WeightLayout::kInt8Row:
      return {.code_bits = 8, .span = ScaleSpan::kRow};
    case WeightLayout::kInt4Group128:
      return {.code_bits = 4, .has_minimum = true, .span = ScaleSpan::kFourGroups};
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
      return zero_group_layout(layout);
    case WeightLayout::kF8Row:
      return {.code_bits = 8, .span = ScaleSpan::kRow, .float_codes = true};
    case WeightLayout::kF8Block128:
      return {.code_bits = 8, .span = ScaleSpan::kPanelBlocks, .float_codes = true};
    case WeightLayout::kInt8Halves:
      return {.code_bits = 8, .span = ScaleSpan::kHalfGroup};
    case WeightLayout::kInt8HalvesMinimum:
      return {.code_bits = 8, .has_minimum = true, .span = ScaleSpan::kHalfGroup};
    default:  // dense
      return {};
  }
}

}  // namespace quire
