// A matrix as HQQ writes it (Badri and Shaji 2023, Half-Quadratic Quantization;
// hqq/core/quantize.py and bitpack.py), brought into rows of quant/hqq_block.h, without loss.
// Groups of neighbouring inputs (axis 1) are the rows of a smaller matrix, each with a scale and a
// zero point. Codes are packed across these rows: of `n` in a byte or word, the first, in the
// highest bits, is of the first n-th of the rows, the next one of the second.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "quant/encoding.h"

namespace quire {

// Borrows all data; who makes one has checked that all of it is there.
struct HqqTensor {
  std::int64_t rows = 0;  // outputs
  std::int64_t cols = 0;  // inputs
  std::int64_t span = 0;  // inputs of a group: a multiple of 32 that divides `cols`
  int bits = 4;           // of a code: 1, 2, 3, 4 or 8
  // [packed_rows()][span] bytes of 8 / bits codes, or words of ten of 3 bits
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;  // [rows * cols / span]
  const std::uint8_t* zeros = nullptr;   // the same
  Encoding numbers = Encoding::kF16;     // of both: or kBF16, kF32

  std::int64_t groups() const { return rows * (cols / span); }
  // Codes in a byte or word, and rows of these.
  std::int64_t codes_together() const { return bits == 3 ? 10 : 8 / bits; }
  std::int64_t packed_rows() const { return (groups() + codes_together() - 1) / codes_together(); }
};

// The encoding that encode_rows() gives.
Encoding rows_encoding(const HqqTensor& tensor);

// Rows [first, first + count) as rows_encoding() has them, encoded_row_bytes() each. kBadModel for
// scales and zero points that are not finite, kUnimplemented for those that half precision does not
// hold.
Status encode_rows(const HqqTensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out);

}  // namespace quire
