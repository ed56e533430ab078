// A matrix as GPTQ, AWQ, compressed-tensors and their like write it: codes in one tensor, a scale
// and maybe a zero point for some inputs of each output in others. Here it is brought into rows of
// one of the encodings that are packed, without loss: those with zero points (quant/zero_groups.h),
// or, where a row has one scale and no zero point, kInt8Row; codes of 2 and 3 bits are those of
// quant/hqq_block.h, and floats of eight bits kF8Row and kF8Block128.
//
//   w[n][k] = scale[n][k / span] * (code[n][k] - zero[n][k / span])
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "quant/encoding.h"
#include "quant/packed_ints.h"

namespace quire {

// Borrows all data; who makes one has checked that all of it is there.
struct GroupedTensor {
  std::int64_t rows = 0;  // outputs
  std::int64_t cols = 0;  // inputs, a multiple of 32
  std::int64_t span = 0;  // inputs that share a scale: a multiple of 32 that divides `cols`

  PackedInts codes;            // [cols][rows] or [rows][cols]
  bool codes_by_input = true;  // the former
  // Codes are e4m3, without zero points; one scale for all inputs, or for 128 of 128 outputs.
  bool is_float = false;
  // Codes of eight bits, and zero points with them, are signed bytes.
  bool is_signed = false;

  const std::uint8_t* scales = nullptr;
  Encoding scale_encoding = Encoding::kF16;  // or kBF16, kF32
  std::int64_t rows_per_scale = 1;           // outputs that share one
  std::int64_t scale_row_stride = 0;         // elements from those to the next,
  std::int64_t scale_span_stride = 0;        // and from one span to the next

  float scale_unit = 1.0F;  // that all are to be multiplied with

  bool has_zeros = false;
  PackedInts zeros;           // [spans][rows] or [rows][spans]
  bool zeros_by_span = true;  // the former
  int zero = 0;               // the zero point where there are none, else what is to be added

  // Which input is at each place of a row, so that those of a span are neighbours; empty: as it is.
  std::vector<std::int32_t> order;
};

// The encoding that encode_rows() gives.
Encoding rows_encoding(const GroupedTensor& tensor);

// Rows [first, first + count) as rows_encoding() has them, encoded_row_bytes() each. kBadModel for
// scales that are not finite, kUnimplemented for those that half precision cannot express.
Status encode_rows(const GroupedTensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out);

}  // namespace quire
