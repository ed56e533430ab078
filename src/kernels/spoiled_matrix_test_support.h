// Which bytes of a TestMatrix are codes, and matrices with a scale that is not finite.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/matmul_test_support.h"

namespace quire {

// Where a block's floating-point scales lie; what is not in them may be any bits.
inline bool is_scale_byte(Encoding encoding, std::size_t byte_of_block) {
  switch (encoding) {
    case Encoding::kQ6_K:
      return byte_of_block >= 208;
    case Encoding::kQ2_K:
      return byte_of_block >= 80;
    case Encoding::kQ3_K:
      return byte_of_block >= 108;
    case Encoding::kTQ1_0:
      return byte_of_block >= 52;
    case Encoding::kTQ2_0:
      return byte_of_block >= 64;
    case Encoding::kIQ1_M:
      return byte_of_block >= 48;  // with factors in between
    case Encoding::kMXFP4:
      return byte_of_block < 1;
    case Encoding::kQ8_0:
    case Encoding::kQ4_0:
    case Encoding::kQ5_0:
    case Encoding::kIQ4_NL:
    case Encoding::kIQ4_XS:
    case Encoding::kIQ2_XXS:
    case Encoding::kIQ2_XS:
    case Encoding::kIQ2_S:
    case Encoding::kIQ3_XXS:
    case Encoding::kIQ3_S:
    case Encoding::kIQ1_S:
      return byte_of_block < 2;
    default:
      return byte_of_block < 4;
  }
}

// Gives a block a scale that is not finite; false where the encoding has no such scale.
inline bool spoil_block(Encoding encoding, std::uint8_t* block) {
  switch (encoding) {
    case Encoding::kNVFP4:
      return false;
    case Encoding::kMXFP4:
      block[0] = 0xFF;
      return true;
    case Encoding::kQ8_K:
      std::memcpy(block, "\0\0\x80\x7F", 4);
      return true;
    case Encoding::kIQ1_M:
      block[53] = 0xCF;  // of the scale, 0x7C00: its bits 8 to 11
      block[55] = 0x7F;  // 12 to 15
      return true;
    default:
      break;
  }
  std::size_t at = 0;
  while (!is_scale_byte(encoding, at)) ++at;
  std::memcpy(block + at, "\0\x7C", 2);
  return true;
}

// Whether byte `at` of a matrix may be any bits.
inline bool is_code_byte(const TestMatrix& matrix, std::size_t at) {
  const auto row_bytes = matrix.data.size() / static_cast<std::size_t>(matrix.rows);
  if (matrix.encoding == Encoding::kInt8Row) return at % row_bytes >= 4;
  if (is_hqq(matrix.encoding)) {
    const auto block = static_cast<std::size_t>(encoding_traits(matrix.encoding).block_bytes);
    const auto header = static_cast<std::size_t>(hqq_form(matrix.encoding).header_bytes());
    return at % row_bytes >= 4 && (at % row_bytes - 4) % block >= header;
  }
  if (matrix.encoding == Encoding::kNVFP4Scaled) {
    return at % row_bytes >= 4 && (at % row_bytes - 4) % 36 >= 4;
  }
  if (is_codebook(matrix.encoding)) {
    const CodebookGroups form = codebook_groups(matrix.encoding);
    const auto byte = static_cast<std::int64_t>(at % row_bytes);
    for (std::int64_t g = 0; g < matrix.cols / kGroupSize; ++g) {
      const std::int64_t codes = form.codes_offset(matrix.cols, g);
      if (byte >= codes && byte < codes + kHalfGroupSize) return true;
    }
    return false;
  }
  if (is_zero_groups(matrix.encoding)) {
    const ZeroGroups form = zero_groups(matrix.encoding);
    const auto byte = static_cast<std::int64_t>(at % row_bytes);
    for (std::int64_t g = 0; g < matrix.cols / kGroupSize; ++g) {
      const std::int64_t codes = form.codes_offset(g);
      if (byte >= codes && byte < codes + form.code_bytes()) return true;
    }
    return false;
  }
  const EncodingTraits& traits = encoding_traits(matrix.encoding);
  return !is_scale_byte(matrix.encoding, at % static_cast<std::size_t>(traits.block_bytes));
}

// Makes a scale of the last row one that is not finite; false where there is none.
inline bool spoil_last_row(TestMatrix& matrix) {
  std::uint8_t* row = matrix.data.data() + matrix.data.size() -
                      matrix.data.size() / static_cast<std::size_t>(matrix.rows);
  if (matrix.encoding == Encoding::kInt8Row) {
    std::memcpy(row, "\0\0\x80\x7F", 4);
    return true;
  }
  if (matrix.encoding == Encoding::kNVFP4Scaled || is_hqq(matrix.encoding)) {
    std::memcpy(row, "\0\0\x80\x7F", 4);
    return true;
  }
  if (is_codebook(matrix.encoding)) {
    const CodebookGroups form = codebook_groups(matrix.encoding);
    const std::int64_t last = matrix.cols / kGroupSize - 1;
    const std::int64_t at = form.nested ? 0 : form.span_offset(matrix.cols, last);
    std::memcpy(row + at, "\0\0\x80\x7F", 4);
    return true;
  }
  if (is_zero_groups(matrix.encoding)) {
    const std::int64_t last = matrix.cols / kGroupSize - 1;
    std::memcpy(row + zero_groups(matrix.encoding).span_offset(last), "\0\x7C", 2);
    return true;
  }
  const auto block = static_cast<std::size_t>(encoding_traits(matrix.encoding).block_bytes);
  return spoil_block(matrix.encoding, matrix.data.data() + matrix.data.size() - block);
}

}  // namespace quire
