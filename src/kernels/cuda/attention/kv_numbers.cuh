// Numbers of the KV cache (kernels/kv_layout.h) on the device, bit for bit as
// tensor/float_convert.h and kernels/ref/kv_ref.h convert them.
#pragma once

#include <cstdint>
#include <cuda_fp8.h>

#include "tensor/dtype.h"

namespace quire::cuda {

// What a number is kept as. Neighbours that the layout puts side by side (key_group(),
// value_group()) are read together as a Pair.
template <DType kDType>
struct KvNumber;

template <>
struct KvNumber<DType::kF32> {
  using Bits = float;
  using Pair = float2;
  static constexpr int kKeyGroup = 1;
  static __device__ Bits of(float value) { return value; }
  static __device__ float to_float(Bits bits) { return bits; }
  static __device__ float2 to_floats(Pair pair) { return pair; }
};

template <>
struct KvNumber<DType::kBF16> {
  using Bits = std::uint16_t;
  using Pair = std::uint32_t;
  static constexpr int kKeyGroup = 2;
  // Nearest even; a NaN keeps its upper bits, which the hardware's conversion does not.
  static __device__ Bits of(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<Bits>((bits >> 16) | 0x40U);
    return static_cast<Bits>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
  static __device__ float to_float(Bits bits) {
    return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
  }
  static __device__ float2 to_floats(Pair pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000U)};
  }
};

template <>
struct KvNumber<DType::kF8E4M3> {
  using Bits = std::uint8_t;
  using Pair = std::uint16_t;
  static constexpr int kKeyGroup = 2;
  // Nearest even, at most 448; a NaN keeps its sign, which the hardware's conversion does not.
  static __device__ Bits of(float value) {
    const auto sign = static_cast<Bits>(__float_as_uint(value) >> 24 & 0x80U);
    if (value != value) return sign | 0x7FU;
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
  static __device__ float to_float(Bits bits) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
  }
  static __device__ float2 to_floats(Pair pair) {
    return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
  }
};

// Codes without their scale.
template <>
struct KvNumber<DType::kI8> {
  using Bits = std::int8_t;
  using Pair = std::uint16_t;
  static constexpr int kKeyGroup = 2;
  static __device__ Bits of(float value) { return static_cast<Bits>(__float2int_rn(value)); }
  static __device__ float to_float(Bits bits) { return bits; }
  static __device__ float2 to_floats(Pair pair) {
    return {static_cast<float>(static_cast<Bits>(pair & 0xFFU)),
            static_cast<float>(static_cast<Bits>(pair >> 8))};
  }
};

}  // namespace quire::cuda
