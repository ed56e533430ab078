// Rows of integer codes whose scales have zero points: what GPTQ, AWQ and their like come to, once
// their tensors are brought into rows (quant/grouped_tensor.h). A span of 32, 64 or 128 inputs, or
// the whole row, shares a half-precision scale and a zero point:
//   w = factor * scale * (code - zero)
// A row begins with its factor, a float and a power of two: it is one, unless scales that a file
// keeps in another format do not fit the range of half precision. All products are exact in
// float32. Then come spans: scale, zero point, codes; or, where a row has one zero point for all of
// its spans, that zero point, and spans of scale and codes.
//   4 bits: zero point of a byte, 0 to 255; of each 32 codes byte j has code j in its low nibble
//   and
//           code j + 16 in its high one, as in Q4_0
//   8 bits: codes are signed bytes, the file's less 128, and so are zero points, as halves
#pragma once

#include <cstdint>

#include "quant/encoding.h"
#include "quant/group_row.h"

namespace quire {

// As the span of all groups of a row.
inline constexpr int kRowSpanShift = 40;

constexpr bool is_zero_groups(Encoding encoding) {
  return encoding >= Encoding::kUint4Zero32 && encoding <= Encoding::kInt8Scale64;
}

// Where the numbers of a row lie.
struct ZeroGroups {
  int code_bits = 4;
  int span_shift = 0;  // a span has 1 << span_shift groups of 32
  bool zero_of_row = false;

  constexpr std::int64_t code_bytes() const { return code_bits * 4; }  // of a group
  constexpr std::int64_t zero_bytes() const { return code_bits == 4 ? 1 : 2; }
  constexpr std::int64_t row_header_bytes() const {
    return kFactorBytes + (zero_of_row ? zero_bytes() : 0);
  }
  constexpr std::int64_t header_bytes() const { return 2 + (zero_of_row ? 0 : zero_bytes()); }
  // From the start of a row to a group's span, and to its codes.
  constexpr std::int64_t span_offset(std::int64_t group) const {
    const std::int64_t span = group >> span_shift;
    return row_header_bytes() + span * header_bytes() + (span << span_shift) * code_bytes();
  }
  constexpr std::int64_t codes_offset(std::int64_t group) const {
    const std::int64_t before = group - (group >> span_shift << span_shift);
    return span_offset(group) + header_bytes() + before * code_bytes();
  }

  // From the start of a row to a group's zero point.
  constexpr std::int64_t zero_offset(std::int64_t group) const {
    return zero_of_row ? kFactorBytes : span_offset(group) + 2;
  }

  static constexpr std::int64_t kFactorBytes = 4;
};

// `encoding` is one of them.
constexpr ZeroGroups zero_groups(Encoding encoding) {
  const bool four = encoding < Encoding::kInt8Zero32;
  const int index = static_cast<int>(encoding) -
                    static_cast<int>(four ? Encoding::kUint4Zero32 : Encoding::kInt8Zero32);
  constexpr int kShifts[] = {0, 1, 2, kRowSpanShift, 0, 1, 2};
  return {.code_bits = four ? 4 : 8, .span_shift = kShifts[index], .zero_of_row = index >= 4};
}

// The encoding of rows whose spans have `span` inputs of `inputs`, the widest that stores them;
// spans are a whole number of groups. zero_of_row: all spans of a row have one zero point.
Encoding zero_groups_encoding(int code_bits, std::int64_t span, std::int64_t inputs,
                              bool zero_of_row);

// A row of `count` weights.
void decode_zero_groups(Encoding encoding, const std::uint8_t* row, std::int64_t count, float* out);

}  // namespace quire
