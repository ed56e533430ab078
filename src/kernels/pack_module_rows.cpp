#include "kernels/pack_module_rows.h"

#include <cstring>

#include "kernels/codebook_panel.h"
#include "kernels/finite_check.h"
#include "kernels/group_layout.h"
#include "kernels/transpose.h"
#include "quant/zero_groups.h"

namespace quire {
namespace {

template <int kCodeBits>
bool pack_spans(const PanelRows& source, WeightLayout layout, std::uint8_t* panel) {
  const GroupLayout form = group_layout(layout);
  const ZeroGroups rows = zero_groups(source.encoding);
  FiniteCheck factors(Encoding::kF32);
  FiniteCheck check(Encoding::kF16);
  for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
    const std::uint32_t factor = load_word(source.rows[n]);
    factors.see(factor);
    std::memcpy(panel + 4 * n, &factor, 4);
  }
  constexpr std::int64_t kZeroBytes = kCodeBits == 8 ? 2 : 1;
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    const std::int64_t codes = rows.codes_offset(g);
    std::uint8_t* block = panel + form.block_offset(g);
    transpose_rows<kCodeBits>(
        [&](int row, int i) { return load_words(source.rows[row] + codes + 16 * i); }, [](Words) {},
        block + form.group_offset(g));
    if (form.group_offset(g) != form.block_header_bytes()) continue;  // not the first of its span
    const std::int64_t span = rows.span_offset(g);
    const std::int64_t zero = rows.zero_offset(g);
    std::uint8_t* zeros = panel + form.zeros_offset(g);
    for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
      const std::uint8_t* from = source.rows[n] + span;
      std::uint16_t scale = 0;
      std::memcpy(&scale, from, 2);
      check.see(std::uint32_t{scale});
      std::memcpy(block + form.scale_offset() + 2 * n, from, 2);
      std::memcpy(zeros + kZeroBytes * n, source.rows[n] + zero, kZeroBytes);
    }
  }
  return check.all_finite() && factors.all_finite();
}

// Whether some of four codes is e4m3's NaN.
bool has_nan(Words codes) {
  const Words magnitudes = codes & 0x7F7F7F7FU;
  const Words carries = (magnitudes + 0x01010101U) & 0x80808080U;
  return (carries[0] | carries[1] | carries[2] | carries[3]) != 0;
}

// The codes of a group, which lie at `codes` of each row; false where one is NaN.
bool pack_f8_group(const PanelRows& source, std::int64_t codes, std::uint8_t* out) {
  constexpr int kQuads = kGroupInputs / 4;
  bool nan = false;
  std::uint16_t quads[kQuads][kPanelOutputs][2];  // pairs of inputs
  transpose_rows<kQuads>(
      [&](int row, int i) { return load_words(source.rows[row] + codes + 16 * i); },
      [&](Words seen) { nan |= has_nan(seen); }, reinterpret_cast<std::uint8_t*>(quads));
  for (int line = 0; line < 2 * kQuads; ++line) {
    std::uint16_t pairs[kPanelOutputs];
    for (int n = 0; n < kPanelOutputs; ++n) pairs[n] = quads[line / 2][n][line % 2];
    std::memcpy(out + line * sizeof(pairs), pairs, sizeof(pairs));
  }
  return !nan;
}

// What the rows begin with, once for all of them; false for rows that do not follow each other as
// encode_rows() makes them.
bool pack_nested_tail(const PanelRows& source, const CodebookPanel& form, std::uint8_t* tail) {
  const std::uint8_t* const first_row = source.rows[0];
  const std::int64_t row_spans = form.row_spans(source.inputs);
  const NestedPlace first = {load_word(first_row + 4)};
  std::memset(
      tail, 0,
      static_cast<std::size_t>(form.bytes(source.inputs) - form.tail_offset(source.inputs)));
  std::memcpy(tail, first_row, CodebookPanel::kUnitsOffset);
  FiniteCheck check(Encoding::kF32);
  check.see(load_word(first_row));
  bool fits = true;
  std::int64_t num_units = 0;
  for (std::int64_t n = 0; n < source.num_rows; ++n) {
    const std::uint8_t* row = source.rows[n];
    const NestedPlace place = {load_word(row + 4)};
    fits = fits && load_word(row) == load_word(first_row) &&
           place.bits == first.after(n * row_spans).bits;
    const std::int64_t begin = first.unit_of(n * row_spans);
    for (std::int64_t i = 0; fits && i <= place.unit_of(row_spans - 1); ++i) {
      const std::uint32_t unit = load_word(row + 8 + 4 * i);
      std::uint8_t* to = tail + CodebookPanel::kUnitsOffset + 4 * (begin + i);
      // Its first may be the last of the row before.
      fits = begin + i >= num_units ? begin + i < form.units(source.inputs) : load_word(to) == unit;
      if (!fits) break;
      check.see(unit);
      std::memcpy(to, &unit, sizeof(unit));
      num_units = begin + i + 1;
    }
  }
  return fits && check.all_finite();
}

}  // namespace

bool pack_codebook(const PanelRows& source, WeightLayout layout, std::uint8_t* panel) {
  const CodebookPanel form = CodebookPanel::of(layout);
  const CodebookGroups rows = codebook_groups(source.encoding);
  FiniteCheck check(Encoding::kF32);
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    const std::int64_t codes = rows.codes_offset(source.inputs, g);
    transpose_rows<4>([&](int row, int) { return load_words(source.rows[row] + codes); },
                      [](Words) {}, panel + form.codes_offset(g));
    if (!form.begins_span(g)) continue;
    const std::int64_t span = rows.span_offset(source.inputs, g);
    std::uint8_t* scales = panel + form.scales_offset(g);
    for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
      const std::uint8_t* from = source.rows[n] + span;
      if (form.nested) {
        scales[n] = *from;
        continue;
      }
      check.see(load_word(from));
      std::memcpy(scales + 4 * n, from, 4);
    }
  }
  return check.all_finite() &&
         (!form.nested || pack_nested_tail(source, form, panel + form.tail_offset(source.inputs)));
}

bool pack_zero_groups(const PanelRows& source, WeightLayout layout, std::uint8_t* panel) {
  return group_layout(layout).code_bits == 4 ? pack_spans<4>(source, layout, panel)
                                             : pack_spans<8>(source, layout, panel);
}

bool pack_int8_rows(const PanelRows& source, std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(WeightLayout::kInt8Row);
  FiniteCheck scales(Encoding::kF32);
  for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
    const std::uint32_t scale = load_word(source.rows[n]);
    scales.see(scale);
    std::memcpy(panel + 4 * n, &scale, 4);
  }
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    const std::int64_t codes = 4 + g * kGroupInputs;
    transpose_rows<8>([&](int row, int i) { return load_words(source.rows[row] + codes + 16 * i); },
                      [](Words) {}, panel + kForm.block_offset(g));
  }
  return scales.all_finite();
}

bool pack_f8_rows(const PanelRows& source, std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(WeightLayout::kF8Row);
  FiniteCheck scales(Encoding::kF32);
  bool nan = false;
  for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
    const std::uint32_t scale = load_word(source.rows[n]);
    scales.see(scale);
    std::memcpy(panel + 4 * n, &scale, 4);
  }
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    nan |= !pack_f8_group(source, 4 + g * kGroupInputs, panel + kForm.block_offset(g));
  }
  return scales.all_finite() && !nan;
}

// The rows of a panel share their scales, but those that there are not, which are zeros.
bool pack_f8_blocks(const PanelRows& source, std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(WeightLayout::kF8Block128);
  constexpr std::int64_t kGroups = 4;
  const std::int64_t block_bytes = encoding_traits(source.encoding).block_bytes;
  FiniteCheck scales(Encoding::kF32);
  bool fits = true;
  for (std::int64_t g = 0; g < source.inputs / kGroupInputs; ++g) {
    const std::int64_t from = g / kGroups * block_bytes;
    std::uint8_t* block = panel + kForm.block_offset(g);
    if (g % kGroups == 0) {
      const std::uint32_t scale = load_word(source.rows[0] + from);
      scales.see(scale);
      std::memset(block, 0, static_cast<std::size_t>(kForm.block_header_bytes()));
      std::memcpy(block, &scale, 4);
      for (std::int64_t n = 1; n < kPanelOutputs; ++n) {
        const std::uint32_t other = load_word(source.rows[n] + from);
        fits = fits && (other == scale || other == 0);
      }
    }
    const std::int64_t codes = from + 4 + g % kGroups * kGroupInputs;
    fits = pack_f8_group(source, codes, block + kForm.group_offset(g)) && fits;
  }
  return scales.all_finite() && fits;
}

}  // namespace quire
