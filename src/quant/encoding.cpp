#include "quant/encoding.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "quant/codebook_groups.h"
#include "quant/compact_block.h"
#include "quant/group_row.h"
#include "quant/zero_groups.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

constexpr std::array<EncodingTraits, kNumEncodings> kTraits = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"uint4_zero32", 32, 19, 4},
    {"uint4_zero64", 64, 35, 4},
    {"uint4_zero128", 128, 67, 4},
    {"uint4_zero_row", 32, 16, 7},
    {"uint4_scale32", 32, 18, 5},
    {"uint4_scale64", 64, 34, 5},
    {"uint4_scale128", 128, 66, 5},
    {"int8_zero32", 32, 36, 4},
    {"int8_zero64", 64, 68, 4},
    {"int8_zero128", 128, 132, 4},
    {"int8_zero_row", 32, 32, 8},
    {"int8_scale32", 32, 34, 6},
    {"int8_scale64", 64, 66, 6},
    {"int8_row", 32, 32, 4},
    {"f8_row", 32, 32, 4},
    {"f8_block128", 128, 132},
    {"nf4_span64", 64, 36},
    {"nf4_span128", 128, 68},
    {"nf4_span256", 256, 132},
    {"nf4_nested64", 64, 33, 16},
    {"nf4_nested128", 128, 65, 16},
    {"nf4_nested256", 256, 129, 16},
    {"fp4_span64", 64, 36},
    {"fp4_span128", 128, 68},
    {"fp4_span256", 256, 132},
    {"fp4_nested64", 64, 33, 16},
    {"fp4_nested128", 128, 65, 16},
    {"fp4_nested256", 256, 129, 16},
    {"U8", 1, 1},
    {"I8", 1, 1},
    {"I32", 1, 4},
    {"I64", 1, 8},
    {"F8_E4M3", 1, 1},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q8_K", 256, 292},
    {"IQ4_NL", 32, 18},
    {"IQ4_XS", 256, 136},
    {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},
    {"IQ2_XXS", 256, 66},
    {"IQ2_XS", 256, 74},
    {"IQ2_S", 256, 82},
    {"IQ3_XXS", 256, 98},
    {"IQ3_S", 256, 110},
    {"IQ1_S", 256, 50},
    {"IQ1_M", 256, 56},
    {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},
    {"nvfp4_scaled", 64, 36, 4},
    {"hqq2_span32", 32, 12, 4},
    {"hqq2_span64", 64, 20, 4},
    {"hqq2_span128", 128, 36, 4},
    {"hqq2_span256", 256, 68, 4},
    {"hqq3_span32", 32, 16, 4},
    {"hqq3_span64", 64, 28, 4},
    {"hqq3_span128", 128, 52, 4},
    {"hqq4_span32", 32, 20, 4},
    {"hqq4_span64", 64, 36, 4},
    {"hqq4_span128", 128, 68, 4},
    {"hqq4_span256", 256, 132, 4},
    {"hqq8_span32", 32, 36, 4},
    {"hqq8_span64", 64, 68, 4},
    {"hqq8_span128", 128, 132, 4},
    {"gptq2_span32", 64, 21, 4},
    {"gptq2_span64", 128, 37, 4},
    {"gptq2_span128", 128, 35, 4},
    {"gptq2_span256", 256, 67, 4},
    {"gptq3_span32", 64, 29, 4},
    {"gptq3_span64", 128, 53, 4},
    {"gptq3_span128", 128, 51, 4},
    {"gptq3_span256", 256, 99, 4},
}};

std::uint16_t load_u16(const std::uint8_t* data) {
  std::uint16_t value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

// f16_to_float() without branches, so that the compiler can use vectors: moving the exponent's
// place and multiplying is exact, and makes numbers of subnormal ones.
float widen_f16(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7FFFU) << 13;
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t beyond = magnitude >= 0x0F800000U ? 0x7F800000U : 0U;  // infinity, NaN
  const float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign | beyond);
}

void decode_group(const CompactGroup& group, float* out) {
  for (int i = 0; i < kGroupSize; ++i) {
    const int half = i / kHalfGroupSize;
    const float product = group.scales[half] * static_cast<float>(group.codes[i]);
    out[i] = product + group.minima[half];
  }
}

// A float scale before each `span` weights.
void decode_f8(const std::uint8_t* data, std::int64_t span, std::int64_t count, float* out) {
  for (std::int64_t from = 0; from < count; from += span, data += span) {
    float scale = 0;
    std::memcpy(&scale, data, sizeof(scale));
    data += sizeof(scale);
    for (std::int64_t i = 0; i < span; ++i) *out++ = scale * fp8_e4m3_to_float(data[i]);
  }
}

void decode_int8_row(const std::uint8_t* row, std::int64_t count, float* out) {
  float scale = 0;
  std::memcpy(&scale, row, sizeof(scale));
  row += sizeof(scale);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(row[i]));
  }
}

}  // namespace

const EncodingTraits& encoding_traits(Encoding encoding) {
  return kTraits[static_cast<std::size_t>(encoding)];
}

std::optional<std::uint64_t> encoded_row_bytes(Encoding encoding, std::int64_t cols) {
  const EncodingTraits& traits = encoding_traits(encoding);
  if (cols < 0 || cols % traits.block_elements != 0) return std::nullopt;
  const auto blocks = checked_mul(static_cast<std::uint64_t>(cols / traits.block_elements),
                                  static_cast<std::uint64_t>(traits.block_bytes));
  if (!blocks) return std::nullopt;
  const std::int64_t header = is_nested_codebook(encoding)
                                  ? codebook_groups(encoding).header_bytes(cols)
                                  : traits.row_header_bytes;
  return checked_add(*blocks, static_cast<std::uint64_t>(header));
}

bool holds_weights(Encoding encoding) {
  return encoding < Encoding::kU8 || encoding > Encoding::kF8E4M3;
}

void decode_row(Encoding encoding, const std::uint8_t* data, std::int64_t count, float* out) {
  switch (encoding) {
    case Encoding::kF32:
      std::memcpy(out, data, static_cast<std::size_t>(count) * 4);
      return;
    case Encoding::kF16:
      for (std::int64_t i = 0; i < count; ++i) out[i] = widen_f16(load_u16(data + 2 * i));
      return;
    case Encoding::kBF16:
      for (std::int64_t i = 0; i < count; ++i) out[i] = bf16_to_float(load_u16(data + 2 * i));
      return;
    default:
      break;
  }
  if (encoding == Encoding::kF8Row) return decode_f8(data, count, count, out);
  if (encoding == Encoding::kF8Block128) return decode_f8(data, 128, count, out);
  if (encoding == Encoding::kInt8Row) return decode_int8_row(data, count, out);
  if (is_codebook(encoding)) return decode_codebook(encoding, data, count, out);
  if (is_zero_groups(encoding)) return decode_zero_groups(encoding, data, count, out);
  if (is_compact(encoding)) {
    const EncodingTraits& traits = encoding_traits(encoding);
    CompactGroup groups[kMaxBlockGroups];
    const std::uint8_t* const row = data;
    data += traits.row_header_bytes;
    for (std::int64_t i = 0; i < count; i += traits.block_elements, data += traits.block_bytes) {
      expand_block(encoding, data, groups);
      if (traits.row_header_bytes != 0)
        divide_scales(row, traits.block_elements / kGroupSize, groups);
      for (std::int64_t at = 0; at < traits.block_elements; at += kGroupSize) {
        decode_group(groups[at / kGroupSize], out + i + at);
      }
    }
    return;
  }
  for (std::int64_t g = 0; g < count / kGroupSize; ++g, out += kGroupSize) {
    const WeightGroup group = read_group(encoding, data, g);
    const float scale = f16_to_float(group.scale);
    const float minimum = f16_to_float(group.minimum) * static_cast<float>(group.minimum_factor);
    for (int j = 0; j < kGroupSize; ++j) {
      const float factor = scale * static_cast<float>(group.scale_factors[j / kHalfGroupSize]);
      // Exact; then one rounding, as in the reference.
      const float product = factor * static_cast<float>(group.codes[j] - group.zero);
      out[j] = product + minimum;
    }
  }
}

}  // namespace quire
