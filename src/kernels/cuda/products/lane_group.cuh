// A group of 32 inputs of a panel of any layout, as a lane multiplies it (panel_fragments.cuh,
// block_codes.cuh). Who compiles kernels of grid encodings, of HQQ or of GPTQ includes their
// decoders, too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/products/block_codes.cuh"
#include "kernels/cuda/products/panel_fragments.cuh"

namespace quire::cuda {

// Which of the sums of a span (FragmentForm::num_sums()) the products of a group's `index`th
// fragment are added to.
template <WeightLayout kLayout>
__device__ constexpr int sum_of_fragment(int index) {
  constexpr FragmentForm kForm = fragment_form(kLayout);
  if constexpr (kForm.has_minimum_codes()) return index % 2;
  return kForm.has_halves ? index : 0;
}

// What `place` is in a block of FragmentForm: an output's block, and the group there.
struct PlaceInBlock {
  const std::uint8_t* block;
  int group;
};
template <WeightLayout kLayout>
__device__ PlaceInBlock place_in_block(const std::uint8_t* block, int place, int n) {
  constexpr BlockShape kShape = block_shape(kLayout);
  constexpr int kPanelBytes = static_cast<int>(panel_block_bytes(kLayout));
  return {block + place / kShape.groups * kPanelBytes + n * kShape.bytes, place % kShape.groups};
}

// Of blocks: what is loaded for both outputs of a lane.
template <WeightLayout kLayout>
struct BlockWords {
  typename BlockCodes<kLayout>::Words of_rows[2];

  // `block` is where a block of FragmentForm begins; group `place` of it.
  __device__ void load(const std::uint8_t* block, int place, int lane) {
    constexpr int kBytes = block_shape(kLayout).bytes;
    const PlaceInBlock first = place_in_block<kLayout>(block, place, lane / 4 * 2);
    const std::uint8_t* const second = first.block + kBytes;
    if constexpr (kBytes % 2 != 0) {
      const auto places = static_cast<std::uint32_t>(lane / 4 * 2 * kBytes % 4);
      of_rows[0] = BlockCodes<kLayout>::load_at(first.block, places, first.group, lane % 4);
      of_rows[1] =
          BlockCodes<kLayout>::load_at(second, (places + kBytes) % 4, first.group, lane % 4);
    } else {
      constexpr int kSecond = kBytes % 4 == 0 ? 4 : 2;
      of_rows[0] = BlockCodes<kLayout>::template load<4>(first.block, first.group, lane % 4);
      of_rows[1] = BlockCodes<kLayout>::template load<kSecond>(second, first.group, lane % 4);
    }
  }
};

template <WeightLayout kLayout>
using LaneWords = std::conditional_t<is_blocks(kLayout), BlockWords<kLayout>,
                                     GroupWords<fragment_form(kLayout).codes>>;

template <WeightLayout kLayout>
__device__ void load_lane_words(const std::uint8_t* block, int place, int lane,
                                LaneWords<kLayout>& words) {
  constexpr FragmentForm kForm = fragment_form(kLayout);
  if constexpr (is_blocks(kLayout)) {
    words.load(block, place, lane);
  } else {
    words.load(block + kForm.block_header_bytes + place * kForm.group_bytes, lane);
  }
}

// The fragments of a group in the order in which they are multiplied (expand_group()).
template <WeightLayout kLayout, CodeForm kCodes = fragment_form(kLayout).codes>
__device__ void expand_lane_words(const LaneWords<kLayout>& words, const ZeroPairs& zeros, int lane,
                                  GroupFragments<kCodes>& a) {
  if constexpr (is_blocks(kLayout)) {
    constexpr int kTerms = fragment_terms(kCodes);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const BlockQuads quads = BlockCodes<kLayout>::expand(words.of_rows[row], lane % 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        a[kTerms * half][row] = quads.codes[half][0];
        a[kTerms * half][2 + row] = quads.codes[half][1];
        if constexpr (kTerms == 2) {
          a[kTerms * half + 1][row] = quads.minima[half];
          a[kTerms * half + 1][2 + row] = quads.minima[half];
        }
      }
    }
  } else {
    expand_group<kLayout>(words, zeros, lane, a);
  }
}

}  // namespace quire::cuda
