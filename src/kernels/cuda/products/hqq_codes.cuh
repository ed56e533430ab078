// Decoders of HQQ's and GPTQ's blocks (quant/hqq_block.h), as block_codes.cuh has them.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/block_codes.cuh"

namespace quire::cuda {

// A quad's codes of kBits bits, from `bits` on.
template <int kBits>
__device__ void expand_hqq_quad(std::uint32_t bits, std::uint32_t (&codes)[2]) {
  if constexpr (kBits == 8) {  // less 128, which the zero point is, too
    codes[0] = signed_bytes(bits ^ 0x80808080U);
    codes[1] = signed_bytes((bits ^ 0x80808080U) >> 8);
  } else if constexpr (kBits == 4) {
    codes[0] = subtract_pairs(pair_over_128(bits, 0x000F000FU), kPairOf128);
    codes[1] = subtract_pairs(pair_over_128(bits >> 8, 0x000F000FU), kPairOf128);
  } else {  // The third code is brought to the third byte.
    constexpr std::uint32_t kMask = ((1U << kBits) - 1) * 0x00010001U;
    const std::uint32_t apart = bits | bits << (16 - 2 * kBits);
    codes[0] = subtract_pairs(pair_over_128(apart, kMask), kPairOf128);
    codes[1] = subtract_pairs(pair_over_128(apart >> kBits, kMask), kPairOf128);
  }
}

struct HqqWords {
  std::uint32_t of_halves[2];
};

template <int kBits>
__device__ BlockQuads expand_hqq_words(const HqqWords& words) {
  BlockQuads quads;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    expand_hqq_quad<kBits>(words.of_halves[half], quads.codes[half]);
  }
  return quads;
}

// Quads t and t + 4 of a group's codes of 2 or 3 bits, at any address.
template <int kBits>
__device__ HqqWords load_narrow_codes(const std::uint8_t* codes, int t) {
  if constexpr (kBits == 3) {  // A quad has a byte and a half.
    const auto quad_at = [&](int quad) {
      const std::uint8_t* const from = codes + quad * 3 / 2;
      return (from[0] | static_cast<std::uint32_t>(from[1]) << 8) >> (quad % 2 * 4) & 0xFFFU;
    };
    return {{quad_at(t), quad_at(t + 4)}};
  } else {
    return {{codes[t], codes[t + 4]}};
  }
}

// Scale and zero point, then the codes of each group.
template <int kBits>
struct HqqCodes {
  using Words = HqqWords;
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint8_t* const codes = block + 4 + group * 4 * kBits;
    if constexpr (kBits == 8) {
      return {{load_word<kAlignment>(codes + 4 * t), load_word<kAlignment>(codes + 16 + 4 * t)}};
    } else if constexpr (kBits == 4) {
      const std::uint32_t word = load_word<kAlignment>(codes + 4 * t);
      return {{word, word >> 4}};
    } else {
      return load_narrow_codes<kBits>(codes, t);
    }
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    return expand_hqq_words<kBits>(words);
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    const float scale = half_number_at(block);
    const float zero = half_number_at(block + 2) - (kBits == 8 ? 128.0F : 0.0F);
    return {scale, -(scale * zero)};
  }
};

// The scales of kSpans spans of kSpanGroups groups, a byte of zero points, then the codes of each
// group.
template <int kBits, int kSpanGroups, int kSpans>
struct GptqCodes {
  using Words = HqqWords;
  __device__ static Words load_at(const std::uint8_t* block, std::uint32_t /*places*/, int group,
                                  int t) {
    return load_narrow_codes<kBits>(block + 2 * kSpans + 1 + group * 4 * kBits, t);
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    return expand_hqq_words<kBits>(words);
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int group, int /*half*/) {
    const int span = group / kSpanGroups;
    const float scale = half_number_of(block[2 * span], block[2 * span + 1]);
    const auto zero = static_cast<float>(block[2 * kSpans] >> (4 * span) & 15);
    return {scale, -(scale * zero)};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksHqq2Span32> : HqqCodes<2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq2Span64> : HqqCodes<2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq2Span128> : HqqCodes<2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq2Span256> : HqqCodes<2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq3Span32> : HqqCodes<3> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq3Span64> : HqqCodes<3> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq3Span128> : HqqCodes<3> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq4Span32> : HqqCodes<4> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq4Span64> : HqqCodes<4> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq4Span128> : HqqCodes<4> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq4Span256> : HqqCodes<4> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq8Span32> : HqqCodes<8> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq8Span64> : HqqCodes<8> {};
template <>
struct BlockCodes<WeightLayout::kBlocksHqq8Span128> : HqqCodes<8> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq2Span32> : GptqCodes<2, 1, 2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq2Span64> : GptqCodes<2, 2, 2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq2Span128> : GptqCodes<2, 4, 1> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq2Span256> : GptqCodes<2, 8, 1> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq3Span32> : GptqCodes<3, 1, 2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq3Span64> : GptqCodes<3, 2, 2> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq3Span128> : GptqCodes<3, 4, 1> {};
template <>
struct BlockCodes<WeightLayout::kBlocksGptq3Span256> : GptqCodes<3, 8, 1> {};

}  // namespace quire::cuda
