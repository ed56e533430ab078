// How products on tensor cores go through a panel (kernels/packed_weight.h): facts of each layout
// that follow from group_layout.h and codebook_panel.h.
//
// All layouts are seen as a header, then blocks of some groups of 32 inputs; dense ones as blocks
// of one group. Compact blocks have their groups in no order of bytes, and group_bytes is the mean.
// The order of the sums of one output is this, for any number of rows:
//
//   span_groups == 0   One sum of all inputs, 16 at a time. Dense weights: it is the result. Others
//                      (scales of a whole row): it is multiplied by the scale at last.
//   otherwise          The products of each span of inputs are a sum that begins with zero. total =
//                      fma(scale, sum, total), then, where there are minima, total = fma(minimum,
//                      sum of the span's inputs (InputSums of rounded_rows.h), total). A span is
//                      span_groups groups, fewer at the end of a row, or half a group (has_halves).
//
//   kF16               of each 16 inputs first the products of the weights rounded to bfloat16,
//   then
//                      those of what is left of them, which bfloat16 has exactly
//   kInt8, kInt4, kInt5, kUint4, kUint5, kUint4Super, kUint5Super
//                      spans of one group
//   kInt6Super         spans of half a group
//   kInt4Group128, kF8Block128
//                      spans of four groups
//   with zero points   spans of inputs that share one, which is subtracted from the codes
//   codebooks          spans of inputs that share a scale; the table's values rounded to bfloat16
//   kInt8Row, kF8Row, kUint4ZeroRow, kInt8ZeroRow
//                      one sum
//   compact blocks     spans of eight groups, fewer at the end of a row, of one, or of half a group
//                      (block_form.h); with codes of minima, these have sums of their own, which
//                      are added behind those of codes. Where rows have divisors, totals are
//                      multiplied by one over them at last.
#pragma once

#include <cstdint>

#include "kernels/codebook_panel.h"
#include "kernels/cuda/products/block_form.h"
#include "kernels/cuda/products/rounded_rows.h"
#include "kernels/group_layout.h"

namespace quire::cuda {

// What codes are, and how they lie.
enum class CodeForm : std::uint8_t {
  kBf16,
  kF16,
  kBits8,
  kBits4,
  kBits5,
  kBits6,
  kF8,
  kNF4,
  kFP4,
  kBlocks,
  kBlocksAndMinima  // whose minima are codes, too
};

// Always inlined: see group_layout.h.
struct FragmentForm {
  CodeForm codes = CodeForm::kBf16;
  std::int64_t header_bytes = 0;  // of a panel, before its first block
  std::int64_t block_groups = 1;  // the last block may have fewer, where it ends with its groups
  std::int64_t block_header_bytes = 0;
  std::int64_t group_bytes = 0;
  std::int64_t block_bytes = 0;
  std::int64_t span_groups = 0;
  bool has_halves = false;
  bool has_minimum = false;
  bool has_zeros = false;  // zero points
  bool zeros_of_panel = false;
  bool has_divisors = false;  // of rows

  // Whether a span has a second sum, of the codes of minima.
  [[gnu::always_inline]] constexpr bool has_minimum_codes() const {
    return codes == CodeForm::kBlocksAndMinima;
  }
  // Sums of a span.
  [[gnu::always_inline]] constexpr int num_sums() const {
    return has_halves || has_minimum_codes() ? 2 : 1;
  }
  // Whether each span has zero points of its own.
  [[gnu::always_inline]] constexpr bool has_span_zeros() const {
    return has_zeros && !zeros_of_panel && span_groups != 0;
  }
  // Whether totals are multiplied by a factor of their output at last.
  [[gnu::always_inline]] constexpr bool ends_with_factor() const {
    return has_divisors || (span_groups == 0 && !is_dense());
  }
  // Dense layouts take any number of inputs; the others a multiple of 32.
  [[gnu::always_inline]] constexpr bool is_dense() const {
    return codes == CodeForm::kBf16 || codes == CodeForm::kF16;
  }
  [[gnu::always_inline]] constexpr InputPlaces places() const {
    return is_dense() || codes == CodeForm::kF8 ? InputPlaces::kNatural : InputPlaces::kQuads;
  }
  // Of layouts with minima: InputSums::sum_inputs.
  [[gnu::always_inline]] constexpr std::int64_t sum_inputs() const {
    return span_groups * kGroupInputs;
  }
  // From the start of a panel.
  [[gnu::always_inline]] constexpr std::int64_t block_offset(std::int64_t group) const {
    return header_bytes + group / block_groups * block_bytes;
  }
  [[gnu::always_inline]] constexpr std::int64_t group_offset(std::int64_t group) const {
    return block_offset(group) + block_header_bytes + group % block_groups * group_bytes;
  }
};

[[gnu::always_inline]] constexpr FragmentForm dense_form(CodeForm codes) {
  constexpr std::int64_t kBytes = kGroupInputs * kPanelOutputs * 2;
  return {.codes = codes, .group_bytes = kBytes, .block_bytes = kBytes};
}

[[gnu::always_inline]] constexpr FragmentForm codebook_form(WeightLayout layout) {
  const CodebookPanel panel = CodebookPanel::of(layout);
  const std::int64_t groups = std::int64_t{1} << panel.span_shift;
  return {.codes = codebook_of(layout) == Codebook::kNF4 ? CodeForm::kNF4 : CodeForm::kFP4,
          .block_groups = groups,
          .block_header_bytes = panel.scale_bytes(),
          .group_bytes = CodebookPanel::kGroupBytes,
          .block_bytes = panel.scale_bytes() + groups * CodebookPanel::kGroupBytes,
          .span_groups = groups};
}

[[gnu::always_inline]] constexpr FragmentForm block_fragments_form(WeightLayout layout) {
  const std::int64_t bytes = panel_block_bytes(layout);
  const BlockShape shape = block_shape(layout);
  FragmentForm form = {
      .codes = layout == WeightLayout::kBlocksQ2_K ? CodeForm::kBlocksAndMinima : CodeForm::kBlocks,
      .header_bytes = has_divisors(layout) ? 4 * kPanelOutputs : 0,
      .block_groups = shape.groups,
      .group_bytes = bytes / shape.groups,
      .block_bytes = bytes,
      .span_groups = 1,
      .has_halves = has_half_spans(layout),
      .has_minimum = is_hqq_blocks(layout),
      .has_divisors = has_divisors(layout)};
  if (has_long_spans(layout)) {  // as if as many blocks were one
    form.block_bytes *= kLongSpanGroups / shape.groups;
    form.block_groups = form.span_groups = kLongSpanGroups;
  }
  return form;
}

[[gnu::always_inline]] constexpr CodeForm code_form(const GroupLayout& layout) {
  if (layout.float_codes) return CodeForm::kF8;
  if (layout.code_bits == 8) return CodeForm::kBits8;
  if (layout.code_bits == 6) return CodeForm::kBits6;
  return layout.code_bits == 5 ? CodeForm::kBits5 : CodeForm::kBits4;
}

// `layout` is one that multiplies_on_tensor_cores().
[[gnu::always_inline]] constexpr FragmentForm fragment_form(WeightLayout layout) {
  if (layout == WeightLayout::kBF16) return dense_form(CodeForm::kBf16);
  if (layout == WeightLayout::kF16) return dense_form(CodeForm::kF16);
  if (is_codebook(layout)) return codebook_form(layout);
  if (is_blocks(layout)) return block_fragments_form(layout);
  const GroupLayout groups = group_layout(layout);
  FragmentForm form = {
      .codes = code_form(groups),
      .header_bytes = groups.panel_header_bytes(),
      .block_groups = groups.groups_per_block(),
      .block_header_bytes = groups.block_header_bytes(),
      .group_bytes = groups.group_bytes(),
      .block_bytes = groups.block_bytes(),
      .span_groups = groups.factors == ScaleFactors::kNone ? groups.groups_per_block() : 1,
      .has_halves = groups.factors == ScaleFactors::kHalfGroup,
      .has_minimum = groups.has_minimum,
      .has_zeros = groups.span == ScaleSpan::kZeroGroups,
      .zeros_of_panel = groups.zeros_of_panel};
  if (form.has_zeros) form.has_minimum = false;
  if (groups.span == ScaleSpan::kRow) form.span_groups = 0;
  if (form.has_zeros && groups.span_shift > 2) {  // one block for the row: a header
    form.header_bytes += form.block_header_bytes;
    form.block_groups = 1;
    form.block_header_bytes = 0;
    form.block_bytes = form.group_bytes;
    form.span_groups = 0;
  }
  return form;
}

// Weights of float32 do not; product layouts of compact ones no matrix has.
[[gnu::always_inline]] constexpr bool multiplies_on_tensor_cores(WeightLayout layout) {
  return layout != WeightLayout::kF32 && (layout < WeightLayout::kInt8Halves || is_blocks(layout));
}

}  // namespace quire::cuda
