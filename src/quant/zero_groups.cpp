#include "quant/zero_groups.h"

#include <cstring>

#include "tensor/float_convert.h"

namespace quire {
namespace {

template <typename T>
T load_as(const std::uint8_t* from) {
  T value = {};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

Encoding zero_groups_encoding(int code_bits, std::int64_t span, std::int64_t inputs,
                              bool zero_of_row) {
  int index = 0;
  if (span >= inputs) {
    index = 3;
  } else if (span % 128 == 0) {
    index = 2;
  } else if (span % 64 == 0) {
    index = 1;
  }
  // Of 8 bits with wider spans a zero point more is no matter, and keeps lines aligned.
  if (zero_of_row && index < (code_bits == 4 ? 3 : 2)) index += 4;
  const auto first = code_bits == 4 ? Encoding::kUint4Zero32 : Encoding::kInt8Zero32;
  return static_cast<Encoding>(static_cast<int>(first) + index);
}

void decode_zero_groups(Encoding encoding, const std::uint8_t* row, std::int64_t count,
                        float* out) {
  const ZeroGroups form = zero_groups(encoding);
  const auto factor = load_as<float>(row);
  for (std::int64_t g = 0; g < count / kGroupSize; ++g, out += kGroupSize) {
    const std::uint8_t* span = row + form.span_offset(g);
    const float scale = factor * f16_to_float(load_as<std::uint16_t>(span));
    const std::uint8_t* at = row + form.zero_offset(g);
    const float zero =
        form.code_bits == 4 ? static_cast<float>(*at) : f16_to_float(load_as<std::uint16_t>(at));
    const std::uint8_t* codes = row + form.codes_offset(g);
    for (int i = 0; i < kGroupSize; ++i) {
      const int nibble = i < kHalfGroupSize ? codes[i % 16] & 15 : codes[i % 16] >> 4;
      const int code = form.code_bits == 4 ? nibble : static_cast<std::int8_t>(codes[i]);
      out[i] = scale * (static_cast<float>(code) - zero);
    }
  }
}

}  // namespace quire
