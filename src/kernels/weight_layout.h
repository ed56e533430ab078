// The compute layouts of weights: few, so that kernels are layouts x instruction sets and not
// encodings x instruction sets. packed_weight.h says how the dense ones lie in memory,
// group_layout.h the quantized ones.
#pragma once

#include <cstdint>

namespace quire {

enum class WeightLayout : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kInt8,         // Q8_0
  kInt4,         // Q4_0
  kInt5,         // Q5_0
  kUint4,        // Q4_1
  kUint5,        // Q5_1
  kUint4Super,   // Q4_K
  kUint5Super,   // Q5_K
  kInt6Super,    // Q6_K
  kInt8Row,      // quantized at load: one scale for each output
  kInt4Group128  // quantized at load: one scale for 128 inputs of an output
};
inline constexpr int kNumWeightLayouts = 13;

inline constexpr std::int64_t kPanelOutputs = 16;
inline constexpr std::int64_t kGroupInputs = 32;

[[gnu::always_inline]] constexpr bool is_quantized(WeightLayout layout) {
  return layout >= WeightLayout::kInt8;
}

}  // namespace quire
