// The rotary position table (Su et al. 2021): cosines and sines of every position that the model
// may reach, computed once in double precision.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "nn/rope_scaling.h"

namespace quire {

class RotaryTable {
 public:
  // Positions [0, max_positions).
  RotaryTable(std::int64_t max_positions, const RopeSpec& rope, RopeStyle style);

  static std::uint64_t bytes(std::int64_t max_positions, std::int32_t rotary_dim) {
    return static_cast<std::uint64_t>(max_positions) * static_cast<std::uint64_t>(rotary_dim) *
           sizeof(float);
  }

  const float* data() const { return table_.data(); }  // the layout of RopeAndCacheArgs::rope_table
  std::int32_t rotary_dim() const { return rotary_dim_; }
  RopeStyle style() const { return style_; }

 private:
  std::int32_t rotary_dim_;
  RopeStyle style_;
  std::vector<float> table_;
};

}  // namespace quire
