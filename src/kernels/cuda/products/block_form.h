// How compact blocks lie in panels (kernels/packed_weight.h), and which of their numbers are codes
// for tensor cores. quant/compact_block.h says what blocks are.
//
// A block's factors for parts of its inputs are small integers, or floats of few digits. Where code
// and factor have a product that bfloat16 holds, that product is the code, and a sum goes on over
// 256 inputs (has_long_spans); the others have a sum for each group or, where factors are of half a
// group, for each half.
#pragma once

#include <cstdint>

#include "kernels/weight_layout.h"

namespace quire::cuda {

// An output's block.
struct BlockShape {
  int groups = 8;  // of 32 inputs
  int bytes = 0;
};

[[gnu::always_inline]] constexpr BlockShape block_shape(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kBlocksQ2_K:
      return {8, 84};
    case WeightLayout::kBlocksQ3_K:
    case WeightLayout::kBlocksIQ3_S:
      return {8, 110};
    case WeightLayout::kBlocksQ8_K:
      return {8, 292};
    case WeightLayout::kBlocksIQ4_NL:
      return {1, 18};
    case WeightLayout::kBlocksIQ4_XS:
      return {8, 136};
    case WeightLayout::kBlocksMXFP4:
      return {1, 17};
    case WeightLayout::kBlocksNVFP4:
    case WeightLayout::kBlocksNVFP4Scaled:
      return {2, 36};
    case WeightLayout::kBlocksIQ2_XXS:
    case WeightLayout::kBlocksTQ2_0:
      return {8, 66};
    case WeightLayout::kBlocksIQ2_XS:
      return {8, 74};
    case WeightLayout::kBlocksIQ2_S:
      return {8, 82};
    case WeightLayout::kBlocksIQ3_XXS:
      return {8, 98};
    case WeightLayout::kBlocksIQ1_S:
      return {8, 50};
    case WeightLayout::kBlocksIQ1_M:
      return {8, 56};
    case WeightLayout::kBlocksTQ1_0:
      return {8, 54};
    case WeightLayout::kBlocksHqq2Span32:
      return {1, 12};
    case WeightLayout::kBlocksHqq2Span64:
      return {2, 20};
    case WeightLayout::kBlocksHqq2Span128:
      return {4, 36};
    case WeightLayout::kBlocksHqq2Span256:
      return {8, 68};
    case WeightLayout::kBlocksHqq3Span32:
      return {1, 16};
    case WeightLayout::kBlocksHqq3Span64:
      return {2, 28};
    case WeightLayout::kBlocksHqq3Span128:
      return {4, 52};
    case WeightLayout::kBlocksHqq4Span32:
      return {1, 20};
    case WeightLayout::kBlocksHqq4Span64:
      return {2, 36};
    case WeightLayout::kBlocksHqq4Span128:
      return {4, 68};
    case WeightLayout::kBlocksHqq4Span256:
      return {8, 132};
    case WeightLayout::kBlocksHqq8Span32:
      return {1, 36};
    case WeightLayout::kBlocksHqq8Span64:
      return {2, 68};
    case WeightLayout::kBlocksHqq8Span128:
      return {4, 132};
    case WeightLayout::kBlocksGptq2Span32:
      return {2, 21};
    case WeightLayout::kBlocksGptq2Span64:
      return {4, 37};
    case WeightLayout::kBlocksGptq2Span128:
      return {4, 35};
    case WeightLayout::kBlocksGptq2Span256:
      return {8, 67};
    case WeightLayout::kBlocksGptq3Span32:
      return {2, 29};
    case WeightLayout::kBlocksGptq3Span64:
      return {4, 53};
    case WeightLayout::kBlocksGptq3Span128:
      return {4, 51};
    case WeightLayout::kBlocksGptq3Span256:
      return {8, 99};
    default:
      return {};
  }
}

// Blocks of the 16 outputs of a panel.
[[gnu::always_inline]] constexpr std::int64_t panel_block_bytes(WeightLayout layout) {
  return kPanelOutputs * block_shape(layout).bytes;
}

// HQQ's and GPTQ's.
[[gnu::always_inline]] constexpr bool is_hqq_blocks(WeightLayout layout) {
  return layout >= WeightLayout::kBlocksHqq2Span32;
}

[[gnu::always_inline]] constexpr bool is_nvfp4_blocks(WeightLayout layout) {
  return layout == WeightLayout::kBlocksNVFP4 || layout == WeightLayout::kBlocksNVFP4Scaled;
}

// Of eight groups.
inline constexpr int kLongSpanGroups = 8;
[[gnu::always_inline]] constexpr bool has_long_spans(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kBlocksQ2_K:
    case WeightLayout::kBlocksQ3_K:
    case WeightLayout::kBlocksQ8_K:
    case WeightLayout::kBlocksMXFP4:
    case WeightLayout::kBlocksNVFP4:
    case WeightLayout::kBlocksNVFP4Scaled:
    case WeightLayout::kBlocksIQ1_S:
    case WeightLayout::kBlocksIQ1_M:
    case WeightLayout::kBlocksTQ1_0:
    case WeightLayout::kBlocksTQ2_0:
      return true;
    default:
      return false;
  }
}

[[gnu::always_inline]] constexpr bool has_half_spans(WeightLayout layout) {
  return layout == WeightLayout::kBlocksIQ2_XS || layout == WeightLayout::kBlocksIQ2_S;
}

}  // namespace quire::cuda
