// Decoders of blocks of grid encodings (quant/grid_tables.h), as block_codes.cuh has them. An index
// stands for eight or four weights; tables are read through the L1 cache.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/block_codes.cuh"
#include "quant/grid_words.h"

namespace quire::cuda {

static __device__ const Grid<std::uint64_t, 256> kDeviceIq2XxsGrid =
    grid_of<std::uint64_t, 256>(kIq2XxsWords, kIq2Values);
static __device__ const Grid<std::uint64_t, 512> kDeviceIq2XsGrid =
    grid_of<std::uint64_t, 512>(kIq2XsWords, kIq2Values);
static __device__ const Grid<std::uint64_t, 1024> kDeviceIq2SGrid =
    grid_of<std::uint64_t, 1024>(kIq2SWords, kIq2Values);
static __device__ const Grid<std::uint32_t, 256> kDeviceIq3XxsGrid =
    grid_of<std::uint32_t, 256>(kIq3XxsWords, kIq3XxsValues);
static __device__ const Grid<std::uint32_t, 512> kDeviceIq3SGrid =
    grid_of<std::uint32_t, 512>(kIq3SWords, kIq3SValues);
// Eight more than the values, so that none has a sign.
inline constexpr std::int8_t kIq1Levels[] = {0, 8, 16};
static __device__ const Grid<std::uint64_t, 2048> kDeviceIq1Grid =
    grid_of<std::uint64_t, 2048>(kIq1Words, kIq1Levels);

// The first or the second four weights of eight.
template <int kCount>
__device__ std::uint32_t quad_of_grid(const Grid<std::uint64_t, kCount>& grid, std::uint32_t index,
                                      int second) {
  return reinterpret_cast<const std::uint32_t*>(grid.entries)[2 * index + second];
}

// The signs of four of eight weights, of seven bits of which the eighth makes the sum even.
__device__ inline std::uint32_t signs_of_seven(std::uint32_t seven, int second) {
  const std::uint32_t eight = seven | static_cast<std::uint32_t>(__popc(seven)) << 7;
  return spread_signs(eight >> (4 * second));
}

// A byte and the bit or bits above it.
__device__ inline std::uint32_t grid_index(std::uint32_t low, std::uint32_t high) {
  return low | high << 8;
}

// Magnitudes of a table with signs in their top bits.
struct SignedWords {
  std::uint32_t of_halves[2];

  __device__ BlockQuads quads() const {
    BlockQuads quads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      quads.codes[half][0] = signed_magnitudes(of_halves[half]);
      quads.codes[half][1] = signed_magnitudes(of_halves[half] >> 8);
    }
    return quads;
  }
};

// What grids with signs have in common.
struct SignedGridCodes {
  using Words = SignedWords;
  __device__ static BlockQuads expand(const Words& words, int /*t*/) { return words.quads(); }
  // d (2 factor + 1) unit
  __device__ static BlockScale scale_of(const std::uint8_t* block, std::uint32_t factor,
                                        float unit) {
    return {half_number_at(block) * (static_cast<float>(2 * factor + 1) * unit)};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ2_XXS> : SignedGridCodes {
  __device__ static std::uint32_t signs_and_factor(const std::uint8_t* block, int group) {
    return load_word<2>(block + 6 + 8 * group);
  }
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint32_t signs = signs_and_factor(block, group);
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int octet = 2 * half + t / 2;
      words.of_halves[half] = quad_of_grid(kDeviceIq2XxsGrid, block[2 + 8 * group + octet], t % 2) |
                              signs_of_seven(signs >> (7 * octet) & 127U, t % 2);
    }
    return words;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int group, int /*half*/) {
    return scale_of(block, signs_and_factor(block, group) >> 28, 0.125F);
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ2_XS> : SignedGridCodes {
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t bits = half_bits_at(block + 2 + 8 * group + 2 * (2 * half + t / 2));
      words.of_halves[half] =
          quad_of_grid(kDeviceIq2XsGrid, bits & 511U, t % 2) | signs_of_seven(bits >> 9, t % 2);
    }
    return words;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int group, int half) {
    return scale_of(block, block[66 + group] >> (4 * half) & 15U, 0.125F);
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ2_S> : SignedGridCodes {
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint32_t high = block[66 + group];
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int octet = 2 * half + t / 2;
      const std::uint32_t index =
          grid_index(block[2 + 4 * group + octet], high >> (2 * octet) & 3U);
      const std::uint32_t signs = block[34 + 4 * group + octet];
      words.of_halves[half] =
          quad_of_grid(kDeviceIq2SGrid, index, t % 2) | spread_signs(signs >> (t % 2 * 4));
    }
    return words;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int group, int half) {
    return scale_of(block, block[74 + group] >> (4 * half) & 15U, 0.125F);
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ3_XXS> : SignedGridCodes {
  __device__ static std::uint32_t signs_and_factor(const std::uint8_t* block, int group) {
    return load_word<2>(block + 66 + 4 * group);
  }
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint32_t signs = signs_and_factor(block, group);
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int octet = 2 * half + t / 2;
      words.of_halves[half] = kDeviceIq3XxsGrid.entries[block[2 + 8 * group + 4 * half + t]] |
                              signs_of_seven(signs >> (7 * octet) & 127U, t % 2);
    }
    return words;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int group, int /*half*/) {
    return scale_of(block, signs_and_factor(block, group) >> 28, 0.25F);
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ3_S> : SignedGridCodes {
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint32_t high = block[66 + group];
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int quad = 4 * half + t;
      const std::uint32_t index = grid_index(block[2 + 8 * group + quad], high >> quad & 1U);
      const std::uint32_t signs = block[74 + 4 * group + quad / 2];
      words.of_halves[half] = kDeviceIq3SGrid.entries[index] | spread_signs(signs >> (t % 2 * 4));
    }
    return words;
  }
  __device__ static BlockScale scale(const std::uint8_t* block, int group, int /*half*/) {
    return scale_of(block, block[106 + group / 2] >> (group % 2 * 4) & 15U, 1.0F);
  }
};

// Eighths: levels of the grid, to which 0 or 2 are added, less 9; times a factor of each half.
struct EighthWords {
  std::uint32_t of_halves[2];
  std::uint32_t factors[2];

  // `bits`: the lowest three are above those of an index, the fourth says that an eighth is
  // subtracted.
  __device__ void set(int half, std::uint32_t low, std::uint32_t bits, int second) {
    const std::uint32_t levels = quad_of_grid(kDeviceIq1Grid, grid_index(low, bits & 7U), second);
    of_halves[half] = levels + ((bits & 8U) != 0 ? 0U : 0x02020202U);
  }
  __device__ BlockQuads quads() const {
    constexpr std::uint32_t kZero = kPairOf128 + 0x00090009U;
    constexpr std::uint32_t kMask = 0x001F001FU;
    BlockQuads quads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t factor = pair_of_byte(2 * factors[half] + 1, 0, kPairOf128);
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const std::uint32_t code = pair_over_128(of_halves[half] >> (8 * odd), kMask);
        quads.codes[half][odd] = multiply_pairs(subtract_pairs(code, kZero), factor);
      }
    }
    return quads;
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ1_S> {
  using Words = EighthWords;
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint32_t bits = half_bits_at(block + 34 + 2 * group);
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int octet = 2 * half + t / 2;
      words.factors[half] = bits >> 12 & 7U;
      words.set(half, block[2 + 4 * group + octet], (bits >> (3 * octet) & 7U) | (bits >> 12 & 8U),
                t % 2);
    }
    return words;
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) { return words.quads(); }
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    return {0.125F * half_number_at(block)};
  }
};

template <>
struct BlockCodes<WeightLayout::kBlocksIQ1_M> {
  using Words = EighthWords;
  template <int kAlignment>
  __device__ static Words load(const std::uint8_t* block, int group, int t) {
    const std::uint32_t factors = half_bits_at(block + 48 + group / 2 * 2) >> (group % 2 * 6);
    Words words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int octet = 4 * group + 2 * half + t / 2;
      words.factors[half] = factors >> (3 * half) & 7U;
      words.set(half, block[octet], block[32 + octet / 2] >> (octet % 2 * 4), t % 2);
    }
    return words;
  }
  __device__ static BlockQuads expand(const Words& words, int /*t*/) { return words.quads(); }
  // Half bits, four in the top of each of four words.
  __device__ static BlockScale scale(const std::uint8_t* block, int /*group*/, int /*half*/) {
    const std::uint32_t low = load_word<4>(block + 48);
    const std::uint32_t high = load_word<4>(block + 52);
    const std::uint32_t bits =
        (low >> 12 & 0xFU) | (low >> 24 & 0xF0U) | (high >> 4 & 0xF00U) | (high >> 16 & 0xF000U);
    return {0.125F * __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)))};
  }
};

}  // namespace quire::cuda
