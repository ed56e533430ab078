// Rows of four-bit codes that stand for the 16 values of a table, as bitsandbytes writes NF4 and
// FP4 (Dettmers et al. 2023, QLoRA). A span of 64, 128 or 256 inputs shares a scale:
//   w = scale * table[code]
// The scale is a float before the span's codes; or, nested (double quantization), a byte there, for
//   scale = kNestedScales[byte] * unit + offset
// with two roundings to float32, as the reference computes it. A nested row begins with the offset,
// a NestedPlace and nested_units() units, one for each run of spans that the row has part of, since
// runs go on from one row into the next.
//
// Of each 32 codes byte j has code j in its low nibble and code j + 16 in its high one, as in Q4_0.
#pragma once

#include <cstdint>

#include "quant/encoding.h"
#include "quant/group_row.h"

namespace quire {

constexpr bool is_codebook(Encoding encoding) {
  return encoding >= Encoding::kNF4Span64 && encoding <= Encoding::kFP4Nested256;
}

constexpr bool is_nested_codebook(Encoding encoding) {
  return (encoding >= Encoding::kNF4Nested64 && encoding <= Encoding::kNF4Nested256) ||
         (encoding >= Encoding::kFP4Nested64 && encoding <= Encoding::kFP4Nested256);
}

inline constexpr std::int64_t kMinNestedRun = 256;  // spans

// Units of a row: each is of at least kMinNestedRun spans of 64 inputs, and the first may be of
// one.
constexpr std::int64_t nested_units(std::int64_t inputs) {
  return inputs / (64 * kMinNestedRun) + 2;
}

// Which unit a span of a row has. All zeros: of runs of kMinNestedRun spans, from the first on.
struct NestedPlace {
  std::uint32_t bits = 0;

  // The row's first span is the `first`th of its run, which has kMinNestedRun << shift.
  static constexpr NestedPlace of(std::int64_t first, int shift) {
    return {static_cast<std::uint32_t>(first) | static_cast<std::uint32_t>(shift) << 24};
  }
  // Of the span that comes `spans` later.
  constexpr NestedPlace after(std::int64_t spans) const {
    const int shift = static_cast<int>(bits >> 24);
    return of((static_cast<std::int64_t>(bits & 0xFFFFFFU) + spans) % (kMinNestedRun << shift),
              shift);
  }
  [[gnu::always_inline]] constexpr std::int64_t unit_of(std::int64_t span) const {
    return (static_cast<std::int64_t>(bits & 0xFFFFFFU) + span) >> (8 + (bits >> 24));
  }
};

// Where the numbers of a row lie.
struct CodebookGroups {
  bool nested = false;
  int span_shift = 1;  // a span has 1 << span_shift groups of 32
  const float* table = nullptr;

  constexpr std::int64_t scale_bytes() const { return nested ? 1 : 4; }
  constexpr std::int64_t header_bytes(std::int64_t inputs) const {
    return nested ? 8 + 4 * nested_units(inputs) : 0;
  }
  // From the start of a row to a group's span, and to its codes.
  constexpr std::int64_t span_offset(std::int64_t inputs, std::int64_t group) const {
    const std::int64_t span = group >> span_shift;
    return header_bytes(inputs) + span * scale_bytes() + (span << span_shift) * kHalfGroupSize;
  }
  constexpr std::int64_t codes_offset(std::int64_t inputs, std::int64_t group) const {
    const std::int64_t before = group - (group >> span_shift << span_shift);
    return span_offset(inputs, group) + scale_bytes() + before * kHalfGroupSize;
  }
};

// `encoding` is one of them.
CodebookGroups codebook_groups(Encoding encoding);

enum class Codebook : std::uint8_t { kNF4, kFP4 };

// The encoding of rows whose spans have `span` inputs: 64, 128 or 256.
Encoding codebook_encoding(Codebook codebook, bool nested, std::int64_t span);

// The values of a code, and those of a nested scale's byte: what bitsandbytes writes as quant_map
// and nested_quant_map (functional.py: get_4bit_type(), create_dynamic_map()).
const float* codebook_table(Codebook codebook);
extern const float kNestedScales[256];

// The values in integers, for products of integers: value ~ unit * integer. FP4's are that; NF4's
// are the nearest of 4,097 from -1 to 1. 32 products with codes of 16 bits fit 32 bits.
struct CodebookIntegers {
  std::int16_t values[16];
  float unit;
};
inline constexpr int kLargestCodebookInteger = 2048;

const CodebookIntegers& codebook_integers(Codebook codebook);

// A row of `count` weights.
void decode_codebook(Encoding encoding, const std::uint8_t* row, std::int64_t count, float* out);

}  // namespace quire
