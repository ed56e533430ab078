// Blocks of matrix products over packed panels, written once for every vector width: what a kernel
// does for R input rows and N consecutive vectors of outputs, with one accumulator each, through
// the whole of K. Here what all have in common, and the dense layouts.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/unroll.h"
#include "kernels/matmul_kernel.h"

namespace quire {
namespace {

// The vectors of a block: where each starts in its panel's stream.
template <typename V, int N>
struct WeightStreams {
  const std::uint8_t* panel[N];
  std::int64_t lane[N];  // first output of the vector within its panel

  WeightStreams(const MatmulPanels& args, std::int64_t output) {
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) {
      const std::int64_t first = output + n * V::kWidth;
      panel[n] = args.panels + static_cast<std::uint64_t>(first / kPanelOutputs) * args.panel_bytes;
      lane[n] = first % kPanelOutputs;
    }
  }
};

// Adds bias and old output, in this order, and stores what lies within the weight's outputs.
template <typename V, int R, int N>
void store_block(const MatmulPanels& args, std::int64_t row, std::int64_t output,
                 const typename V::F (&acc)[R][N]) {
  using F = typename V::F;
  QUIRE_UNROLL
  for (int n = 0; n < N; ++n) {
    const std::int64_t first = output + n * V::kWidth;
    const std::int64_t left = args.outputs - first;
    if (left <= 0) return;
    const bool whole = left >= V::kWidth;
    const int lanes = whole ? V::kWidth : static_cast<int>(left);
    const auto load = [&](const float* from) {
      return whole ? V::load(from) : V::load_first(from, lanes);
    };
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      float* out = args.out + (row + r) * args.out_stride + first;
      F value = acc[r][n];
      if (args.bias != nullptr) value = V::add(value, load(args.bias + first));
      if (args.accumulate) value = V::add(value, load(out));
      if (whole) {
        V::store(out, value);
      } else {
        V::store_first(out, value, lanes);
      }
    }
  }
}

// One weight of each output for each row: acc += x * w.
template <typename V, int R, int N>
[[gnu::always_inline]] inline void multiply_add(typename V::F (&acc)[R][N],
                                                const typename V::F (&weight)[N], const float* x,
                                                std::int64_t x_stride) {
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    const typename V::F value = V::set1(x[r * x_stride]);
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) acc[r][n] = V::fma(value, weight[n], acc[r][n]);
  }
}

template <typename V, int R, int N>
[[gnu::always_inline]] inline void clear(typename V::F (&acc)[R][N]) {
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) acc[r][n] = V::zero();
  }
}

// kF32 and kF16: one line of a panel is one k.
template <typename V, WeightLayout kLayout>
struct DenseBlock {
  using Shape = typename V::FloatBlocks;
  static constexpr std::int64_t kBytes = kLayout == WeightLayout::kF32 ? 4 : 2;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t row, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const float* x = args.x + row * args.x_stride;
    typename V::F acc[R][N];
    clear<V>(acc);
    for (std::int64_t k = 0; k < args.inputs; ++k) {
      typename V::F weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const std::uint8_t* at = streams.panel[n] + kBytes * (k * kPanelOutputs + streams.lane[n]);
        if constexpr (kLayout == WeightLayout::kF32) {
          weight[n] = V::load(reinterpret_cast<const float*>(at));
        } else {
          weight[n] = V::load_half(at);
        }
      }
      multiply_add<V>(acc, weight, x + k, args.x_stride);
    }
    store_block<V>(args, row, output, acc);
  }
};

// kBF16: one line of a panel is two k.
template <typename V>
struct Bf16Block {
  using Shape = typename V::FloatBlocks;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t row, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const float* x = args.x + row * args.x_stride;
    typename V::F acc[R][N];
    clear<V>(acc);
    for (std::int64_t k = 0; k < args.inputs; k += 2) {
      typename V::F even[N];
      typename V::F odd[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const typename V::I pair =
            V::load_int(streams.panel[n] + 2 * k * kPanelOutputs + 4 * streams.lane[n]);
        even[n] = V::as_float(V::template shift_left<16>(pair));
        odd[n] = V::as_float(V::bit_and(pair, V::set1_int(static_cast<int>(0xFFFF0000U))));
      }
      multiply_add<V>(acc, even, x + k, args.x_stride);
      if (k + 1 < args.inputs) multiply_add<V>(acc, odd, x + k + 1, args.x_stride);
    }
    store_block<V>(args, row, output, acc);
  }
};

}  // namespace
}  // namespace quire
