// Scales, minima and zero points of packed panels, as lanes of a fragment (panel_fragments.cuh)
// need them: those of outputs 2 g and 2 g + 1.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/products/codebook_values.cuh"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/lane_group.cuh"
#include "kernels/cuda/products/panel_fragments.cuh"

namespace quire::cuda {

// Of the inputs that share one sum.
struct SpanScales {
  float scale[2] = {};
  float minimum[2] = {};
};

// What holds for a whole panel.
struct PanelHeader {
  float factor[2] = {1.0F, 1.0F};      // or the scale of a row
  ZeroPairs zeros;                     // of a row, where they are not of each span
  const std::uint8_t* tail = nullptr;  // of a nested codebook's panel
  std::int64_t row_spans = 0;          // the same one's
};

__device__ inline float2 float_pair_at(const std::uint8_t* from) {
  return *reinterpret_cast<const float2*>(from);
}

__device__ inline float2 half_pair_at(const std::uint8_t* from) {
  return __half22float2(*reinterpret_cast<const __half2*>(from));
}

// Zero points, which are at `from` for the 16 outputs of a panel.
template <WeightLayout kLayout>
__device__ ZeroPairs load_zeros(const std::uint8_t* from, int lane) {
  const int g = lane / 4;
  float2 zeros;
  if constexpr (group_layout(kLayout).code_bits == 4) {
    zeros = {static_cast<float>(from[2 * g]), static_cast<float>(from[2 * g + 1])};
  } else {
    zeros = half_pair_at(from + 4 * g);
  }
  return {{pair_word(__float2bfloat162_rn(zeros.x)), pair_word(__float2bfloat162_rn(zeros.y))}};
}

// Those of a span, whose scales are at `block`.
template <WeightLayout kLayout>
__device__ ZeroPairs load_span_zeros(const std::uint8_t* block, int lane) {
  return load_zeros<kLayout>(block + group_layout(kLayout).minimum_offset(), lane);
}

// `panel` is in global memory.
template <WeightLayout kLayout>
__device__ PanelHeader load_panel_header(const std::uint8_t* panel, std::int64_t inputs, int lane) {
  constexpr FragmentForm kForm = fragment_form(kLayout);
  const int g = lane / 4;
  PanelHeader header;
  if constexpr (kForm.header_bytes != 0) {
    const float2 factor = float_pair_at(panel + 8 * g);
    header.factor[0] = factor.x;
    header.factor[1] = factor.y;
    if constexpr (kForm.has_divisors) {
#pragma unroll
      for (float& of_row : header.factor) of_row = 1.0F / of_row;
    }
    if constexpr (kForm.has_zeros && kForm.span_groups == 0) {
      constexpr std::int64_t kBlock = group_layout(kLayout).panel_header_bytes();
      const float2 scale = half_pair_at(panel + kBlock + 4 * g);
      header.factor[0] *= scale.x;
      header.factor[1] *= scale.y;
      header.zeros = load_span_zeros<kLayout>(panel + kBlock, lane);
    }
    if constexpr (kForm.zeros_of_panel) {
      header.zeros = load_zeros<kLayout>(panel + group_layout(kLayout).zeros_offset(0), lane);
    }
  }
  if constexpr (is_codebook(kLayout)) {
    header.tail = panel + CodebookPanel::of(kLayout).tail_offset(inputs);
    header.row_spans = CodebookPanel::of(kLayout).row_spans(inputs);
  }
  return header;
}

// Of the span that group `index` of the panel is in or, with has_halves, of half `half` of it:
// group `place` of the block that begins at `block`. With codes of minima, `minimum` is what their
// sum is multiplied with.
template <WeightLayout kLayout>
__device__ SpanScales load_span_scales(const PanelHeader& header, const std::uint8_t* block,
                                       int place, std::int64_t index, int half, int lane) {
  constexpr FragmentForm kForm = fragment_form(kLayout);
  const int g = lane / 4;
  if constexpr (kForm.span_groups == 0) return {{header.factor[0], header.factor[1]}, {}};
  if constexpr (is_codebook(kLayout)) {
    if constexpr (CodebookPanel::of(kLayout).nested) {
      const std::int64_t span =
          2 * g * header.row_spans + (index >> CodebookPanel::of(kLayout).span_shift);
      return {{nested_span_scale(header.tail, block[2 * g], span),
               nested_span_scale(header.tail, block[2 * g + 1], span + header.row_spans)},
              {}};
    }
    const float2 scale = float_pair_at(block + 8 * g);
    return {{scale.x, scale.y}, {}};
  } else if constexpr (is_blocks(kLayout)) {
    SpanScales span;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const PlaceInBlock at = place_in_block<kLayout>(block, place, 2 * g + row);
      const BlockScale of = BlockCodes<kLayout>::scale(at.block, at.group, half);
      span.scale[row] = of.scale;
      span.minimum[row] = of.minimum;
    }
    return span;
  } else {
    constexpr GroupLayout kGroups = group_layout(kLayout);
    if constexpr (kGroups.span == ScaleSpan::kPanelBlocks) {
      const float scale = float_at(block);
      return {{scale, scale}, {}};
    }
    const float2 scale = half_pair_at(block + kGroups.scale_offset() + 4 * g);
    SpanScales span = {{scale.x, scale.y}, {}};
    if constexpr (kForm.has_minimum) {
      const float2 minimum = half_pair_at(block + kGroups.minimum_offset() + 4 * g);
      span.minimum[0] = minimum.x;
      span.minimum[1] = minimum.y;
    }
    const std::uint8_t* group = block + kForm.block_header_bytes + place * kForm.group_bytes;
    const std::uint8_t* factors = group + kGroups.code_bytes() + 2 * g;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if constexpr (kForm.has_zeros) span.scale[row] *= header.factor[row];
      if constexpr (kGroups.factors == ScaleFactors::kGroup) {
        span.scale[row] *= static_cast<float>(factors[row]);
        span.minimum[row] *= static_cast<float>(factors[16 + row]);
      } else if constexpr (kGroups.factors == ScaleFactors::kHalfGroup) {
        span.scale[row] *= static_cast<float>(static_cast<std::int8_t>(factors[16 * half + row]));
      }
    }
    return span;
  }
}

}  // namespace quire::cuda
