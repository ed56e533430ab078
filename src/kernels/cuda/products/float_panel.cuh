// Products with inputs in float32, exact up to the rounding of sums, of a panel of any layout and a
// few rows, by one block.
//
// Inputs are cut into segments of kFloatSegment. The products of a segment are added to a sum that
// begins with zero, in their order by fma; the sums of segments are added in their order.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/weight_decode.cuh"

namespace quire::cuda {

inline constexpr int kFloatSegment = 64;

// Row i's inputs are x[i][k], or x[i][order[k]] where weights have an order of inputs.
template <int kRows>
class FloatRows {
 public:
  const float* x[kRows];
  const std::int32_t* order = nullptr;
  std::int64_t inputs = 0;
  bool is_aligned = false;  // four inputs can be loaded at once, and there is no order

  // Inputs k to k + 4 kCount - 1, zeros beyond the last.
  template <int kCount>
  __device__ void load(int row, std::int64_t k, float4 (&quads)[kCount]) const {
    if (is_aligned && k + 4 * kCount <= inputs) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        quads[i] = *reinterpret_cast<const float4*>(x[row] + k + 4 * i);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t first = k + 4 * i;
      quads[i] = {input(row, first), input(row, first + 1), input(row, first + 2),
                  input(row, first + 3)};
    }
  }

 private:
  __device__ float input(int row, std::int64_t k) const {
    if (k >= inputs) return 0.0F;
    return x[row][order == nullptr ? k : order[k]];
  }
};

// In shared memory.
template <int kRows>
struct FloatPanelSums {
  static constexpr int kSlots = 32;  // segments that are computed at once
  float of[2][kSlots][kRows][kPanelOutputs];
};

inline constexpr int kFloatPanelThreads = FloatPanelSums<1>::kSlots * kPanelOutputs;

// By all threads of a block of kFloatPanelThreads; thread i gets the result of output i % 16 of row
// i / 16, if that is one of kRows. prepare(): called before inputs are read, after the first
// weights have been asked for.
template <WeightKind kKind, int kRows, typename Prepare>
__device__ float float_panel_product(const PanelForm& form, const std::uint8_t* panel,
                                     FloatPanelSums<kRows>& sums, const Prepare& prepare) {
  constexpr int kQuads = kKind != WeightKind::kAny && kRows == 1 ? 8 : 4;
  constexpr int kSlots = FloatPanelSums<kRows>::kSlots;
  const int n = static_cast<int>(threadIdx.x) % kPanelOutputs;
  const int slot = static_cast<int>(threadIdx.x) / kPanelOutputs;
  QuadsAhead<kKind, kQuads> ahead;
  const auto load = [&](std::int64_t k) {
    if (k < form.inputs) ahead.load(form, panel, k, n);
  };
  load(slot * kFloatSegment);
  const FloatRows<kRows> rows = prepare();
  float total = 0.0F;
  int buffer = 0;
  for (std::int64_t round = 0; round < form.inputs; round += kSlots * kFloatSegment) {
    const std::int64_t begin = round + slot * kFloatSegment;
    float own[kRows] = {};
#pragma unroll 1
    for (int part = 0; part < kFloatSegment; part += 4 * kQuads) {
      const std::int64_t k = begin + part;
      if (k >= form.inputs) break;
      const QuadsAhead<kKind, kQuads> now = ahead;
      const bool ends = part + 4 * kQuads == kFloatSegment;
      load(ends ? begin + kSlots * kFloatSegment : k + 4 * kQuads);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        float4 x[kQuads];
        rows.load(row, k, x);
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          const float4 weights = now.floats(i);
          own[row] = fmaf(x[i].x, weights.x, own[row]);
          own[row] = fmaf(x[i].y, weights.y, own[row]);
          own[row] = fmaf(x[i].z, weights.z, own[row]);
          own[row] = fmaf(x[i].w, weights.w, own[row]);
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) sums.of[buffer][slot][row][n] = own[row];
    __syncthreads();
    if (slot < kRows) {
      for (int i = 0; i < kSlots && round + i * kFloatSegment < form.inputs; ++i) {
        total += sums.of[buffer][i][slot][n];
      }
    }
    buffer ^= 1;
  }
  return total;
}

}  // namespace quire::cuda
