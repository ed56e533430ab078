#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/row_access.cuh"
#include "kernels/cuda/rows/rows.h"

namespace quire::cuda {
namespace {

// The quads of a row that a thread sees, the first of them in registers: all of them in rows of up
// to 8192 numbers.
template <bool kAligned>
class HeldRow {
 public:
  __device__ HeldRow(const float* x, std::int64_t cols) : x_(x), cols_(cols) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held_[i] = load_quad<kAligned>(x, quad_of(i), cols);
  }

  // Calls fn(values, quad), in the same order each time.
  template <typename F>
  __device__ void for_each(const F& fn) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (4 * quad_of(i) < cols_) fn(held_[i], quad_of(i));
    }
    for (int i = kHeld; 4 * quad_of(i) < cols_; ++i) {
      fn(load_quad<kAligned>(x_, quad_of(i), cols_), quad_of(i));
    }
  }

  // Calls fn(values, values of the other, quad).
  template <typename F>
  __device__ void for_each_with(const HeldRow& other, const F& fn) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (4 * quad_of(i) < cols_) fn(held_[i], other.held_[i], quad_of(i));
    }
    for (int i = kHeld; 4 * quad_of(i) < cols_; ++i) {
      const std::int64_t quad = quad_of(i);
      fn(load_quad<kAligned>(x_, quad, cols_), load_quad<kAligned>(other.x_, quad, cols_), quad);
    }
  }

 private:
  static constexpr int kHeld = 2;
  __device__ static std::int64_t quad_of(int i) {
    return threadIdx.x + static_cast<std::int64_t>(i) * blockDim.x;
  }

  const float* x_;
  std::int64_t cols_;
  float4 held_[kHeld];
};

// Where a compiler might fuse in one of several ways, the way is given: all kernels have one.
__device__ float add_squares(float sum, float4 values) {
  sum = __fmaf_rn(values.x, values.x, sum);
  sum = __fmaf_rn(values.y, values.y, sum);
  sum = __fmaf_rn(values.z, values.z, sum);
  return __fmaf_rn(values.w, values.w, sum);
}

__device__ float4 multiply_and_add(float4 a, float4 b, float4 c) {
  return make_float4(__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y), __fmaf_rn(a.z, b.z, c.z),
                     __fmaf_rn(a.w, b.w, c.w));
}

template <bool kAdd, bool kAligned>
__global__ void rms_norm_rows(const float* x, const float* weight, float epsilon, std::int64_t rows,
                              std::int64_t cols, std::int64_t stride, float* out) {
  __shared__ float parts[32];
  let_next_start();
  const HeldRow<kAligned> weights(weight, cols);  // these never change
  wait_for_previous();
  const std::int64_t row = row_of_thread();
  if (row >= rows) return;
  const HeldRow<kAligned> values(x + row * stride, cols);
  out += row * stride;

  float sum = 0.0F;
  values.for_each([&](float4 quad, std::int64_t) { sum = add_squares(sum, quad); });
  sum = sum_of_row_threads(sum, parts);
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(cols) + epsilon);
  values.for_each_with(weights, [&](float4 quad, float4 by, std::int64_t index) {
    quad = map_quad(quad, [scale](float v) { return v * scale; });
    if constexpr (kAdd) {
      quad = multiply_and_add(quad, by, load_quad<kAligned>(out, index, cols));
    } else {
      quad = join_quads(quad, by, [](float v, float w) { return v * w; });
    }
    store_quad(quad, index, cols, out);
  });
}

template <bool kAligned>
__global__ void layer_norm_rows(const float* x, const float* weight, const float* bias,
                                float epsilon, std::int64_t rows, std::int64_t cols, float* out) {
  __shared__ float sums[32];
  __shared__ float squares[32];
  let_next_start();
  wait_for_previous();
  const std::int64_t row = row_of_thread();
  if (row >= rows) return;
  const HeldRow<kAligned> values(x + row * cols, cols);
  out += row * cols;

  float sum = 0.0F;
  values.for_each([&](float4 quad, std::int64_t) { sum += quad.x + quad.y + (quad.z + quad.w); });
  const float mean = sum_of_row_threads(sum, sums) / static_cast<float>(cols);
  float square = 0.0F;
  values.for_each([&](float4 quad, std::int64_t index) {
    for_each_of_quad(quad, index, cols, [&](float value, std::int64_t) {
      square = __fmaf_rn(value - mean, value - mean, square);
    });
  });
  const float variance = sum_of_row_threads(square, squares) / static_cast<float>(cols);
  const float scale = 1.0F / sqrtf(variance + epsilon);
  values.for_each([&](float4 quad, std::int64_t index) {
    const auto constant = [](float value) { return make_float4(value, value, value, value); };
    quad = map_quad(quad, [mean, scale](float value) { return (value - mean) * scale; });
    quad = multiply_and_add(
        quad, weight == nullptr ? constant(1.0F) : load_quad<kAligned>(weight, index, cols),
        bias == nullptr ? constant(0.0F) : load_quad<kAligned>(bias, index, cols));
    store_quad(quad, index, cols, out);
  });
}

template <bool kAdd>
void launch_rms_norm(const Launch& launch, const float* x, const float* weight, float epsilon,
                     std::int64_t rows, std::int64_t cols, std::int64_t stride, float* out) {
  if (rows == 0 || cols == 0) return;
  const RowThreads threads = RowThreads::of(cols);
  const bool aligned = quads_are_aligned(x, stride) && quads_are_aligned(weight, cols) &&
                       quads_are_aligned(out, stride);
  launch_dependent(aligned ? rms_norm_rows<kAdd, true> : rms_norm_rows<kAdd, false>,
                   threads.grid(rows), threads.block(), 0, launch.stream, x, weight, epsilon, rows,
                   cols, stride, out);
}

}  // namespace

void rms_norm(const Launch& launch, const float* x, const float* weight, float epsilon,
              std::int64_t rows, std::int64_t cols, float* out) {
  launch_rms_norm<false>(launch, x, weight, epsilon, rows, cols, cols, out);
}

void rms_norm_and_add(const Launch& launch, const float* x, const float* weight, float epsilon,
                      std::int64_t rows, std::int64_t cols, float* out) {
  launch_rms_norm<true>(launch, x, weight, epsilon, rows, cols, cols, out);
}

void rms_norm_in_place(const Launch& launch, const float* weight, float epsilon, std::int64_t rows,
                       std::int64_t cols, std::int64_t stride, float* x) {
  launch_rms_norm<false>(launch, x, weight, epsilon, rows, cols, stride, x);
}

void layer_norm(const Launch& launch, const float* x, const float* weight, const float* bias,
                float epsilon, std::int64_t rows, std::int64_t cols, float* out) {
  if (rows == 0 || cols == 0) return;
  const RowThreads threads = RowThreads::of(cols);
  const bool aligned = quads_are_aligned(x, cols) && quads_are_aligned(weight, cols) &&
                       quads_are_aligned(bias, cols) && quads_are_aligned(out, cols);
  launch_dependent(aligned ? layer_norm_rows<true> : layer_norm_rows<false>, threads.grid(rows),
                   threads.block(), 0, launch.stream, x, weight, bias, epsilon, rows, cols, out);
}

}  // namespace quire::cuda
