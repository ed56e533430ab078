// The types that weights are planned in: how many bits one has, and what it is multiplied in.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace quire {

// What products are computed in; from the widest.
enum class Arithmetic : std::uint8_t { kF32, kBF16, kF8, kI8, kF4 };
std::string_view arithmetic_name(Arithmetic arithmetic);  // "fp32", "bf16", "fp8", "int8", "fp4"
Result<Arithmetic> parse_arithmetic(std::string_view name);

// A format of the matrices of layers. What quantized formats leave alone, as published checkpoints
// do (embeddings, the output matrix, norms, biases, routers), has `other_bits` a number.
struct NumberFormat {
  std::string_view name;
  double bits = 0;         // of one weight
  double scale_bits = 0;   // of scales and zero points, for each weight
  double other_bits = 16;  // of a number that is left alone
  Arithmetic arithmetic = Arithmetic::kBF16;
  std::string_view note;  // what the scales are

  double bytes_per_weight() const { return (bits + scale_bits) / 8; }
};

// fp32, bf16 (fp16 is another name of its size), fp8, int8, int4, fp4 (mxfp4 and the like).
std::span<const NumberFormat> number_formats();
// kInvalidArgument naming those that there are. Takes float32, bfloat16, float16, f16 ... too.
Result<NumberFormat> find_number_format(std::string_view name);

}  // namespace quire
