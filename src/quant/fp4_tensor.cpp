#include "quant/fp4_tensor.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::int64_t kMxInputs = 32;  // that share a scale
constexpr std::int64_t kNvInputs = 16;
constexpr std::uint8_t kLargestE4m3 = 0x7E;

// `bytes` of nibbles, neighbours in one byte, as low nibbles of the first half and high ones of the
// second.
void part_neighbours(const std::uint8_t* pairs, std::size_t bytes, std::uint8_t* out) {
  const std::size_t half = bytes / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const unsigned int low = pairs[i];
    const unsigned int high = pairs[half + i];
    out[2 * i] = static_cast<std::uint8_t>((low & 15U) | (high & 15U) << 4U);
    out[2 * i + 1] = static_cast<std::uint8_t>(low >> 4U | (high & 0xF0U));
  }
}

// Blocks of four scales, then the codes of 16 inputs for each.
void write_nvfp4_row(const Fp4Tensor& tensor, const std::uint8_t* codes, const std::uint8_t* scales,
                     std::uint8_t* out) {
  std::memcpy(out, &tensor.divisor, sizeof(tensor.divisor));
  out += sizeof(tensor.divisor);
  for (std::int64_t group = 0; group < tensor.cols / kNvInputs; group += 4) {
    std::memcpy(out, scales + group, 4);
    out += 4;
    for (int i = 0; i < 4; ++i, out += kNvInputs / 2, codes += kNvInputs / 2) {
      part_neighbours(codes, kNvInputs / 2, out);
    }
  }
}

}  // namespace

void write_mxfp4_block(std::uint8_t scale, const std::uint8_t* pairs, std::uint8_t* out) {
  *out = scale;
  part_neighbours(pairs, kMxInputs / 2, out + 1);
}

Encoding rows_encoding(const Fp4Tensor& tensor) {
  return tensor.has_divisor ? Encoding::kNVFP4Scaled : Encoding::kMXFP4;
}

Status encode_rows(const Fp4Tensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out) {
  const auto row_bytes = encoded_row_bytes(rows_encoding(tensor), tensor.cols).value_or(0);
  const std::int64_t groups = tensor.cols / (tensor.has_divisor ? kNvInputs : kMxInputs);
  const std::uint8_t largest = tensor.has_divisor ? kLargestE4m3 : kLargestMxScale;
  for (std::int64_t row = first; row < first + count; ++row, out += row_bytes) {
    const std::uint8_t* scales = tensor.scales + row * groups;
    const std::uint8_t* codes = tensor.codes + row * (tensor.cols / 2);
    if (*std::max_element(scales, scales + groups) > largest) {
      return Status::bad_model(
          fmt::format("output {} has a scale that is not finite, or negative", row),
          "fetch the file again");
    }
    if (tensor.has_divisor) {
      write_nvfp4_row(tensor, codes, scales, out);
      continue;
    }
    for (std::int64_t g = 0; g < groups; ++g) {
      write_mxfp4_block(scales[g], codes + g * (kMxInputs / 2), out + g * (kMxInputs / 2 + 1));
    }
  }
  return {};
}

}  // namespace quire
