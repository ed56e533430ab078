// Blocks of HQQ (Badri and Shaji 2023, Half-Quadratic Quantization): 32, 64 or 128 inputs that
// share a half-precision scale and a zero point, which need be no integer:
//   w = scale / divisor * (code - zero)
// A row begins with its divisor, a float and a power of two: it is one, unless scales that a file
// keeps in another format do not fit the range of half precision. A block is scale, zero point and,
// for each 32 inputs, 32 codes of 2, 3, 4 or 8 bits:
//   4 bits: byte j has code j in its low nibble and code j + 16 in its high one, as in Q4_0
//   others: one after the other, the first in the lowest bits
// GPTQ's codes of 2 and 3 bits come to the same (quant/grouped_tensor.h).
#pragma once

#include <cstdint>

#include "quant/compact_block.h"
#include "quant/encoding.h"

namespace quire {

constexpr bool is_hqq(Encoding encoding) {
  return encoding >= Encoding::kHqq2Span32 && encoding <= Encoding::kHqq8Span64;
}

struct HqqForm {
  int bits = 4;            // of a code
  std::int64_t span = 64;  // inputs of a block

  constexpr std::int64_t group_bytes() const { return kGroupSize / 8 * bits; }
};

inline constexpr std::int64_t kHqqHeaderBytes = 4;  // scale and zero point

// `encoding` is one of them.
HqqForm hqq_form(Encoding encoding);

// The encoding for codes of `bits` (1 to 4, or 8), `span` (a multiple of 32) of which share a
// scale: the narrowest codes and, of these, the widest block that hold them.
Encoding hqq_encoding(int bits, std::int64_t span);

// 32 codes as a block has them.
void write_hqq_codes(const int* codes, int bits, std::uint8_t* out);

// As expand_block(): scales are not yet divided.
void expand_hqq_block(Encoding encoding, const std::uint8_t* block, CompactGroup* groups);

}  // namespace quire
