// Blocks of codes of few bits whose scales have zero points: those of HQQ (Badri and Shaji 2023,
// Half-Quadratic Quantization), and those that GPTQ's codes of 2 and 3 bits come to
// (quant/grouped_tensor.h). 32, 64, 128 or 256 inputs, a span, share a half-precision scale and a
// zero point:
//   w = scale / divisor * (code - zero)
// A row begins with its divisor, a float and a power of two: it is one, unless scales that a file
// keeps in another format do not fit the range of half precision. A block is scales, zero points
// and, for each 32 inputs, 32 codes of 2, 3, 4 or 8 bits.
//   HQQ   zero points need be no integers: a block has one span, and one, of half precision
//   GPTQ  zero points are 0 to 8: a byte has those of the block's one or two spans, the first in
//         its low nibble. Blocks of narrow spans have two, so that no nibble is in vain.
// Codes of 4 bits: byte j has code j in its low nibble and code j + 16 in its high one, as in Q4_0.
// Others: one after the other, the first in the lowest bits.
#pragma once

#include <cstdint>

#include "quant/compact_block.h"
#include "quant/encoding.h"

namespace quire {

// Of HQQ or GPTQ.
constexpr bool is_hqq(Encoding encoding) {
  return encoding >= Encoding::kHqq2Span32 && encoding <= Encoding::kGptq3Span256;
}

struct HqqForm {
  int bits = 4;              // of a code
  std::int64_t span = 64;    // inputs that share a scale and a zero point
  std::int64_t spans = 1;    // of a block
  bool whole_zeros = false;  // a nibble each: GPTQ's

  constexpr std::int64_t block_inputs() const { return spans * span; }
  constexpr std::int64_t group_bytes() const { return kGroupSize / 8 * bits; }
  // Scales and zero points.
  constexpr std::int64_t header_bytes() const { return 2 * spans + (whole_zeros ? 1 : 2); }
};

// `encoding` is one of them.
HqqForm hqq_form(Encoding encoding);

// The encoding of rows of `cols` inputs for codes of `bits` (1 to 4, or 8), `span` (a multiple of
// 32) of which share a scale: the one that takes the fewest bytes. whole_zeros: zero points are 0
// to 8.
Encoding hqq_encoding(int bits, std::int64_t span, std::int64_t cols, bool whole_zeros = false);

// 32 codes as a block has them.
void write_hqq_codes(const int* codes, int bits, std::uint8_t* out);

// As expand_block(): scales are not yet divided.
void expand_hqq_block(Encoding encoding, const std::uint8_t* block, CompactGroup* groups);

// As is_finite_block().
bool is_finite_hqq_block(Encoding encoding, const std::uint8_t* block);

}  // namespace quire
