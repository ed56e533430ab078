// Packed panels (kernels/packed_weight.h) as operand A of mma.sync.m16n8k16 and wgmma, straight
// from where they lie: row g of a fragment is output 2 g of the panel, and row g + 8 output 2 g +
// 1, so that what a lane needs of a line lies side by side. Lane (g, t) = (lane / 4, lane % 4) has
// of 16 inputs, in the order of InputPlaces, a[0]: row g, places 2t and 2t + 1; a[1]: row g + 8,
// the same; a[2] and a[3]: the two rows, places 2t + 8 and 2t + 9. Operand B has inputs in the same
// places.
//
// Codes become bfloat16 numbers without loss: integers of at most eight bits, by writing them into
// the mantissa of 128 and subtracting that; e4m3 with the same bits, scaled; float16 as a sum of
// two. fragment_form.h says in which order products are added. Pointers may be into global or
// shared memory.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/products/fragment_form.h"

namespace quire::cuda {

// Words of a group of 32 inputs that a lane needs.
constexpr int fragment_words(CodeForm codes) {
  switch (codes) {
    case CodeForm::kBf16:
    case CodeForm::kF16:
      return 8;
    case CodeForm::kBits6:
      return 6;
    case CodeForm::kBits8:
    case CodeForm::kBits5:
    case CodeForm::kF8:
      return 4;
    default:
      return 2;
  }
}

// Fragments that each 16 inputs of a group are multiplied with, one after the other.
constexpr int fragment_terms(CodeForm codes) {
  return codes == CodeForm::kF16 || codes == CodeForm::kBlocksAndMinima ? 2 : 1;
}

__device__ inline std::uint32_t word_at(const std::uint8_t* from) {
  return *reinterpret_cast<const std::uint32_t*>(from);
}

template <CodeForm kCodes>
struct GroupWords {
  std::uint32_t words[fragment_words(kCodes)];

  // `group`: its first byte.
  __device__ void load(const std::uint8_t* group, int lane) {
    const int t = lane % 4;
    const std::uint8_t* own = group + lane / 4 * 8;  // of a line of 64 bytes
    if constexpr (kCodes == CodeForm::kBf16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) load_pair(2 * i, own + (4 * i + t) * 64);
    } else if constexpr (kCodes == CodeForm::kF16) {
#pragma unroll
      for (int i = 0; i < 8; ++i) words[i] = word_at(group + half_line(i, t) + lane / 4 * 4);
    } else if constexpr (kCodes == CodeForm::kF8) {  // a pair of inputs has 32 bytes
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = word_at(group + (4 * i + t) * 32 + lane / 4 * 4);
    } else {
      load_pair(0, own + t * 64);
      if constexpr (kCodes == CodeForm::kBits8) load_pair(2, own + (4 + t) * 64);
      if constexpr (kCodes == CodeForm::kBits5) load_pair(2, own + 256);
      if constexpr (kCodes == CodeForm::kBits6) {
        load_pair(2, own + 256);
        load_pair(4, own + 320);
      }
    }
  }

  // The same of a dense panel's last group where it has `bytes` alone: zeros behind them.
  __device__ void load_front(const std::uint8_t* group, int bytes, int lane) {
    const int t = lane % 4;
#pragma unroll
    for (std::uint32_t& word : words) word = 0;
    if constexpr (kCodes == CodeForm::kBf16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int line = (4 * i + t) * 64;
        if (line < bytes) load_pair(2 * i, group + line + lane / 4 * 8);
      }
    } else if constexpr (kCodes == CodeForm::kF16) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int line = half_line(i, t);
        if (line < bytes) words[i] = word_at(group + line + lane / 4 * 4);
      }
    }
  }

 private:
  // Of float16 an input has 32 bytes.
  __device__ static int half_line(int index, int t) {
    return (index / 2 * 8 + 2 * t + index % 2) * 32;
  }
  __device__ void load_pair(int index, const std::uint8_t* from) {
    const uint2 pair = *reinterpret_cast<const uint2*>(from);
    words[index] = pair.x;
    words[index + 1] = pair.y;
  }
};

// Pairs of bfloat16 numbers as words.
__device__ inline std::uint32_t subtract_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t difference = 0;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
}

__device__ inline std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

__device__ inline std::uint32_t pair_word(__nv_bfloat162 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

// (word & mask) | bits in one instruction. Of two constants the compiler makes two.
__device__ inline std::uint32_t mask_and_set(std::uint32_t word, std::uint32_t mask,
                                             std::uint32_t bits) {
  std::uint32_t result = 0;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
}

// Two of 128.0: their last seven bits count in ones.
inline constexpr std::uint32_t kPairOf128 = 0x43004300U;

// The codes of bytes 0 and 2 of a word, signed bytes.
__device__ inline std::uint32_t signed_bytes(std::uint32_t word) {
  const std::uint32_t low = mask_and_set(word, 0x007F007FU, kPairOf128);
  // 128, or 256 for negative ones
  const std::uint32_t base = mask_and_set(word, 0x00800080U, kPairOf128);
  return subtract_pairs(low, base);
}

// The float16 numbers of two inputs of an output, in either half of two words, as two sums of
// bfloat16 numbers.
__device__ inline void split_halves(std::uint32_t first, std::uint32_t second, bool upper,
                                    std::uint32_t& high, std::uint32_t& low) {
  const std::uint32_t halves = __byte_perm(first, second, upper ? 0x7632 : 0x5410);
  const float2 exact = __half22float2(*reinterpret_cast<const __half2*>(&halves));
  const __nv_bfloat162 rounded = __floats2bfloat162_rn(exact.x, exact.y);
  high = pair_word(rounded);
  low = pair_word(
      __floats2bfloat162_rn(exact.x - __low2float(rounded), exact.y - __high2float(rounded)));
}

// The e4m3 numbers in two bytes of a word.
__device__ inline std::uint32_t expand_e4m3(std::uint32_t word, bool upper) {
  const std::uint32_t tops = __byte_perm(word, 0, upper ? 0x3424 : 0x1404);
  // Read with the exponent of bfloat16 they are 2^-120 times what they are, subnormal ones, too.
  const std::uint32_t tiny = (tops & 0x80008000U) | ((tops & 0x7F007F00U) >> 4);
  return multiply_pairs(tiny, 0x7B807B80U);
}

// Tables that nibbles stand for values of: those of codebook_table() rounded to bfloat16, kIq4Table
// (quant/compact_block.h), and the numbers of E2M1, whose fourth bit is a sign.
enum class NibbleTable : std::uint8_t { kNF4, kFP4, kIQ4, kE2M1 };

// Lower and upper bytes of bfloat16 numbers, four values a word.
struct CodebookBytes {
  std::uint32_t low[4];
  std::uint32_t high[4];
};
inline constexpr CodebookBytes kNf4Bytes = {{0xCA063280U, 0x00BA3D92U, 0xAD7C25A3U, 0x803910E2U},
                                            {0xBEBFBFBFU, 0x00BDBEBEU, 0x3E3E3E3DU, 0x3F3F3F3EU}};
inline constexpr CodebookBytes kFp4Bytes = {{0x802BAB00U, 0x802B00ABU, 0x802BAB00U, 0x802B00ABU},
                                            {0x3F3F3B00U, 0x3E3E3F3EU, 0xBFBFBB00U, 0xBEBEBFBEU}};
inline constexpr CodebookBytes kIq4Bytes = {{0x82A6D0FEU, 0x20B00C44U, 0x18C85080U, 0xE2B28A54U},
                                            {0xC2C2C2C2U, 0xC1C1C2C2U, 0x4241413FU, 0x42424242U}};
inline constexpr CodebookBytes kE2m1Bytes = {{0xC0800000U, 0xC0804000U},
                                             {0x3F3F3F00U, 0x40404040U}};

constexpr CodebookBytes table_bytes(NibbleTable table) {
  if (table == NibbleTable::kIQ4) return kIq4Bytes;
  if (table == NibbleTable::kE2M1) return kE2m1Bytes;
  return table == NibbleTable::kNF4 ? kNf4Bytes : kFp4Bytes;
}

// Bytes of two words by the nibbles of the lower half of a third one, none of which is above 7.
__device__ inline std::uint32_t select_bytes(std::uint32_t lower, std::uint32_t upper,
                                             std::uint32_t nibbles) {
  std::uint32_t bytes = 0;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(lower), "r"(upper), "r"(nibbles));
  return bytes;
}

// The values of four codes: those of the first and the third as one pair, those of the others as
// another. lower_bits: three bits of each, in the nibbles of the lower half of a word; fourth_bits:
// a byte of ones for each code above 7.
template <NibbleTable kTable>
__device__ void look_up(std::uint32_t lower_bits, std::uint32_t fourth_bits, std::uint32_t& first,
                        std::uint32_t& second) {
  constexpr CodebookBytes kBytes = table_bytes(kTable);
  constexpr bool kHasSigns = kTable == NibbleTable::kE2M1;
  const auto select = [&](const std::uint32_t(&bytes)[4]) {
    const std::uint32_t of_first_eight = select_bytes(bytes[0], bytes[1], lower_bits);
    if constexpr (kHasSigns) return of_first_eight;
    const std::uint32_t of_others = select_bytes(bytes[2], bytes[3], lower_bits);
    return (of_first_eight & ~fourth_bits) | (of_others & fourth_bits);
  };
  const std::uint32_t low = select(kBytes.low);
  std::uint32_t high = select(kBytes.high);
  if constexpr (kHasSigns) high |= fourth_bits & 0x80808080U;
  first = __byte_perm(low, high, 0x6240);
  second = __byte_perm(low, high, 0x7351);
}

// Both sums of 16 of a codebook's word: a quad of the first 16 inputs in its low nibbles, one of
// the second in its high ones.
template <NibbleTable kTable>
__device__ void expand_codebook(std::uint32_t word, std::uint32_t (&even)[2],
                                std::uint32_t (&odd)[2]) {
  const std::uint32_t codes = __byte_perm(word, 0, 0x3120);  // bytes 0 and 2, then 1 and 3
  const std::uint32_t up = codes << 4;
  // In this mode of prmt a byte is filled with the top bit of the one it selects.
  std::uint32_t even_mask = 0;
  std::uint32_t odd_mask = 0;
  asm("prmt.b32 %0, %1, %2, 0xD9C8;" : "=r"(even_mask) : "r"(up), "r"(codes));
  asm("prmt.b32 %0, %1, %2, 0xFBEA;" : "=r"(odd_mask) : "r"(up), "r"(codes));
  const std::uint32_t lower_bits = codes & 0x77777777U;
  look_up<kTable>(lower_bits, even_mask, even[0], even[1]);
  look_up<kTable>(lower_bits >> 16, odd_mask, odd[0], odd[1]);
}

// What is subtracted from the codes of outputs 2 g and 2 g + 1, where there are zero points: pairs
// of bfloat16 numbers.
struct ZeroPairs {
  std::uint32_t of_rows[2] = {};
};

template <CodeForm kCodes>
using GroupFragments = std::uint32_t[2 * fragment_terms(kCodes)][4];

// The codes of a quad of one of a lane's rows, in the group's first or second 16 inputs: those of
// inputs 0 and 2, and those of inputs 1 and 3.
template <WeightLayout kLayout, CodeForm kCodes = fragment_form(kLayout).codes>
__device__ void expand_quad(const GroupWords<kCodes>& group, const ZeroPairs& zeros, int lane,
                            int row, int step, std::uint32_t (&pairs)[2]) {
  const std::uint32_t(&words)[fragment_words(kCodes)] = group.words;
  if constexpr (kCodes == CodeForm::kBits8) {
    pairs[0] = signed_bytes(words[2 * step + row]);
    pairs[1] = signed_bytes(words[2 * step + row] >> 8);
  } else {
    // Bits above the lowest four, brought to where they count.
    const int t = lane % 4;
    std::uint32_t high = 0;
    std::uint32_t high_mask = 0;
    if constexpr (kCodes == CodeForm::kBits5) {
      high = __funnelshift_l(words[2 + row], words[2 + row], step == 0 ? 4 - t : 32 - t);
      high_mask = 0x00100010U;
    } else if constexpr (kCodes == CodeForm::kBits6) {
      const std::uint32_t line = words[2 + 2 * step + row];
      high = __funnelshift_l(line, line, 4 - 2 * t);
      high_mask = 0x00300030U;
    }
    // 128 and what is subtracted besides
    constexpr std::uint32_t kZero = kPairOf128 + 0x00010001U * group_layout(kLayout).zero;
    const std::uint32_t low = words[row] >> (4 * step);
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      std::uint32_t code = mask_and_set(low >> (8 * odd), 0x000F000FU, kPairOf128);
      if constexpr (kCodes != CodeForm::kBits4) {
        code = mask_and_set(high >> (8 * odd), high_mask, code);
      }
      pairs[odd] = subtract_pairs(code, kZero);
    }
  }
  if constexpr (fragment_form(kLayout).has_zeros) {
    pairs[0] = subtract_pairs(pairs[0], zeros.of_rows[row]);
    pairs[1] = subtract_pairs(pairs[1], zeros.of_rows[row]);
  }
}

// The fragments of a group in the order in which they are multiplied: those of its first 16 inputs,
// then of the others.
template <WeightLayout kLayout, CodeForm kCodes = fragment_form(kLayout).codes>
__device__ void expand_group(const GroupWords<kCodes>& group, const ZeroPairs& zeros, int lane,
                             GroupFragments<kCodes>& a) {
  const std::uint32_t(&words)[fragment_words(kCodes)] = group.words;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    if constexpr (kCodes == CodeForm::kNF4 || kCodes == CodeForm::kFP4) {
      constexpr NibbleTable kTable =
          kCodes == CodeForm::kNF4 ? NibbleTable::kNF4 : NibbleTable::kFP4;
      std::uint32_t even[2];
      std::uint32_t odd[2];
      expand_codebook<kTable>(words[row], even, odd);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        a[step][row] = even[step];
        a[step][2 + row] = odd[step];
      }
    } else {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        if constexpr (kCodes == CodeForm::kBf16) {
          a[step][row] = words[4 * step + row];
          a[step][2 + row] = words[4 * step + 2 + row];
        } else if constexpr (kCodes == CodeForm::kF16) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int at = 4 * step + 2 * half;
            split_halves(words[at], words[at + 1], row != 0, a[2 * step][2 * half + row],
                         a[2 * step + 1][2 * half + row]);
          }
        } else if constexpr (kCodes == CodeForm::kF8) {
          a[step][row] = expand_e4m3(words[2 * step], row != 0);
          a[step][2 + row] = expand_e4m3(words[2 * step + 1], row != 0);
        } else {
          std::uint32_t pairs[2];
          expand_quad<kLayout>(group, zeros, lane, row, step, pairs);
          a[step][row] = pairs[0];
          a[step][2 + row] = pairs[1];
        }
      }
    }
  }
}

}  // namespace quire::cuda
