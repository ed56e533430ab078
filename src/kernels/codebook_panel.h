// How a panel of 16 outputs stores rows of quant/codebook_groups.h. It is a sequence of spans:
// their scales, floats [16] or, nested, bytes [16], then their groups of 32 inputs, each four lines
// of codes as group_layout.h has them for 4 bits.
//
// The rows of a nested panel follow each other in their matrix, and so share what a row begins
// with: behind the spans come the offset, the place of the first row's first span (NestedPlace),
// then the units of all spans from there on, units() floats, and zeros up to a multiple of 16
// bytes.
#pragma once

#include <cstdint>

#include "kernels/weight_layout.h"
#include "quant/codebook_groups.h"

namespace quire {

[[gnu::always_inline]] constexpr Codebook codebook_of(WeightLayout layout) {
  return layout < WeightLayout::kFP4Span64 ? Codebook::kNF4 : Codebook::kFP4;
}

// Always inlined, so that no copy compiled with a level's flags can replace another one.
struct CodebookPanel {
  bool nested = false;
  int span_shift = 1;

  static constexpr std::int64_t kGroupBytes = 256;
  static constexpr std::int64_t kLine = 4 * kPanelOutputs;
  // From the start of a tail.
  static constexpr std::int64_t kPlaceOffset = 4;
  static constexpr std::int64_t kUnitsOffset = 8;

  // `layout` is one of them.
  [[gnu::always_inline]] static constexpr CodebookPanel of(WeightLayout layout) {
    const int index = static_cast<int>(layout) - static_cast<int>(WeightLayout::kNF4Span64);
    return {.nested = index / 3 % 2 != 0, .span_shift = index % 3 + 1};
  }

  [[gnu::always_inline]] constexpr std::int64_t scale_bytes() const {
    return nested ? kPanelOutputs : kLine;
  }
  [[gnu::always_inline]] constexpr std::int64_t scales_offset(std::int64_t group) const {
    const std::int64_t span = group >> span_shift;
    return span * scale_bytes() + (span << span_shift) * kGroupBytes;
  }
  [[gnu::always_inline]] constexpr std::int64_t codes_offset(std::int64_t group) const {
    const std::int64_t span = group >> span_shift;
    return (span + 1) * scale_bytes() + group * kGroupBytes;
  }
  [[gnu::always_inline]] constexpr bool begins_span(std::int64_t group) const {
    return (group >> span_shift << span_shift) == group;
  }
  [[gnu::always_inline]] constexpr std::int64_t row_spans(std::int64_t inputs) const {
    return inputs / kGroupInputs >> span_shift;
  }
  // Each is of at least kMinNestedRun spans, and the first may be of one.
  [[gnu::always_inline]] constexpr std::int64_t units(std::int64_t inputs) const {
    return kPanelOutputs * row_spans(inputs) / kMinNestedRun + 2;
  }
  // The offset, the place and the units.
  [[gnu::always_inline]] constexpr std::int64_t tail_offset(std::int64_t inputs) const {
    return scales_offset(inputs / kGroupInputs);
  }
  [[gnu::always_inline]] constexpr std::int64_t bytes(std::int64_t inputs) const {
    return tail_offset(inputs) + (nested ? (kUnitsOffset + 4 * units(inputs) + 15) / 16 * 16 : 0);
  }

  // The scale of output n in a group's span.
  [[gnu::always_inline]] float scale(const std::uint8_t* panel, std::int64_t inputs,
                                     std::int64_t group, std::int64_t n) const {
    const std::uint8_t* scales = panel + scales_offset(group);
    if (!nested) return float_at(scales + 4 * n);
    const std::uint8_t* tail = panel + tail_offset(inputs);
    NestedPlace place;
    __builtin_memcpy(&place.bits, tail + kPlaceOffset, sizeof(place.bits));
    const std::int64_t span = n * row_spans(inputs) + (group >> span_shift);
    const float unit = float_at(tail + kUnitsOffset + 4 * place.unit_of(span));
    return kNestedScales[scales[n]] * unit + float_at(tail);
  }

  [[gnu::always_inline]] static float float_at(const std::uint8_t* from) {
    float value = 0;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
};

}  // namespace quire
