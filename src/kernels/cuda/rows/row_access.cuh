// How kernels on rows read, write and add up: four floats at a time, and in an order of sums that
// depends on a row's length alone, not on where it lies or on what else is computed.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

namespace quire::cuda {

// Whether a float4 may be read at x and at every `step` floats from there.
inline bool quads_are_aligned(const float* x, std::int64_t step) {
  return reinterpret_cast<std::uintptr_t>(x) % sizeof(float4) == 0 && step % 4 == 0;
}

// Whether float `index` of `x` lies where a float4 may.
__device__ inline bool quad_is_aligned(const float* x, std::int64_t index) {
  return (reinterpret_cast<std::uintptr_t>(x + index) & 15U) == 0;
}

// Numbers [4 quad, 4 quad + 4) of `count` > 0, zeros beyond their end. kAligned: x is, and count is
// a multiple of 4; then there is no branch, so that several loads are on their way at once.
template <bool kAligned = false>
__device__ float4 load_quad(const float* x, std::int64_t quad, std::int64_t count) {
  float4 values = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  if constexpr (kAligned) {
    const std::int64_t last = count / 4 - 1;
    const float4 read = reinterpret_cast<const float4*>(x)[quad < last ? quad : last];
    return quad <= last ? read : values;
  }
  const std::int64_t first = 4 * quad;
  if (first + 4 <= count && quad_is_aligned(x, first)) {
    return *reinterpret_cast<const float4*>(x + first);
  }
  if (first < count) values.x = x[first];
  if (first + 1 < count) values.y = x[first + 1];
  if (first + 2 < count) values.z = x[first + 2];
  if (first + 3 < count) values.w = x[first + 3];
  return values;
}

// Numbers beyond the end of `count` are not written.
__device__ inline void store_quad(float4 values, std::int64_t quad, std::int64_t count, float* x) {
  const std::int64_t first = 4 * quad;
  if (first + 4 <= count && quad_is_aligned(x, first)) {
    *reinterpret_cast<float4*>(x + first) = values;
    return;
  }
  if (first < count) x[first] = values.x;
  if (first + 1 < count) x[first + 1] = values.y;
  if (first + 2 < count) x[first + 2] = values.z;
  if (first + 3 < count) x[first + 3] = values.w;
}

// Calls fn(a number of `values`, its index in the row) for those in the row.
template <typename F>
__device__ void for_each_of_quad(float4 values, std::int64_t quad, std::int64_t count,
                                 const F& fn) {
  const std::int64_t first = 4 * quad;
  if (first < count) fn(values.x, first);
  if (first + 1 < count) fn(values.y, first + 1);
  if (first + 2 < count) fn(values.z, first + 2);
  if (first + 3 < count) fn(values.w, first + 3);
}

// The quad of fn(a, b) of each two numbers.
template <typename F>
__device__ float4 join_quads(float4 a, float4 b, const F& fn) {
  return make_float4(fn(a.x, b.x), fn(a.y, b.y), fn(a.z, b.z), fn(a.w, b.w));
}

template <typename F>
__device__ float4 map_quad(float4 a, const F& fn) {
  return make_float4(fn(a.x), fn(a.y), fn(a.z), fn(a.w));
}

// Of all lanes of a warp, which all get it.
template <typename T>
__device__ T sum_of_warp(T value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0U, value, lanes);
  return value;
}

// Of all threads along x, which make up a warp (of several along y) or the block, and all get it.
// parts: [32] in shared memory, which no other call of the kernel uses.
template <typename T>
__device__ T sum_of_row_threads(T value, T* parts) {
  value = sum_of_warp(value);
  if (blockDim.x == 32) return value;
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  return sum_of_warp(lane < blockDim.x / 32 ? parts[lane] : T{0});
}

// How the threads of a block share rows whose numbers are added up: a warp has each short row, a
// block each long one. Depends on a row's length alone.
struct RowThreads {
  unsigned per_row = 32;
  unsigned rows_per_block = 1;

  static RowThreads of(std::int64_t cols) {
    constexpr std::int64_t kLongestOfWarp = 256;
    constexpr std::int64_t kFloatsOfThread = 8;
    if (cols <= kLongestOfWarp) return {.per_row = 32, .rows_per_block = 4};
    const std::int64_t warps = (cols + 32 * kFloatsOfThread - 1) / (32 * kFloatsOfThread);
    return {.per_row = warps < 32 ? static_cast<unsigned>(warps) * 32 : 1024, .rows_per_block = 1};
  }
  dim3 block() const { return {per_row, rows_per_block, 1}; }
  dim3 grid(std::int64_t rows) const {
    return {static_cast<unsigned>((rows + rows_per_block - 1) / rows_per_block), 1, 1};
  }
};

// The row of this thread.
__device__ inline std::int64_t row_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}

}  // namespace quire::cuda
