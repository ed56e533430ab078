// The rotary position table (Su et al. 2021): cosines and sines of every position that the model
// may reach, computed once in double precision.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/row_args.h"
#include "nn/rope_scaling.h"
#include "tensor/device_floats.h"

namespace quire {

// Of positions [0, max_positions), in the layout of RopeAndCacheArgs::rope_table.
std::vector<float> rotary_values(std::int64_t max_positions, const RopeSpec& rope);

class RotaryTable {
 public:
  // values: rotary_values() of such positions.
  RotaryTable(std::int32_t rotary_dim, RopeStyle style, DeviceFloats values)
      : rotary_dim_(rotary_dim), style_(style), values_(std::move(values)) {}

  static std::uint64_t bytes(std::int64_t max_positions, std::int32_t rotary_dim) {
    return static_cast<std::uint64_t>(max_positions) * static_cast<std::uint64_t>(rotary_dim) *
           sizeof(float);
  }

  const float* data() const { return values_.data(); }
  std::int32_t rotary_dim() const { return rotary_dim_; }
  RopeStyle style() const { return style_; }

 private:
  std::int32_t rotary_dim_;
  RopeStyle style_;
  DeviceFloats values_;
};

}  // namespace quire
