// Floats to the encodings of checkpoint files: the other direction of quant/'s decode_row. Plain
// rounding, block by block, without the searches for better scales that tools for published models
// make: random weights have no quality to keep, only a size and a range.
#pragma once

#include <cstdint>

#include "quant/encoding.h"

namespace quire {

// What encode_row can write: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q4_K, Q6_K.
bool can_encode(Encoding encoding);

// `count` is a whole number of the encoding's blocks, and can_encode(encoding). Each weight decodes
// to a nearest value of its block's grid; the grid covers the block's range.
void encode_row(Encoding encoding, const float* weights, std::int64_t count, std::uint8_t* out);

}  // namespace quire
