// Weights of compact blocks as floats, exactly as PackedWeight::decode_output() has them.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <utility>

#include "kernels/cuda/products/block_codes.cuh"
#include "kernels/cuda/products/codebook_values.cuh"
#include "kernels/cuda/products/grid_codes.cuh"
#include "kernels/cuda/products/hqq_codes.cuh"
#include "kernels/cuda/products/lane_group.cuh"

namespace quire::cuda {

// `places`: of the block's address, modulo 4.
template <WeightLayout kLayout>
__device__ typename BlockCodes<kLayout>::Words load_block_words(const std::uint8_t* block,
                                                                int places, int group, int quad) {
  using Codes = BlockCodes<kLayout>;
  if constexpr (block_shape(kLayout).bytes % 2 != 0) {
    return Codes::load_at(block, static_cast<std::uint32_t>(places), group, quad % 4);
  } else if (places == 0) {
    return Codes::template load<4>(block, group, quad % 4);
  } else {
    return Codes::template load<2>(block, group, quad % 4);
  }
}

// Inputs 4 quad to 4 quad + 3 of a group of output n of a panel.
template <WeightLayout kLayout>
__device__ float4 block_quad(const std::uint8_t* panel, std::int64_t group, int quad, int n) {
  using Codes = BlockCodes<kLayout>;
  constexpr BlockShape kShape = block_shape(kLayout);
  constexpr int kHeaderBytes = has_divisors(kLayout) ? 4 * static_cast<int>(kPanelOutputs) : 0;
  const std::uint8_t* const block =
      panel + kHeaderBytes + group / kShape.groups * panel_block_bytes(kLayout) + n * kShape.bytes;
  const auto place = static_cast<int>(group % kShape.groups);
  const int half = quad / 4;
  typename Codes::Words words = load_block_words<kLayout>(block, n * kShape.bytes % 4, place, quad);
  BlockScale of = Codes::scale(block, place, half);
  if constexpr (is_nvfp4_blocks(kLayout)) {  // Divisors divide scales, before these meet codes.
    of.scale = __uint_as_float(Codes::factor_of(words, half) << 16);
    words.factors = Codes::kOnes;
  }
  const BlockQuads quads = Codes::expand(words, quad % 4);
  if constexpr (fragment_form(kLayout).has_minimum_codes()) {
    of.minimum *= __uint_as_float(quads.minima[half] & 0xFFFF0000U);
  }
  if constexpr (has_divisors(kLayout)) {
    const float divisor = float_at(panel + 4 * n);
    of.scale = __fdiv_rn(of.scale, divisor);
    of.minimum = __fdiv_rn(of.minimum, divisor);
  }
  const auto weight = [&](std::uint32_t bits) {
    return fmaf(of.scale, __uint_as_float(bits), of.minimum);
  };
  const std::uint32_t even = quads.codes[half][0];
  const std::uint32_t odd = quads.codes[half][1];
  return {weight(even << 16), weight(odd << 16), weight(even & 0xFFFF0000U),
          weight(odd & 0xFFFF0000U)};
}

// Of any compact layout. Not inlined: as many decoders as there are layouts would be wherever
// weights are read.
template <int... kIndices>
__device__ __noinline__ float4 any_block_quad(WeightLayout layout, const std::uint8_t* panel,
                                              std::int64_t group, int quad, int n,
                                              std::integer_sequence<int, kIndices...> /*layouts*/) {
  float4 weights = {};
  const auto consider = [&]<int kIndex>() {
    constexpr auto kLayout = static_cast<WeightLayout>(static_cast<int>(kFirstBlocks) + kIndex);
    if (layout == kLayout) weights = block_quad<kLayout>(panel, group, quad, n);
  };
  (consider.template operator()<kIndices>(), ...);
  return weights;
}

__device__ inline float4 any_block_quad(WeightLayout layout, const std::uint8_t* panel,
                                        std::int64_t group, int quad, int n) {
  constexpr int kCount = kNumWeightLayouts - static_cast<int>(kFirstBlocks);
  return any_block_quad(layout, panel, group, quad, n, std::make_integer_sequence<int, kCount>());
}

}  // namespace quire::cuda
