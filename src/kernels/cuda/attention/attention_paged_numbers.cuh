// Keys and values of each type of cache in a buffer of 64 keys of attention_paged_split.cuh, and
// how they become operands of bfloat16, in which codes of FP8 and INT8 are exact (the scales of
// INT8 are factors of scores and of weights).
//
// A lane (g, t) = (lane / 4, lane % 4) has four scores of each row of 16 keys: [2 eights][2
// columns] (attention_paged_math.cuh). Which keys these are differs, as does where they lie in
// operand A: codes are loaded four bytes at a time, so that neighbouring keys or dimensions are
// columns of two products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/cuda/attention/attention_paged_copies.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/row_args.h"

namespace quire::cuda {

inline constexpr std::int32_t kBufferKeys = 64;

template <DType kDType>
struct PagedNumbers;

// Pairs of dimensions of keys, [dims / 2][64 keys], or pairs of values of dimensions, [32
// pairs][dims], in 4-byte words. Of 16 words at a time in row p, word w lies at w ^ 8 (p % 4), so
// that lanes that read four rows use different banks.
template <>
struct PagedNumbers<DType::kBF16> {
  static constexpr int kPairBytes = 4;
  static constexpr bool kHasScales = false;

  static constexpr std::int32_t row_words(std::int32_t dims) { return (dims + 31) / 32 * 32; }
  static constexpr std::int32_t buffer_bytes(std::int32_t dims) {
    return kBufferKeys / 2 * 4 * row_words(dims);
  }

  static __device__ void copy_keys(const std::byte* keys, std::int32_t block_size,
                                   std::int32_t dims, int sixteen, int lane, std::uint32_t to) {
    // Eight lanes at a time write to different banks.
    const int row = lane / 16 * 4 + lane / 8 % 2 + lane / 4 % 2 * 2;
    const int word = sixteen * 16 + lane % 4 * 4 ^ row % 4 * 8;
    const std::byte* from = keys + (row * block_size + lane % 4 * 4) * 4;
    to += (row * kBufferKeys + word) * 4;
    for (int i = 0; i < dims / 16; ++i) {
      copy_words(from, to);
      from += 8 * block_size * 4;
      to += 8 * kBufferKeys * 4;
    }
  }
  static __device__ void copy_scales(const AttentionArgs&, BlockId, std::int32_t, std::int32_t,
                                     std::int32_t, int, int, std::uint32_t) {}
  static __device__ void copy_values(const std::byte* values, std::int32_t dims, int sixteen,
                                     int lane, std::uint32_t to) {
    const std::int32_t words = row_words(dims);
    to += sixteen * 8 * words * 4;
    for (int word = lane * 4; word < dims; word += 128) {
#pragma unroll
      for (int row = 0; row < 8; ++row) {
        copy_words(values + (row * dims + word) * 4, to + (row * words + (word ^ row % 4 * 8)) * 4);
      }
    }
  }

  // Operand B of `step`, 16 dimensions, of the 32 keys of `group`: lane (g, t) reads key g of every
  // 8, of pairs of dimensions t and t + 4.
  static __device__ void load_keys(const std::byte* buffer, std::int32_t /*dims*/, int group,
                                   int step, int lane, std::uint32_t (&b)[4][2]) {
    const int t = lane % 4;
    const auto* const keys =
        reinterpret_cast<const std::uint32_t*>(buffer) + (step * 8 + t) * kBufferKeys;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int word = group * kGroupKeys + 8 * i + lane / 4 ^ 8 * t;
      b[i][0] = keys[word];
      b[i][1] = keys[word + 4 * kBufferKeys];
    }
  }
  // Of 32 keys, that of score `column` of the lane's `eight`th.
  static __device__ int key_of(int eight, int column, int lane) {
    return 8 * eight + lane % 4 * 2 + column;
  }
  // Weights of 16 keys as operand A.
  static __device__ uint4 operand(const float (&low)[4], const float (&high)[4]) {
    return make_uint4(two_bf16(low[0], low[1]), two_bf16(low[2], low[3]),
                      two_bf16(high[0], high[1]), two_bf16(high[2], high[3]));
  }

  // Operand B of 16 keys, of kColumns dimensions of a lane from `first` on. `seen`: the keys that
  // some row sees, from the first of the 16 on: memory behind a sequence's end may be NaN.
  template <int kColumns>
  static __device__ void load_values(const std::byte* buffer, std::int32_t dims, int sixteen,
                                     int first, int lane, bool whole, int2 seen,
                                     std::uint32_t (&b)[2][kColumns]) {
    const int t = lane % 4;
    const std::int32_t words = row_words(dims);
    const auto* const values = reinterpret_cast<const std::uint32_t*>(buffer) + t * words +
                               (first ^ 8 * t) + sixteen * 8 * words;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      load_pairs(values + i * 4 * words, b[i]);
      if (whole) continue;
      const auto is_seen = [&](int key) { return key >= seen.x && key < seen.y; };
      const int key = i * 8 + t * 2;
      const std::uint32_t bits =
          (is_seen(key) ? 0xFFFFU : 0U) | (is_seen(key + 1) ? 0xFFFF0000U : 0U);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) b[i][c] &= bits;
    }
  }

 private:
  template <int kColumns>
  static __device__ void load_pairs(const std::uint32_t* from, std::uint32_t (&to)[kColumns]) {
    if constexpr (kColumns == 1) {
      to[0] = *from;
    } else if constexpr (kColumns == 2) {
      const uint2 pairs = *reinterpret_cast<const uint2*>(from);
      to[0] = pairs.x;
      to[1] = pairs.y;
    } else {
      const uint4 pairs = *reinterpret_cast<const uint4*>(from);
      to[0] = pairs.x;
      to[1] = pairs.y;
      to[2] = pairs.z;
      to[3] = pairs.w;
    }
  }
};

// Codes of a byte. Keys lie as in the cache, for each 16: [dims / 2][16 keys][2]; pairs of values,
// [32 pairs][dims][2], in rows of whole 128 bytes, in which byte i of row p lies at i ^ 32 (p / 2 %
// 4). Scales follow: of 64 keys, of their values.
//
// Of 16 keys, scores [h][c] of lane (g, t) are those of key 4t + 2c + h.
template <typename Code>
struct PagedCodes {
  static constexpr int kPairBytes = 2;
  static constexpr bool kHasScales = Code::kHasScales;

  static constexpr std::int32_t row_bytes(std::int32_t dims) { return (dims + 63) / 64 * 128; }
  static constexpr std::int32_t scales(std::int32_t dims) {
    return kBufferKeys / 2 * row_bytes(dims);
  }
  static constexpr std::int32_t buffer_bytes(std::int32_t dims) {
    return scales(dims) + (kHasScales ? 2 * kBufferKeys * 4 : 0);
  }

  static __device__ void copy_keys(const std::byte* keys, std::int32_t block_size,
                                   std::int32_t dims, int sixteen, int lane, std::uint32_t to) {
    to += sixteen * 16 * dims;
    for (int i = lane; i < dims; i += 32) {
      copy_words(keys + (i / 2 * block_size + i % 2 * 8) * 2, to + i * 16);
    }
  }
  static __device__ void copy_scales(const AttentionArgs& args, BlockId block, std::int32_t kv_head,
                                     std::int32_t slot, std::int32_t dims, int sixteen, int lane,
                                     std::uint32_t to) {
    if constexpr (kHasScales) {
      if (lane >= 8) return;
      const KvLayout& layout = args.layout;
      const std::uint64_t from = lane < 4 ? layout.key_scale_offset(block, kv_head, slot)
                                          : layout.value_scale_offset(block, kv_head, slot);
      copy_words(args.kv + from + lane % 4 * 16,
                 to + scales(dims) + (lane / 4 * kBufferKeys + sixteen * 16 + lane % 4 * 4) * 4);
    }
  }
  static __device__ void copy_values(const std::byte* values, std::int32_t dims, int sixteen,
                                     int lane, std::uint32_t to) {
    const int row = lane / 4;
    to += (sixteen * 8 + row) * row_bytes(dims);
    for (int i = lane % 4 * 16; i < 2 * dims; i += 64) {
      copy_words(values + row * dims * 2 + i, to + (i ^ row / 2 * 32));
    }
  }

  static __device__ void load_keys(const std::byte* buffer, std::int32_t dims, int group, int step,
                                   int lane, std::uint32_t (&b)[4][2]) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(
        buffer + group * kGroupKeys * dims + (step * 8 + lane % 4) * 32 + lane / 4 * 4);
    std::uint32_t codes[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) codes[i / 2][i % 2] = words[i / 2 * 4 * dims + i % 2 * 32];
    const bool odd = Code::is_odd(codes[0][0], codes[0][1], codes[1][0], codes[1][1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      Code::expand(codes[i / 2][i % 2], odd, b[i / 2 * 2][i % 2], b[i / 2 * 2 + 1][i % 2]);
    }
  }
  static __device__ int key_of(int eight, int column, int lane) {
    return eight / 2 * 16 + lane % 4 * 4 + column * 2 + eight % 2;
  }
  static __device__ uint4 operand(const float (&low)[4], const float (&high)[4]) {
    return make_uint4(two_bf16(low[0], high[0]), two_bf16(low[2], high[2]),
                      two_bf16(low[1], high[1]), two_bf16(low[3], high[3]));
  }
  // Of the lane's four keys of each 16 of `group`.
  static __device__ void load_scales(const std::byte* buffer, std::int32_t dims, int group,
                                     int lane, float4 (&of_keys)[2], float4 (&of_values)[2]) {
    const auto* const from =
        reinterpret_cast<const float4*>(buffer + scales(dims)) + group * 8 + lane % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      of_keys[i] = from[i * 4];
      of_values[i] = from[kBufferKeys / 4 + i * 4];
    }
  }

  // Codes are finite, whatever memory behind a sequence's end has, but those of NaN.
  template <int kColumns>
  static __device__ void load_values(const std::byte* buffer, std::int32_t dims, int sixteen,
                                     int first, int lane, bool, int2 seen,
                                     std::uint32_t (&b)[2][kColumns]) {
    constexpr int kWords = (kColumns + 1) / 2;
    const int t = lane % 4;
    const std::byte* const from =
        buffer + (sixteen * 8 + t * 2) * row_bytes(dims) + (first * 2 ^ t * 32);
    std::uint32_t codes[2][kWords];
#pragma unroll
    for (int i = 0; i < 2; ++i) load_words<kColumns>(from + i * row_bytes(dims), codes[i]);
    const bool odd =
        Code::is_odd(codes[0][0], codes[1][0], codes[0][kWords - 1], codes[1][kWords - 1]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int c = 0; c < kColumns; c += 2) {
        std::uint32_t none = 0;
        Code::expand(codes[i][c / 2], odd, b[i][c], c + 1 < kColumns ? b[i][c + 1] : none);
      }
      if (!odd) continue;
      const auto is_seen = [&](int key) { return key >= seen.x && key < seen.y; };
      const int key = t * 4 + i * 2;
      const std::uint32_t bits =
          (is_seen(key) ? 0xFFFFU : 0U) | (is_seen(key + 1) ? 0xFFFF0000U : 0U);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) b[i][c] &= bits;
    }
  }

 private:
  // Two bytes for each column.
  template <int kColumns, int kWords>
  static __device__ void load_words(const std::byte* from, std::uint32_t (&to)[kWords]) {
    if constexpr (kColumns == 1) {
      to[0] = *reinterpret_cast<const std::uint16_t*>(from);
    } else if constexpr (kColumns == 2) {
      to[0] = *reinterpret_cast<const std::uint32_t*>(from);
    } else {
      const uint2 both = *reinterpret_cast<const uint2*>(from);
      to[0] = both.x;
      to[1] = both.y;
    }
  }
};

// Products and sums of pairs of bfloat16 whose results are exact.
__device__ inline std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  const __nv_bfloat162 product = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a),
                                         *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const std::uint32_t*>(&product);
}
__device__ inline std::uint32_t add_pairs(std::uint32_t a, std::uint32_t b) {
  const __nv_bfloat162 sum = __hadd2(*reinterpret_cast<const __nv_bfloat162*>(&a),
                                     *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const std::uint32_t*>(&sum);
}

struct Fp8Code {
  static constexpr bool kHasScales = false;
  // Whether a lane of the warp has a NaN in one of these.
  static __device__ bool is_odd(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                std::uint32_t d) {
    const auto carry = [](std::uint32_t codes) { return (codes & 0x7F7F7F7FU) + 0x01010101U; };
    return __any_sync(~0U, ((carry(a) | carry(b) | carry(c) | carry(d)) & 0x80808080U) != 0);
  }
  static __device__ void expand(std::uint32_t codes, bool odd, std::uint32_t& low,
                                std::uint32_t& high) {
    low = expand_two(__byte_perm(codes, 0, 0x1404), odd);
    high = expand_two(__byte_perm(codes, 0, 0x3424), odd);
  }

 private:
  // Of codes in the upper bytes: their exponents and mantissas at the place of bfloat16's are the
  // numbers times 2^-120.
  static __device__ std::uint32_t expand_two(std::uint32_t codes, bool odd) {
    constexpr std::uint32_t kPower = 0x7B807B80;  // 2^120
    const std::uint32_t small = (codes >> 4 & 0x07F007F0U) | (codes & 0x80008000U);
    std::uint32_t pair = multiply_pairs(small, kPower);
    if (odd) {
      if ((codes & 0x7F00U) == 0x7F00U) pair |= 0x7FC0U;
      if ((codes & 0x7F000000U) == 0x7F000000U) pair |= 0x7FC00000U;
    }
    return pair;
  }
};

struct Int8Code {
  static constexpr bool kHasScales = true;
  static __device__ bool is_odd(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t) {
    return false;
  }
  static __device__ void expand(std::uint32_t codes, bool, std::uint32_t& low,
                                std::uint32_t& high) {
    low = expand_two(__byte_perm(codes, 0, 0x4140));
    high = expand_two(__byte_perm(codes, 0, 0x4342));
  }

 private:
  // Of codes in the lower bytes: 128 + the lower seven bits, less 128, or 256 if it is negative.
  static __device__ std::uint32_t expand_two(std::uint32_t codes) {
    return add_pairs((codes & 0x007F007FU) | 0x43004300U, (codes & 0x00800080U) | 0xC300C300U);
  }
};

template <>
struct PagedNumbers<DType::kF8E4M3> : PagedCodes<Fp8Code> {};
template <>
struct PagedNumbers<DType::kI8> : PagedCodes<Int8Code> {};

}  // namespace quire::cuda
