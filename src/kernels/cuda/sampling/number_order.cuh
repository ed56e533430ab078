// The order of numbers as integers, and the first of the largest.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include <climits>

namespace quire::cuda {

// Larger for larger numbers, the same for -0 and 0, above 0. `value` is not NaN.
__device__ inline std::uint32_t order_of_number(float value) {
  const std::uint32_t bits = __float_as_uint(value + 0.0F);  // -0 becomes 0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

__device__ inline float number_of_order(std::uint32_t order) {
  return __uint_as_float((order >> 31) != 0 ? order & 0x7FFFFFFFU : ~order);
}

inline constexpr std::uint32_t kOrderOfNan = UINT32_MAX;

// A number of a row: the order of its value and where it is. At first before all numbers.
struct Place {
  std::uint32_t order = 0;
  std::int32_t index = INT_MAX;

  // Sees numbers in the order of their indices. NaN is above all of them.
  __device__ void see(float value, std::int32_t at) {
    const std::uint32_t seen = isnan(value) ? kOrderOfNan : order_of_number(value);
    if (seen > order) *this = {seen, at};
  }
};

__device__ inline Place first_largest_of_warp(Place place) {
  const std::uint32_t order = __reduce_max_sync(~0U, place.order);
  return {order, __reduce_min_sync(~0U, place.order == order ? place.index : INT_MAX)};
}

}  // namespace quire::cuda
