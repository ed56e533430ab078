// A matrix of floats of four bits (E2M1) whose groups share a scale, as compressed-tensors writes
// it, brought into rows of a compact encoding, without loss: MXFP4 with a power of two (e8m0) for
// 32 inputs, or kNVFP4Scaled with an e4m3 for 16 and a number by which all of these are divided.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "quant/encoding.h"

namespace quire {

// Borrows all data; who makes one has checked that all of it is there.
struct Fp4Tensor {
  std::int64_t rows = 0;                 // outputs
  std::int64_t cols = 0;                 // inputs: a multiple of 32 or, with a divisor, 64
  const std::uint8_t* codes = nullptr;   // [rows][cols / 2], the first of two in the low nibble
  const std::uint8_t* scales = nullptr;  // [rows][cols / 32] e8m0, or [rows][cols / 16] e4m3
  bool has_divisor = false;              // the latter
  float divisor = 1.0F;
};

// The encoding that encode_rows() gives.
Encoding rows_encoding(const Fp4Tensor& tensor);

// Rows [first, first + count) as rows_encoding() has them, encoded_row_bytes() each. kBadModel for
// scales that are not finite, negative, or of numbers that float32 cannot express.
Status encode_rows(const Fp4Tensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out);

// A block of MXFP4 from its scale and 16 bytes that have neighbours side by side.
void write_mxfp4_block(std::uint8_t scale, const std::uint8_t* pairs, std::uint8_t* out);

// 6 * 2^(252 - 127) is below 2^128.
inline constexpr std::uint8_t kLargestMxScale = 252;

}  // namespace quire
