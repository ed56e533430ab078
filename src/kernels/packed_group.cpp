#include "kernels/packed_group.h"

#include <cstring>

#include "kernels/codebook_panel.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

// Where the four codes of a quad of output n lie: four bytes with the lowest bits from a bit on,
// and, below eight bits and above four, four bytes with the bits above those.
struct QuadPlace {
  std::int64_t low;
  int low_shift;
  std::int64_t high;
  int high_shift;
};

QuadPlace place_of(const GroupLayout& layout, int quad, std::int64_t n) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t byte = n * 4;
  const std::int64_t low = quad % 4 * kLine + byte;
  const int half = quad / 4;
  switch (layout.code_bits) {
    case 8:
      return {quad * kLine + byte, 0, 0, 0};
    case 5:
      return {low, half * 4, 4 * kLine + byte, quad};
    case 6:
      return {low, half * 4, (4 + half) * kLine + byte, quad % 4 * 2};
    default:
      return {low, half * 4, 0, 0};
  }
}

float half_to_float(const std::uint8_t* data) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof(bits));
  return f16_to_float(bits);
}

// FP8 e4m3 (tensor/float_convert.h) in steps of the smallest number, 2^-9.
int e4m3_steps(std::uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const int magnitude = exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Of group `index`, before factors; `scale` is the group's.
float minimum_of(const GroupLayout& layout, const std::uint8_t* panel, std::int64_t index,
                 std::int64_t n, float scale) {
  if (!layout.has_minimum) return 0;
  if (layout.span != ScaleSpan::kZeroGroups) {
    return half_to_float(panel + layout.block_offset(index) + layout.minimum_offset() + 2 * n);
  }
  const std::uint8_t* zeros = panel + layout.zeros_offset(index);
  return -scale *
         (layout.code_bits == 4 ? static_cast<float>(zeros[n]) : half_to_float(zeros + 2 * n));
}

// Of output n of the group at `data`, the zero subtracted; of floats their steps.
void read_codes(const GroupLayout& layout, const std::uint8_t* data, std::int64_t n,
                int (&codes)[kGroupSize]) {
  if (layout.float_codes) {
    for (int k = 0; k < kGroupSize; ++k) {
      codes[k] = e4m3_steps(data[(k / 2 * kPanelOutputs + n) * 2 + k % 2]);
    }
    return;
  }
  const bool is_signed = layout.code_bits == 8;
  const int high_mask = is_signed ? 0 : (1 << (layout.code_bits - 4)) - 1;
  for (int quad = 0; quad < kGroupSize / 4; ++quad) {
    const QuadPlace place = place_of(layout, quad, n);
    for (int i = 0; i < 4; ++i) {
      const int low = data[place.low + i];
      const int high = data[place.high + i] >> place.high_shift & high_mask;
      codes[quad * 4 + i] = is_signed ? static_cast<std::int8_t>(low)
                                      : (low >> place.low_shift & 15) + 16 * high - layout.zero;
    }
  }
}

// Calls put(i, code) for every input of the group.
template <typename Put>
void for_each_codebook_code(const CodebookPanel& form, const std::uint8_t* panel,
                            std::int64_t index, std::int64_t n, const Put& put) {
  const std::uint8_t* codes = panel + form.codes_offset(index);
  constexpr GroupLayout kCodes = {.code_bits = 4};
  for (int quad = 0; quad < kGroupSize / 4; ++quad) {
    const QuadPlace place = place_of(kCodes, quad, n);
    for (int i = 0; i < 4; ++i) put(quad * 4 + i, codes[place.low + i] >> place.low_shift & 15);
  }
}

}  // namespace

PackedGroup read_packed_group(const GroupLayout& layout, const std::uint8_t* panel,
                              std::int64_t index, std::int64_t n) {
  const std::uint8_t* block = panel + layout.block_offset(index);
  const std::uint8_t* data = block + layout.group_offset(index);
  PackedGroup group;
  read_codes(layout, data, n, group.codes);
  if (layout.span == ScaleSpan::kHalfGroup) {
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* scales = block + layout.scale_offset() + 64 * half + 4 * n;
      std::memcpy(&group.scales[half], scales, sizeof(float));
      group.minima[half] = 0.0F;
      if (layout.has_minimum) std::memcpy(&group.minima[half], scales + 128, sizeof(float));
    }
    return group;
  }
  float scale = 0;
  if (layout.panel_header_bytes() != 0) std::memcpy(&scale, panel + 4 * n, sizeof(scale));
  if (layout.span == ScaleSpan::kZeroGroups) {
    scale *= half_to_float(block + layout.scale_offset() + 2 * n);
  } else if (layout.span == ScaleSpan::kPanelBlocks) {
    std::memcpy(&scale, block, sizeof(scale));
  } else if (layout.span != ScaleSpan::kRow) {
    scale = half_to_float(block + layout.scale_offset() + 2 * n);
  }
  if (layout.float_codes) scale *= 0x1.0p-9F;
  group.scales[0] = group.scales[1] = scale;
  float minimum = minimum_of(layout, panel, index, n, scale);
  const std::uint8_t* factors = data + layout.code_bytes() + n;
  switch (layout.factors) {
    case ScaleFactors::kNone:
      break;
    case ScaleFactors::kGroup:
      group.scales[0] = group.scales[1] = scale * static_cast<float>(factors[0]);
      minimum *= static_cast<float>(factors[16]);
      break;
    case ScaleFactors::kHalfGroup:
      group.scales[0] = scale * static_cast<float>(static_cast<std::int8_t>(factors[0]));
      group.scales[1] = scale * static_cast<float>(static_cast<std::int8_t>(factors[16]));
      break;
  }
  group.minima[0] = group.minima[1] = minimum;
  return group;
}

void read_codebook_group(WeightLayout layout, const std::uint8_t* panel, std::int64_t inputs,
                         std::int64_t index, std::int64_t n, float* out) {
  const CodebookPanel form = CodebookPanel::of(layout);
  const float* table = codebook_table(codebook_of(layout));
  const float scale = form.scale(panel, inputs, index, n);
  for_each_codebook_code(form, panel, index, n,
                         [&](int i, int code) { out[i] = scale * table[code]; });
}

PackedGroup read_codebook_integers(WeightLayout layout, const std::uint8_t* panel,
                                   std::int64_t inputs, std::int64_t index, std::int64_t n) {
  const CodebookPanel form = CodebookPanel::of(layout);
  const CodebookIntegers& integers = codebook_integers(codebook_of(layout));
  PackedGroup group = {};
  for (float& scale : group.scales) scale = form.scale(panel, inputs, index, n) * integers.unit;
  for_each_codebook_code(form, panel, index, n,
                         [&](int i, int code) { group.codes[i] = integers.values[code]; });
  return group;
}

}  // namespace quire
