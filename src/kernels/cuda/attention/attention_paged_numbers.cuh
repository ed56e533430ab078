// Keys and values of each type of cache in a buffer of 64 keys of attention_paged_split.cuh, and
// how they become operands of tensor cores: FP8 codes are exact in float16, INT8 codes in bfloat16,
// whose scales are factors of scores and of weights.
//
// A lane (g, t) = (lane / 4, lane % 4) has four scores of each row of 16 keys: [2 eights][2
// columns] (attention_paged_math.cuh). Which keys these are differs, as does where their weights
// lie in operand A: codes are loaded four bytes at a time, so that neighbouring keys, or
// dimensions, are columns of two products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/cuda/attention/attention_paged_copies.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/row_args.h"

namespace quire::cuda {

inline constexpr std::int32_t kBufferKeys = 64;

// The bits of two neighbouring keys' values that some row sees, `seen` of them all: memory behind a
// sequence's end may be NaN.
__device__ inline std::uint32_t seen_pair(int key, int2 seen) {
  const auto is_seen = [&](int k) { return k >= seen.x && k < seen.y; };
  return (is_seen(key) ? 0xFFFFU : 0U) | (is_seen(key + 1) ? 0xFFFF0000U : 0U);
}

template <DType kDType>
struct PagedNumbers;

// Pairs of dimensions of keys, [dims / 2][64 keys], or pairs of values of dimensions, [32
// pairs][dims], in 4-byte words. Of 16 words at a time in row p, word w lies at w ^ 8 (p % 4), so
// that lanes that read four rows use different banks.
template <>
struct PagedNumbers<DType::kBF16> {
  static constexpr int kPairBytes = 4;
  static constexpr bool kHasScales = false;
  static constexpr bool kHasNan = true;

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

  // Operands B of the 32 keys of `group`, 16 dimensions at a time: lane (g, t) reads key g of every
  // 8, of pairs of dimensions t and t + 4.
  struct Keys {
    const std::uint32_t* from;
    int words[4];

    __device__ Keys(const std::byte* buffer, std::int32_t, int group, int lane)
        : from(reinterpret_cast<const std::uint32_t*>(buffer) + lane % 4 * kBufferKeys) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = group * kGroupKeys + 8 * i + lane / 4 ^ lane % 4 * 8;
    }
    __device__ void next(std::uint32_t (&b)[4][2]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        b[i][0] = from[words[i]];
        b[i][1] = from[words[i] + 4 * kBufferKeys];
      }
      from += 8 * kBufferKeys;
    }
  };
  // Of 32 keys, that of score `column` of the lane's `eight`th.
  static __device__ int key_of(int eight, int column, int lane) {
    return 8 * eight + lane % 4 * 2 + column;
  }
  static __device__ std::uint32_t query_pair(float2 numbers, float scale) {
    return scaled_queries(numbers, scale);
  }
  // Weights of 16 keys as operand A.
  static __device__ uint4 operand(const float (&low)[4], const float (&high)[4]) {
    return make_uint4(two_bf16(low[0], low[1]), two_bf16(low[2], low[3]),
                      two_bf16(high[0], high[1]), two_bf16(high[2], high[3]));
  }
  static __device__ void multiply(float (&sums)[4], const uint4& a, std::uint32_t b0,
                                  std::uint32_t b1) {
    paged_mma(sums, a, b0, b1);
  }

  // Operands B of kColumns dimensions of a lane from `first` on, 16 keys at a time.
  template <int kColumns>
  struct Values {
    const std::uint32_t* from;
    std::int32_t words;

    __device__ Values(const std::byte* buffer, std::int32_t dims, int first, int lane)
        : from(reinterpret_cast<const std::uint32_t*>(buffer) + lane % 4 * row_words(dims) +
               (first ^ lane % 4 * 8)),
          words(row_words(dims)) {}
    __device__ void next(std::uint32_t (&b)[2][kColumns]) {
      load_pairs(from, b[0]);
      load_pairs(from + 4 * words, b[1]);
      from += 8 * words;
    }
    // `seen`: the keys that some row sees, from the first of the 16 on.
    __device__ static void hide(int lane, int2 seen, std::uint32_t (&b)[2][kColumns]) {
#pragma unroll
      for (int i = 0; i < 2 * kColumns; ++i) {
        b[i / kColumns][i % kColumns] &= seen_pair(i / kColumns * 8 + lane % 4 * 2, seen);
      }
    }
  };

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
  static constexpr bool kHasNan = Code::kHasNan;

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

  struct Keys {
    const std::uint32_t* from[2];  // of each 16

    __device__ Keys(const std::byte* buffer, std::int32_t dims, int group, int lane) {
      from[0] = reinterpret_cast<const std::uint32_t*>(buffer + group * kGroupKeys * dims) +
                lane % 4 * 8 + lane / 4;
      from[1] = from[0] + 4 * dims;
    }
    __device__ void next(std::uint32_t (&b)[4][2]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Code::expand(from[i / 2][i % 2 * 32], b[i / 2 * 2][i % 2], b[i / 2 * 2 + 1][i % 2]);
      }
      from[0] += 64;
      from[1] += 64;
    }
  };
  static __device__ int key_of(int eight, int column, int lane) {
    return eight / 2 * 16 + lane % 4 * 4 + column * 2 + eight % 2;
  }
  static __device__ std::uint32_t query_pair(float2 numbers, float scale) {
    return Code::query_pair(__fmul_rn(numbers.x, scale), __fmul_rn(numbers.y, scale));
  }
  static __device__ uint4 operand(const float (&low)[4], const float (&high)[4]) {
    return make_uint4(Code::pair(low[0], high[0]), Code::pair(low[2], high[2]),
                      Code::pair(low[1], high[1]), Code::pair(low[3], high[3]));
  }
  static __device__ void multiply(float (&sums)[4], const uint4& a, std::uint32_t b0,
                                  std::uint32_t b1) {
    Code::multiply(sums, a, b0, b1);
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

  template <int kColumns>
  struct Values {
    const std::byte* from;
    std::int32_t row;

    __device__ Values(const std::byte* buffer, std::int32_t dims, int first, int lane)
        : from(buffer + lane % 4 * 2 * row_bytes(dims) + (first * 2 ^ lane % 4 * 32)),
          row(row_bytes(dims)) {}
    __device__ void next(std::uint32_t (&b)[2][kColumns]) {
#pragma unroll
      for (int i = 0; i < 2; ++i) load_pairs(from + i * row, b[i]);
      from += 8 * row;
    }
    __device__ static void hide(int lane, int2 seen, std::uint32_t (&b)[2][kColumns]) {
#pragma unroll
      for (int i = 0; i < 2 * kColumns; ++i) {
        b[i / kColumns][i % kColumns] &= seen_pair(lane % 4 * 4 + i / kColumns * 2, seen);
      }
    }
  };

 private:
  template <int kColumns>
  static __device__ void load_pairs(const std::byte* from, std::uint32_t (&to)[kColumns]) {
    if constexpr (kColumns == 1) {
      std::uint32_t none = 0;
      Code::expand(*reinterpret_cast<const std::uint16_t*>(from), to[0], none);
    } else if constexpr (kColumns == 2) {
      Code::expand(*reinterpret_cast<const std::uint32_t*>(from), to[0], to[1]);
    } else {
      const uint2 both = *reinterpret_cast<const uint2*>(from);
      Code::expand(both.x, to[0], to[1]);
      Code::expand(both.y, to[2], to[3]);
    }
  }
};

struct Fp8Code {
  static constexpr bool kHasScales = false;
  static constexpr bool kHasNan = true;

  // Float16 has NaN where E4M3 has.
  static __device__ void expand(std::uint32_t codes, std::uint32_t& low, std::uint32_t& high) {
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.rn.f16x2.e4m3x2 %0, l; "
        "cvt.rn.f16x2.e4m3x2 %1, h;}"
        : "=r"(low), "=r"(high)
        : "r"(codes));
  }
  static __device__ std::uint32_t pair(float low, float high) {
    std::uint32_t both = 0;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
  }
  // Beyond what float16 has, scores are so large that one key has all the weight.
  static __device__ std::uint32_t query_pair(float low, float high) {
    constexpr float kMost = 65504.0F;
    const auto limited = [](float x) { return fabsf(x) > kMost ? copysignf(kMost, x) : x; };
    return pair(limited(low), limited(high));
  }
  static __device__ void multiply(float (&sums)[4], const uint4& a, std::uint32_t b0,
                                  std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
};

struct Int8Code {
  static constexpr bool kHasScales = true;
  static constexpr bool kHasNan = false;

  static __device__ void expand(std::uint32_t codes, std::uint32_t& low, std::uint32_t& high) {
    low = expand_two(__byte_perm(codes, 0, 0x4140));
    high = expand_two(__byte_perm(codes, 0, 0x4342));
  }
  static __device__ std::uint32_t pair(float low, float high) { return two_bf16(low, high); }
  static __device__ std::uint32_t query_pair(float low, float high) { return pair(low, high); }
  static __device__ void multiply(float (&sums)[4], const uint4& a, std::uint32_t b0,
                                  std::uint32_t b1) {
    paged_mma(sums, a, b0, b1);
  }

 private:
  // One instruction, which compilers do not find where both others are constants.
  static __device__ std::uint32_t masked_or(std::uint32_t x, std::uint32_t mask,
                                            std::uint32_t bits) {
    std::uint32_t result = 0;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(x), "r"(mask), "r"(bits));
    return result;
  }
  // Of codes in the lower bytes: 128 + the lower seven bits, less 128, or 256 if it is negative,
  // which is exact.
  static __device__ std::uint32_t expand_two(std::uint32_t codes) {
    const std::uint32_t large = masked_or(codes, 0x007F007FU, 0x43004300U);
    const std::uint32_t less = masked_or(codes, 0x00800080U, 0xC300C300U);
    const __nv_bfloat162 sum = __hadd2(*reinterpret_cast<const __nv_bfloat162*>(&large),
                                       *reinterpret_cast<const __nv_bfloat162*>(&less));
    return *reinterpret_cast<const std::uint32_t*>(&sum);
  }
};

template <>
struct PagedNumbers<DType::kF8E4M3> : PagedCodes<Fp8Code> {};
template <>
struct PagedNumbers<DType::kI8> : PagedCodes<Int8Code> {};

}  // namespace quire::cuda
