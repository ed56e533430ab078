#include "apps/make_model/block_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/compact_block.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

constexpr int kGroup = 32;

void store_u16(std::uint8_t* out, std::uint16_t value) { std::memcpy(out, &value, sizeof(value)); }

// Writes `value` as a half and gives what a reader will see.
float store_half(std::uint8_t* out, float value) {
  const std::uint16_t half = float_to_f16(value);
  store_u16(out, half);
  return f16_to_float(half);
}

// The code of `weight` on a grid of `step`, in [low, high]; 0 where the grid is a single point.
int code_of(float weight, float step, int low, int high) {
  if (step == 0) return std::clamp(0, low, high);
  return std::clamp(static_cast<int>(std::lrint(weight / step)), low, high);
}

// The weight that is furthest from 0, with its sign.
float extreme(const float* weights, int count) {
  return *std::max_element(weights, weights + count,
                           [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

void encode_q8_0(const float* weights, std::uint8_t* out) {
  const float step = store_half(out, std::fabs(extreme(weights, kGroup)) / 127);
  for (int i = 0; i < kGroup; ++i) {
    out[2 + i] = static_cast<std::uint8_t>(code_of(weights[i], step, -127, 127));
  }
}

void store_nibbles(const int* codes, std::uint8_t* out) {
  for (int i = 0; i < kGroup / 2; ++i) {
    out[i] = static_cast<std::uint8_t>((codes[i] & 0x0F) | (codes[i + kGroup / 2] & 0x0F) << 4);
  }
}

// Q4_0, Q5_0: the extreme weight gets the lowest code, which has no counterpart at the other end.
void encode_symmetric(const float* weights, int bits, std::uint8_t* out) {
  const int zero = 1 << (bits - 1);
  const float step = store_half(out, -extreme(weights, kGroup) / static_cast<float>(zero));
  int codes[kGroup];
  std::uint32_t fifth_bits = 0;
  for (int i = 0; i < kGroup; ++i) {
    codes[i] = code_of(weights[i], step, -zero, zero - 1) + zero;
    fifth_bits |= static_cast<std::uint32_t>(codes[i] >> 4 & 1) << i;
  }
  if (bits == 5) std::memcpy(out + 2, &fifth_bits, sizeof(fifth_bits));
  store_nibbles(codes, out + (bits == 5 ? 6 : 2));
}

void encode_q4_1(const float* weights, std::uint8_t* out) {
  const auto [low, high] = std::minmax_element(weights, weights + kGroup);
  const float step = store_half(out, (*high - *low) / 15);
  const float minimum = store_half(out + 2, *low);
  int codes[kGroup];
  for (int i = 0; i < kGroup; ++i) codes[i] = code_of(weights[i] - minimum, step, 0, 15);
  store_nibbles(codes, out + 4);
}

// The largest of `count` steps as a multiple of a half, and each step in such units, up to `most`.
float encode_steps(const float* steps, int count, int most, std::uint8_t* half, int* units) {
  const float unit =
      store_half(half, *std::max_element(steps, steps + count) / static_cast<float>(most));
  for (int i = 0; i < count; ++i) units[i] = code_of(steps[i], unit, 0, most);
  return unit;
}

void encode_q4_k(const float* weights, std::uint8_t* out) {
  constexpr int kGroups = 8;
  float steps[kGroups];
  float depths[kGroups];  // how far the grid begins below 0
  for (int g = 0; g < kGroups; ++g) {
    const auto [low, high] = std::minmax_element(weights + g * kGroup, weights + (g + 1) * kGroup);
    depths[g] = std::max(-*low, 0.0F);
    steps[g] = (std::max(*high, 0.0F) + depths[g]) / 15;
  }
  int step_units[kGroups];
  int depth_units[kGroups];
  const float step_unit = encode_steps(steps, kGroups, 63, out, step_units);
  const float depth_unit = encode_steps(depths, kGroups, 63, out + 2, depth_units);
  std::uint8_t* factors = out + 4;
  std::memset(factors, 0, 12);
  for (int g = 0; g < kGroups; ++g) {
    if (g < 4) {
      factors[g] = static_cast<std::uint8_t>(factors[g] | step_units[g]);
      factors[g + 4] = static_cast<std::uint8_t>(factors[g + 4] | depth_units[g]);
    } else {
      factors[g + 4] =
          static_cast<std::uint8_t>((step_units[g] & 0x0F) | (depth_units[g] & 0x0F) << 4);
      factors[g - 4] = static_cast<std::uint8_t>(factors[g - 4] | step_units[g] >> 4 << 6);
      factors[g] = static_cast<std::uint8_t>(factors[g] | depth_units[g] >> 4 << 6);
    }
  }
  std::memset(out + 16, 0, 128);
  for (int g = 0; g < kGroups; ++g) {
    const float step = step_unit * static_cast<float>(step_units[g]);
    const float depth = depth_unit * static_cast<float>(depth_units[g]);
    std::uint8_t* nibbles = out + 16 + g / 2 * kGroup;
    for (int i = 0; i < kGroup; ++i) {
      const int code = code_of(weights[g * kGroup + i] + depth, step, 0, 15);
      nibbles[i] = static_cast<std::uint8_t>(nibbles[i] | code << (g % 2 * 4));
    }
  }
}

void encode_q6_k(const float* weights, std::uint8_t* out) {
  constexpr int kGroups = 16;
  constexpr int kSize = 16;
  float steps[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    steps[g] = std::fabs(extreme(weights + g * kSize, kSize)) / 31;
  }
  int units[kGroups];
  const float unit = encode_steps(steps, kGroups, 127, out + 208, units);
  std::memset(out, 0, 192);
  for (int g = 0; g < kGroups; ++g) {
    out[192 + g] = static_cast<std::uint8_t>(units[g]);
    const float step = unit * static_cast<float>(units[g]);
    // 32 weights to a quarter of half a block: nibbles of 64 bytes, two bits of 32 bytes.
    const int quarter = g / 2 % 4;
    const int half = g / 8;
    std::uint8_t* nibbles = out + half * 64 + quarter % 2 * 32 + g % 2 * kSize;
    std::uint8_t* high = out + 128 + half * 32 + g % 2 * kSize;
    for (int i = 0; i < kSize; ++i) {
      const int code = code_of(weights[g * kSize + i], step, -32, 31) + 32;
      nibbles[i] = static_cast<std::uint8_t>(nibbles[i] | (code & 0x0F) << (quarter / 2 * 4));
      high[i] = static_cast<std::uint8_t>(high[i] | code >> 4 << (2 * quarter));
    }
  }
}

void encode_block(Encoding encoding, const float* weights, std::uint8_t* out) {
  switch (encoding) {
    case Encoding::kF32:
      std::memcpy(out, weights, sizeof(float));
      break;
    case Encoding::kF16:
      store_u16(out, float_to_f16(*weights));
      break;
    case Encoding::kBF16:
      store_u16(out, float_to_bf16(*weights));
      break;
    case Encoding::kQ8_0:
      encode_q8_0(weights, out);
      break;
    case Encoding::kQ4_0:
      encode_symmetric(weights, 4, out);
      break;
    case Encoding::kQ4_1:
      encode_q4_1(weights, out);
      break;
    case Encoding::kQ5_0:
      encode_symmetric(weights, 5, out);
      break;
    case Encoding::kQ4_K:
      encode_q4_k(weights, out);
      break;
    case Encoding::kQ6_K:
      encode_q6_k(weights, out);
      break;
    default:
      break;  // can_encode says no
  }
}

}  // namespace

bool can_encode(Encoding encoding) {
  return encoding != Encoding::kQ5_1 && encoding != Encoding::kQ5_K && !is_compact(encoding);
}

void encode_row(Encoding encoding, const float* weights, std::int64_t count, std::uint8_t* out) {
  const EncodingTraits& traits = encoding_traits(encoding);
  for (std::int64_t i = 0; i < count; i += traits.block_elements) {
    encode_block(encoding, weights + i, out);
    out += traits.block_bytes;
  }
}

}  // namespace quire
