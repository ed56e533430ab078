// What decoders of compact blocks (block_codes.cuh) have in common: loads from where blocks lie,
// and how bytes become pairs of bfloat16 numbers.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/products/block_form.h"
#include "kernels/cuda/products/panel_fragments.cuh"

namespace quire::cuda {

// Of a quad of inputs from each half of a group, as expand_group() wants them: codes[half] are the
// pairs of inputs 0 and 2, and of 1 and 3. minima[half]: of layouts with codes of minima, the
// half's twice.
struct BlockQuads {
  std::uint32_t codes[2][2];
  std::uint32_t minima[2];
};

// What sums of a span are multiplied with.
struct BlockScale {
  float scale = 1.0F;
  float minimum = 0.0F;
};

__device__ inline std::uint32_t half_bits_at(const std::uint8_t* from) {
  return *reinterpret_cast<const std::uint16_t*>(from);
}

__device__ inline float half_number_at(const std::uint8_t* from) {
  return __half2float(*reinterpret_cast<const __half*>(from));
}

// Of half precision, the lower byte first.
__device__ inline float half_number_of(std::uint32_t lower, std::uint32_t upper) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(lower | upper << 8)));
}

// Four bytes at an address that is a multiple of four (kAlignment: 4), or two beside one (2).
template <int kAlignment>
__device__ std::uint32_t load_word(const std::uint8_t* from) {
  if constexpr (kAlignment == 4) return word_at(from);
  return __byte_perm(half_bits_at(from), half_bits_at(from + 2), 0x5410);
}

// Four bytes at any address. `places`: of the address, modulo 4. The four before an address that is
// a multiple of four are read, too.
__device__ inline std::uint32_t load_word_at(const std::uint8_t* from, std::uint32_t places) {
  const std::uint8_t* const upper = from + (4 - places) % 4;
  return __funnelshift_rc(word_at(upper - 4), word_at(upper), 32 - 8 * ((4 - places) % 4));
}

// Pairs of 128 and some bits of bytes 0 and 2, at most seven of each.
__device__ inline std::uint32_t pair_over_128(std::uint32_t word, std::uint32_t mask) {
  return (word & mask) | kPairOf128;
}

// Byte `i` of a word, at most 127, twice, less `zero` (a pair of 128 and what is subtracted
// besides).
__device__ inline std::uint32_t pair_of_byte(std::uint32_t bytes, int i, std::uint32_t zero) {
  const auto places = static_cast<std::uint32_t>(i);
  return subtract_pairs(__byte_perm(bytes, 0x43434343U, 0x4040U | places | places << 8), zero);
}

// a * b + c, where this is exact.
__device__ inline std::uint32_t fma_pairs(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t sum = 0;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

// Bytes with the sign in the top bit: those of bytes 0 and 2.
__device__ inline std::uint32_t signed_magnitudes(std::uint32_t word) {
  const std::uint32_t magnitudes = subtract_pairs(pair_over_128(word, 0x007F007FU), kPairOf128);
  return magnitudes ^ (word << 8 & 0x80008000U);
}

// Four bits as the top bits of four bytes.
__device__ inline std::uint32_t spread_signs(std::uint32_t four) {
  return (four & 15U) * 0x10204080U & 0x80808080U;
}

}  // namespace quire::cuda
