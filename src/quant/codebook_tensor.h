// A matrix as bitsandbytes writes it in four bits, brought into rows of quant/codebook_groups.h,
// without loss. Its weights are one sequence, row after row, cut into blocks that share a scale;
// where blocks do not end with rows, their parts have the scale each.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "quant/codebook_groups.h"
#include "quant/encoding.h"

namespace quire {

// Borrows all data; who makes one has checked that all of it is there.
struct CodebookTensor {
  std::int64_t rows = 0;  // outputs
  std::int64_t cols = 0;  // inputs, a multiple of 64
  Codebook codebook = Codebook::kNF4;
  std::int64_t block = 64;  // weights that share a scale: a power of two, 64 or more

  const std::uint8_t* codes = nullptr;   // [rows * cols / 2], the first of two in the high nibble
  const std::uint8_t* scales = nullptr;  // [blocks] floats; nested: bytes

  // Nested: a scale is map[byte] * unit + offset.
  bool nested = false;
  const std::uint8_t* units = nullptr;  // [blocks / kMinNestedRun, rounded up] floats
  const std::uint8_t* map = nullptr;    // [256] floats
  float offset = 0;
};

// The encoding that encode_rows() gives. Nested scales whose map is not kNestedScales become
// floats.
Encoding rows_encoding(const CodebookTensor& tensor);

// Rows [first, first + count) as rows_encoding() has them, encoded_row_bytes() each. kBadModel for
// scales that are not finite.
Status encode_rows(const CodebookTensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out);

}  // namespace quire
