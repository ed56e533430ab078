// Quantizing the float weights of a checkpoint while they are loaded. Symmetric 8 bits with one
// scale for each output, or 4 bits with a scale and a minimum for each group of 128 inputs of an
// output; matrices only, and those of the vocabulary with 8 bits in both.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace quire {

enum class LoadQuantization : std::uint8_t {
  kNone,
  kInt8,  // w = scale * code, codes -127..127
  kInt4   // w = scale * code + minimum, codes 0..15
};

inline constexpr std::int64_t kInt4GroupSize = 128;

std::string_view load_quantization_name(LoadQuantization quantization);  // "none", "int8", "int4"

// kInvalidArgument for another name.
Result<LoadQuantization> parse_load_quantization(std::string_view name);

// Rounds `count` finite weights, a multiple of 8, to codes; returns the scale, the largest
// magnitude / 127.
float quantize_int8_row(const float* weights, std::int64_t count, std::int8_t* codes);

// Half bits.
struct Int4Scale {
  std::uint16_t scale = 0;
  std::uint16_t minimum = 0;
};

// Rounds `count` finite weights (a multiple of 8, at most a group) to codes. The scale spreads 16
// values over their range, and the minimum is a whole number of steps, so that zero stays zero:
// that mattered more to the logits than the squared error (docs/performance.md). Weights beyond the
// range of half precision give a scale or minimum that is not finite.
Int4Scale quantize_int4_group(const float* weights, std::int64_t count, std::uint8_t* codes);

}  // namespace quire
