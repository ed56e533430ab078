#include "quant/group_row.h"

#include <cstring>

namespace quire {

WeightGroup read_group(Encoding encoding, const std::uint8_t* block) {
  WeightGroup group;
  std::memcpy(&group.scale, block, 2);
  const std::uint8_t* codes = block + 2;
  if (encoding == Encoding::kQ8_0) {
    for (int i = 0; i < kGroupSize; ++i) group.codes[i] = static_cast<std::int8_t>(codes[i]);
    return group;
  }
  if (encoding == Encoding::kQ4_1) {
    std::memcpy(&group.minimum, block + 2, 2);
    codes = block + 4;
  } else {
    group.zero = 8;
  }
  for (int i = 0; i < kGroupSize / 2; ++i) {
    group.codes[i] = codes[i] & 0x0F;
    group.codes[i + kGroupSize / 2] = static_cast<std::int16_t>(codes[i] >> 4);
  }
  return group;
}

}  // namespace quire
