#include "nn/rotary.h"

#include <cmath>

namespace quire {

RotaryTable::RotaryTable(std::int64_t max_positions, const RopeSpec& rope, RopeStyle style)
    : rotary_dim_(rope.rotary_dim), style_(style) {
  const std::vector<float> frequencies = rotary_frequencies(rope, max_positions);
  const std::int32_t half = rotary_dim_ / 2;
  table_.resize(static_cast<std::size_t>(max_positions * rotary_dim_));
  for (std::int64_t p = 0; p < max_positions; ++p) {
    float* row = table_.data() + p * rotary_dim_;
    for (std::int32_t i = 0; i < half; ++i) {
      // The reference rounds the frequency and the angle to float32; so do we, to agree with it.
      const double angle =
          static_cast<double>(static_cast<float>(p) * frequencies[static_cast<std::size_t>(i)]);
      row[i] = static_cast<float>(std::cos(angle) * rope.attention_factor);
      row[half + i] = static_cast<float>(std::sin(angle) * rope.attention_factor);
    }
  }
}

}  // namespace quire
