// The compute layouts of weights: few, so that kernels are layouts x instruction sets and not
// encodings x instruction sets. packed_weight.h says how the dense ones lie in memory,
// group_layout.h and codebook_panel.h the quantized ones.
//
// Compact layouts are no such thing: they keep the blocks of one encoding as the file has them
// ([16 outputs][bytes before the blocks of a row], [block][16 outputs][bytes of the block]), and
// the CPU's kernels do not know them. What multiplies them are the kernels of their product layout,
// after some blocks have been expanded to it at a time; so an encoding costs one function
// (MatmulKernels::expand), and memory is what the file has. GPUs' kernels decode the blocks.
#pragma once

#include <cstdint>

namespace quire {

enum class WeightLayout : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kInt8,          // Q8_0
  kInt4,          // Q4_0
  kInt5,          // Q5_0
  kUint4,         // Q4_1
  kUint5,         // Q5_1
  kUint4Super,    // Q4_K
  kUint5Super,    // Q5_K
  kInt6Super,     // Q6_K
  kInt8Row,       // quantized at load: one scale for each output
  kInt4Group128,  // quantized at load: one scale for 128 inputs of an output
  // Scales with zero points (quant/zero_groups.h): one for 32, 64 or 128 inputs, or for all of
  // them; kUint4Scale*, kInt8Scale*: one zero point for all of them
  kUint4Zero32,
  kUint4Zero64,
  kUint4Zero128,
  kUint4ZeroRow,
  kUint4Scale32,
  kUint4Scale64,
  kUint4Scale128,
  kInt8Zero32,
  kInt8Zero64,
  kInt8Zero128,
  kInt8ZeroRow,
  kInt8Scale32,
  kInt8Scale64,
  kF8Row,       // e4m3, one scale for each output
  kF8Block128,  // e4m3, one scale for 128 inputs of the outputs of a panel
  // Codes of a table of floats (codebook_panel.h), one scale for 64, 128 or 256 inputs
  kNF4Span64,
  kNF4Span128,
  kNF4Span256,
  kNF4Nested64,
  kNF4Nested128,
  kNF4Nested256,
  kFP4Span64,
  kFP4Span128,
  kFP4Span256,
  kFP4Nested64,
  kFP4Nested128,
  kFP4Nested256,
  // Product layouts of compact ones: no matrix has them.
  kInt8Halves,         // a float32 scale for each half of a group
  kInt8HalvesMinimum,  // and a minimum
  // Compact.
  kBlocksQ2_K,
  kBlocksQ3_K,
  kBlocksQ8_K,
  kBlocksIQ4_NL,
  kBlocksIQ4_XS,
  kBlocksMXFP4,
  kBlocksNVFP4,
  kBlocksIQ2_XXS,
  kBlocksIQ2_XS,
  kBlocksIQ2_S,
  kBlocksIQ3_XXS,
  kBlocksIQ3_S,
  kBlocksIQ1_S,
  kBlocksIQ1_M,
  kBlocksTQ1_0,
  kBlocksTQ2_0,
  // And a float for each output before them, by which scales and minima are divided.
  kBlocksNVFP4Scaled,
  kBlocksHqq2Span32,
  kBlocksHqq2Span64,
  kBlocksHqq2Span128,
  kBlocksHqq2Span256,
  kBlocksHqq3Span32,
  kBlocksHqq3Span64,
  kBlocksHqq3Span128,
  kBlocksHqq4Span32,
  kBlocksHqq4Span64,
  kBlocksHqq4Span128,
  kBlocksHqq4Span256,
  kBlocksHqq8Span32,
  kBlocksHqq8Span64,
  kBlocksHqq8Span128,
  kBlocksGptq2Span32,
  kBlocksGptq2Span64,
  kBlocksGptq2Span128,
  kBlocksGptq2Span256,
  kBlocksGptq3Span32,
  kBlocksGptq3Span64,
  kBlocksGptq3Span128,
  kBlocksGptq3Span256
};
inline constexpr int kNumWeightLayouts = 81;
inline constexpr WeightLayout kFirstBlocks = WeightLayout::kBlocksQ2_K;

inline constexpr std::int64_t kPanelOutputs = 16;
inline constexpr std::int64_t kGroupInputs = 32;

[[gnu::always_inline]] constexpr bool is_quantized(WeightLayout layout) {
  return layout >= WeightLayout::kInt8;
}

[[gnu::always_inline]] constexpr bool is_blocks(WeightLayout layout) {
  return layout >= kFirstBlocks;
}

// The layout whose kernels multiply `layout`.
[[gnu::always_inline]] constexpr WeightLayout product_layout(WeightLayout layout) {
  if (!is_blocks(layout)) return layout;
  const bool has_minima =
      layout == WeightLayout::kBlocksQ2_K || layout >= WeightLayout::kBlocksHqq2Span32;
  return has_minima ? WeightLayout::kInt8HalvesMinimum : WeightLayout::kInt8Halves;
}

// Compact layouts whose panels begin with what scales are divided by.
[[gnu::always_inline]] constexpr bool has_divisors(WeightLayout layout) {
  return layout >= WeightLayout::kBlocksNVFP4Scaled;
}

[[gnu::always_inline]] constexpr bool is_codebook(WeightLayout layout) {
  return layout >= WeightLayout::kNF4Span64 && layout <= WeightLayout::kFP4Nested256;
}

// Whose codes stand for floats. Codebooks' stand for integers, too (CodebookIntegers).
[[gnu::always_inline]] constexpr bool has_float_codes(WeightLayout layout) {
  return layout >= WeightLayout::kF8Row && layout <= WeightLayout::kFP4Nested256;
}

}  // namespace quire
