// How a tensor's numbers are written in a checkpoint file. An encoding is not a compute layout:
// quant/ turns each encoding, without loss, into one of a few layouts that kernels know.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// The GGML block encodings are those of the GGUF specification (ggml/docs/gguf.md):
//   Q8_0: 32 weights = f16 scale d, 32 x i8;              w = d * q
//   Q4_0: 32 weights = f16 scale d, 16 bytes of nibbles;  w = d * (q - 8)
//   Q4_1: 32 weights = f16 d, f16 m, 16 bytes of nibbles; w = d * q + m
//   Q5_0: 32 weights = f16 d, 32 high bits, 16 bytes of nibbles;        w = d * (q - 16)
//   Q5_1: 32 weights = f16 d, f16 m, 32 high bits, 16 bytes of nibbles; w = d * q + m
// In Q4_* and Q5_* byte j has weight j in its low nibble and weight j + 16 in its high one; bit j
// of the high bits is the fifth bit of weight j.
// The K encodings have 256 weights in a block, scaled twice (ggml-quants.c):
//   Q4_K: f16 d, f16 dmin, 8 x (6-bit s, 6-bit m) in 12 bytes, 128 bytes of nibbles
//   Q5_K: as Q4_K, with 32 bytes of high bits before the nibbles;  w = d * s * q - dmin * m
//   Q6_K: 128 bytes of nibbles, 64 bytes of 2 high bits, 16 x i8 s, f16 d; w = d * s * (q - 32)
// with one s (and m) for 32 weights, in Q6_K for 16. All of a weight's products are exact in
// float32. compact_block.h says what the compact encodings are.
//
// What GPTQ, AWQ and their like write lies in several tensors, and not by rows; it is brought into
// rows before it is packed (quant/grouped_tensor.h), as one of the encodings of
// quant/zero_groups.h, quant/codebook_groups.h or quant/hqq_block.h. The others of the list are
// what safetensors files contain beside floats: parts of such tensors.
enum class Encoding : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kUint4Zero32,
  kUint4Zero64,
  kUint4Zero128,
  kUint4ZeroRow,
  kUint4Scale32,
  kUint4Scale64,
  kUint4Scale128,
  kInt8Zero32,
  kInt8Zero64,
  kInt8Zero128,
  kInt8ZeroRow,
  kInt8Scale32,
  kInt8Scale64,
  kInt8Row,     // a float scale, then signed bytes; w = scale * code
  kF8Row,       // a float scale, then e4m3; w = scale * code
  kF8Block128,  // the same for each 128 weights
  // bitsandbytes' (quant/codebook_groups.h).
  kNF4Span64,
  kNF4Span128,
  kNF4Span256,
  kNF4Nested64,
  kNF4Nested128,
  kNF4Nested256,
  kFP4Span64,
  kFP4Span128,
  kFP4Span256,
  kFP4Nested64,
  kFP4Nested128,
  kFP4Nested256,
  kU8,
  kI8,
  kI32,
  kI64,
  kF8E4M3,
  // Compact blocks.
  kQ2_K,
  kQ3_K,
  kQ8_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ1_S,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
  // Compact blocks of no GGUF file: a float before each row, by which scales are divided.
  kNVFP4Scaled,
  kHqq2Span32,  // quant/hqq_block.h
  kHqq2Span64,
  kHqq2Span128,
  kHqq2Span256,
  kHqq3Span32,
  kHqq3Span64,
  kHqq3Span128,
  kHqq4Span32,
  kHqq4Span64,
  kHqq4Span128,
  kHqq4Span256,
  kHqq8Span32,
  kHqq8Span64,
  kHqq8Span128,
  kGptq2Span32,
  kGptq2Span64,
  kGptq2Span128,
  kGptq2Span256,
  kGptq3Span32,
  kGptq3Span64,
  kGptq3Span128,
  kGptq3Span256
};
inline constexpr int kNumEncodings = 83;
inline constexpr Encoding kFirstCompact = Encoding::kQ2_K;

struct EncodingTraits {
  std::string_view name;        // "F32", "Q4_1", ...
  std::int64_t block_elements;  // weights in one block
  std::int64_t block_bytes;
  std::int64_t row_header_bytes = 0;  // before the first block of a row, of the shortest rows
};

const EncodingTraits& encoding_traits(Encoding encoding);

// Whether numbers of this encoding are weights that can be read without any others.
bool holds_weights(Encoding encoding);

// Bytes of a row of `cols` weights; nullopt if `cols` is not a whole number of blocks or too large.
std::optional<std::uint64_t> encoded_row_bytes(Encoding encoding, std::int64_t cols);

// A matrix as it lies in a checkpoint: `rows` x `cols`, row-major, rows contiguous. Borrows `data`.
struct EncodedMatrix {
  Encoding encoding = Encoding::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::uint8_t* data = nullptr;
  // [cols]: which input place j of a row is of; null: input j.
  const std::int32_t* input_order = nullptr;
};

// Decodes `count` weights (a whole number of blocks) to floats, exactly: each result is the float
// nearest to the encoding's formula evaluated in float32 as the reference implementation does. One
// row, where rows have a header.
void decode_row(Encoding encoding, const std::uint8_t* data, std::int64_t count, float* out);

}  // namespace quire
