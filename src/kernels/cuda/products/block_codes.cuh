// Decoders of compact blocks (quant/compact_block.h) by layout, for panel_fragments.cuh: what a
// lane loads of a group of an output's block, how that becomes codes that bfloat16 has exactly, and
// what sums of codes are multiplied with. grid_codes.cuh has those of grids.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/block_words.cuh"

namespace quire::cuda {

// Has Words; load<kAlignment>(block, group, t), quads t and t + 4 of a group of a block, whose
// address is a multiple of four (4) or two beside one (2); or load_at(), where blocks are of odd
// sizes; expand(words, t), the codes; scale(block, group, half).
template <WeightLayout kLayout>
struct BlockCodes;

// 2-bit codes: each 32 bytes have four groups, the first in the lowest bits.
struct TwoBitWords {
  std::uint32_t of_halves[2];
  int shift;

  template <int kAlignment>
  __device__ static TwoBitWords load(const std::uint8_t* codes, int group, int t) {
    const std::uint8_t* const quad = codes + group / 4 * 32 + 4 * t;
    return {{load_word<kAlignment>(quad), load_word<kAlignment>(quad + 16)}, 2 * (group % 4)};
  }
  // Codes of a half, from the lowest bits of bytes on.
  __device__ std::uint32_t bytes(int half) const { return of_halves[half] >> shift; }
};
inline constexpr std::uint32_t kTwoBits = 0x00030003U;

template <>
struct BlockCodes<WeightLayout::kBlocksQ2_K> {
  struct Words {
    TwoBitWords codes;
    std::uint32_t factors;  // of both halves
  };
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    return {TwoBitWords::load<kAlignment>(block + 16, group, t), half_bits_at(block + 2 * group)};
  }
  // factor (128 + code) - 128 factor
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    const std::uint32_t factors = words.factors & 0x0F0FU;
    const std::uint32_t minima = words.factors >> 4 & 0x0F0FU;
    BlockQuads quads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t factor = pair_of_byte(factors, half, kPairOf128);
      const std::uint32_t base = multiply_pairs(factor, 0xC300C300U);
      const std::uint32_t bytes = words.codes.bytes(half);
      quads.codes[half][0] = fma_pairs(pair_over_128(bytes, kTwoBits), factor, base);
      quads.codes[half][1] = fma_pairs(pair_over_128(bytes >> 8, kTwoBits), factor, base);
      quads.minima[half] = pair_of_byte(minima, half, kPairOf128);
    }
    return quads;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    return {half_number_at(block + 80), -half_number_at(block + 82)};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksQ3_K> {
  struct Words {
    TwoBitWords codes;
    std::uint32_t high[2];
    int group;
    std::uint32_t factors;  // of both halves
  };
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint32_t low = half_bits_at(block + 96 + 2 * group % 8) >> (group / 4 * 4);
    const std::uint32_t high = half_bits_at(block + 104 + 2 * group % 4) >> (group / 2 * 2);
    return {TwoBitWords::load<kAlignment>(block + 32, group, t),
            {load_word<kAlignment>(block + 4 * t), load_word<kAlignment>(block + 16 + 4 * t)},
            group,
            (low & 0x0F0FU) | (high & 0x0303U) << 4};
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    constexpr std::uint32_t kZero = kPairOf128 + 0x00040004U;
    BlockQuads quads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t factor = pair_of_byte(words.factors, half, kPairOf128 + 0x00200020U);
      const std::uint32_t low = words.codes.bytes(half);
      // Bit `group` of each byte at the third place.
      const std::uint32_t high = __funnelshift_r(words.high[half], words.high[half],
                                                 static_cast<std::uint32_t>(words.group - 2));
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const std::uint32_t code =
            pair_over_128(low >> (8 * odd), kTwoBits) | (high >> (8 * odd) & 0x00040004U);
        quads.codes[half][odd] = multiply_pairs(subtract_pairs(code, kZero), factor);
      }
    }
    return quads;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    return {half_number_at(block + 108)};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksQ8_K> {
  struct Words {
    std::uint32_t of_halves[2];
  };
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint8_t* const quad = block + 4 + 32 * group + 4 * t;
    return {{load_word<kAlignment>(quad), load_word<kAlignment>(quad + 16)}};
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    BlockQuads quads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      quads.codes[half][0] = signed_bytes(words.of_halves[half]);
      quads.codes[half][1] = signed_bytes(words.of_halves[half] >> 8);
    }
    return quads;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    return {__uint_as_float(word_at(block))};
  }
};

// Nibbles that stand for values of a table: of the first half of a group in the low ones.
struct NibbleWords {
  std::uint32_t word;

  template <NibbleTable kTable>
  __device__ BlockQuads look_up() const {
    std::uint32_t even[2];
    std::uint32_t odd[2];
    expand_codebook<kTable>(word, even, odd);
    return {{{even[0], odd[0]}, {even[1], odd[1]}}, {}};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ4_NL> {
  using Words = NibbleWords;
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int /*group*/, int t) {
    return {load_word < kAlignment == 4 ? 2 : 4 > (block + 2 + 4 * t)};
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    return words.look_up<NibbleTable::kIQ4>();
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    return {half_number_at(block)};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ4_XS> {
  using Words = NibbleWords;
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    return {load_word<kAlignment>(block + 8 + 16 * group + 4 * t)};
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    return words.look_up<NibbleTable::kIQ4>();
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int group, int /*half*/) {
    const std::uint32_t low = block[4 + group / 2] >> (group % 2 * 4) & 15U;
    const std::uint32_t high = half_bits_at(block + 2) >> (2 * group) & 3U;
    return {half_number_at(block) * static_cast<float>(static_cast<int>(low | high << 4) - 32)};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksMXFP4> {
  struct Words {
    NibbleWords codes;
    std::uint32_t exponent;
  };
  // `places`: of the block's address, modulo 4. Lanes know theirs before they know the address.
  __device__ static Words load_at(const std::uint8_t* block, std::uint32_t places, int /*group*/,
                                  int t) {
    return {{load_word_at(block + 1 + 4 * t, (places + 1) % 4)}, block[0]};
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    BlockQuads quads = words.codes.look_up<NibbleTable::kE2M1>();
    // 2^-127, of exponent 0, is a subnormal number.
    const std::uint32_t factor = max(words.exponent * 0x00800080U, 0x00400040U);
#pragma unroll
    for (auto& half : quads.codes) {
      for (std::uint32_t& pair : half) pair = multiply_pairs(pair, factor);
    }
    return quads;
  }
  __device__ static BlockScale scale(const std::uint8_t* /*block*/, int /*group*/, int /*half*/) {
    return {};
  }
};

// Of 16 weights byte i has weight i in its low nibble and weight i + 8 in the high one.
template <>
struct BlockCodes<WeightLayout::kBlocksNVFP4> {
  static constexpr std::uint32_t kOnes = 0x3838U;
  struct Words {
    std::uint32_t of_halves[2];
    std::uint32_t factors;  // e4m3 of both halves
  };
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint8_t* const quad = block + 4 + 16 * group + t % 2 * 4;
    return {{load_word<kAlignment>(quad), load_word<kAlignment>(quad + 8)},
            half_bits_at(block + 2 * group)};
  }
  __device__ static BlockQuads expand(const Words& words, int t) {
    const int shift = t / 2 * 4;
    const std::uint32_t first = words.of_halves[0] >> shift & 0x0F0F0F0FU;
    const std::uint32_t second = words.of_halves[1] >> shift & 0x0F0F0F0FU;
    BlockQuads quads = NibbleWords{first | second << 4}.look_up<NibbleTable::kE2M1>();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t factor = factor_of(words, half);
      for (std::uint32_t& pair : quads.codes[half]) pair = multiply_pairs(pair, factor);
    }
    return quads;
  }
  __device__ static std::uint32_t factor_of(const Words& words, int half) {
    const std::uint32_t bits = words.factors >> (8 * half) & 0xFFU;
    // Not a number: zero, as the reference has it. Signs are not looked at.
    const std::uint32_t magnitude = bits == 0x7FU ? 0U : bits & 0x7FU;
    return multiply_pairs(magnitude * 0x00100010U, 0x7B807B80U);
  }
  __device__ static BlockScale scale(const std::uint8_t* /*block*/, int /*group*/, int /*half*/) {
    return {};
  }
};
template <>
struct BlockCodes<WeightLayout::kBlocksNVFP4Scaled> : BlockCodes<WeightLayout::kBlocksNVFP4> {};

template <>
struct BlockCodes<WeightLayout::kBlocksTQ2_0> {
  using Words = TwoBitWords;
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    return TwoBitWords::load<kAlignment>(block, group, t);
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    constexpr std::uint32_t kZero = kPairOf128 + 0x00010001U;
    BlockQuads quads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t bytes = words.bytes(half);
      quads.codes[half][0] = subtract_pairs(pair_over_128(bytes, kTwoBits), kZero);
      quads.codes[half][1] = subtract_pairs(pair_over_128(bytes >> 8, kTwoBits), kZero);
    }
    return quads;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    return {half_number_at(block + 64)};
  }
};

// Bytes of five digits of base 3, as fractions of 256: the first digits of 32 bytes are a group's
// codes, then their second ones; 16 bytes more have those of half groups, and four those of quads.
template <>
struct BlockCodes<WeightLayout::kBlocksTQ1_0> {
  struct Words {
    std::uint32_t of_halves[2];
    std::uint32_t powers[2];  // of 3, that bring the digit to the top
  };
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    int places[2] = {4 * t, 16 + 4 * t};
    int digits[2] = {group, group};
    if (group > 4) {
      places[0] = places[1] = 32 + 4 * t;
      digits[0] = 2 * (group - 5);
      digits[1] = digits[0] + 1;
    }
    if (group == 7) {
      places[1] = 48;
      digits[1] = t;
    }
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      words.of_halves[half] = load_word<kAlignment>(block + places[half]);
      constexpr std::uint64_t kPowers = 0x511B090301U;
      words.powers[half] = static_cast<std::uint32_t>(kPowers >> (8 * digits[half]) & 0xFFU);
    }
    return words;
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) {
    constexpr std::uint32_t kBytes = 0x00FF00FFU;
    BlockQuads quads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const std::uint32_t bytes = words.of_halves[half] >> (8 * odd) & kBytes;
        const std::uint32_t fractions = bytes * words.powers[half] & kBytes;
        quads.codes[half][odd] =
            subtract_pairs(pair_over_128(fractions * 3 >> 8, kTwoBits), kPairOf128 + 0x00010001U);
      }
    }
    return quads;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    return {half_number_at(block + 52)};
  }
};

}  // namespace quire::cuda
