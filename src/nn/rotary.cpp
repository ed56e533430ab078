#include "nn/rotary.h"

#include <cmath>

namespace quire {

std::vector<float> rotary_values(std::int64_t max_positions, const RopeSpec& rope) {
  const std::vector<float> frequencies = rotary_frequencies(rope, max_positions);
  const std::int32_t half = rope.rotary_dim / 2;
  std::vector<float> table(static_cast<std::size_t>(max_positions * rope.rotary_dim));
  for (std::int64_t p = 0; p < max_positions; ++p) {
    float* row = table.data() + p * rope.rotary_dim;
    for (std::int32_t i = 0; i < half; ++i) {
      // The reference rounds the frequency and the angle to float32; so do we, to agree with it.
      const double angle =
          static_cast<double>(static_cast<float>(p) * frequencies[static_cast<std::size_t>(i)]);
      row[i] = static_cast<float>(std::cos(angle) * rope.attention_factor);
      row[half + i] = static_cast<float>(std::sin(angle) * rope.attention_factor);
    }
  }
  return table;
}

}  // namespace quire
