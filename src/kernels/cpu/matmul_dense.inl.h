// Matrix products over packed panels, written once for every vector width. Here what all have in
// common, and the dense layouts: a block of R input rows by N consecutive vectors of outputs for
// few rows, and the weights as lines of floats for many (matmul_blocked.inl.h).
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

  // Asks memory for what lies kAhead bytes behind [offset, offset + bytes) of each panel: a panel's
  // end is followed by the next one's begin, where the processor's own prefetching starts anew.
  template <std::int64_t kAhead = 2048>
  [[gnu::always_inline]] void fetch(std::int64_t offset, std::int64_t bytes) const {
    QUIRE_UNROLL
    for (int n = 0; n < N; n += kPanelVectors) {
      QUIRE_UNROLL
      for (std::int64_t at = 0; at < bytes; at += 64) {
        __builtin_prefetch(panel[n] + offset + kAhead + at, 0, V::kFetchLocality);
      }
    }
  }

 private:
  static constexpr int kPanelVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
};

// Sums times the scale of their output, which stands before its panel's weights.
template <typename V, int R, int N>
[[gnu::always_inline]] inline void scale_outputs(const MatmulPanels& args, std::int64_t output,
                                                 typename V::F (&acc)[R][N]) {
  const WeightStreams<V, N> streams(args, output);
  QUIRE_UNROLL
  for (int n = 0; n < N; ++n) {
    const typename V::F scale =
        V::load(reinterpret_cast<const float*>(streams.panel[n] + 4 * streams.lane[n]));
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) acc[r][n] = V::mul(acc[r][n], scale);
  }
}

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

// kF32 and kF16, few rows: one line of a panel is one k.
template <typename V, WeightLayout kLayout>
struct DenseBlock {
  using Shape = typename V::DirectBlocks;
  static constexpr std::int64_t kBytes = kLayout == WeightLayout::kF32 ? 4 : 2;

  [[gnu::always_inline]] static typename V::F load(const std::uint8_t* at) {
    if constexpr (kLayout == WeightLayout::kF32) {
      return V::load(reinterpret_cast<const float*>(at));
    } else {
      return V::load_half(at);
    }
  }

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    typename V::F acc[R][N];
    clear<V>(acc);
    for (std::int64_t k = 0; k < args.inputs; ++k) {
      typename V::F weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = load(streams.panel[n] + kBytes * (k * kPanelOutputs + streams.lane[n]));
      }
      multiply_add<V>(acc, weight, args.x + k, args.x_stride);
    }
    store_block<V>(args, 0, output, acc);
  }
};

// Dense weights as lines of 16 floats.
template <typename V, WeightLayout kLayout>
struct DenseLines {
  using Block = DenseBlock<V, kLayout>;

  // Inputs [begin, end) of a panel.
  static const float* expand(const MatmulPanels& /*args*/, const std::uint8_t* panel,
                             std::int64_t begin, std::int64_t end, float* lines) {
    const std::uint8_t* from = panel + Block::kBytes * kPanelOutputs * begin;
    if constexpr (kLayout == WeightLayout::kF32) {
      return reinterpret_cast<const float*>(from);  // they are lines already
    }
    for (std::int64_t i = 0; i < (end - begin) * kPanelOutputs; i += V::kWidth) {
      V::store(lines + i, Block::load(from + Block::kBytes * i));
    }
    return lines;
  }
};

// The two weights of each lane of a line of kBF16.
template <typename V>
[[gnu::always_inline]] inline typename V::F even_weight(typename V::I pair) {
  return V::as_float(V::template shift_left<16>(pair));
}
template <typename V>
[[gnu::always_inline]] inline typename V::F odd_weight(typename V::I pair) {
  return V::as_float(V::bit_and(pair, V::set1_int(static_cast<int>(0xFFFF0000U))));
}

// kBF16, few rows: one line of a panel is two k.
template <typename V>
struct Bf16Block {
  using Shape = typename V::DirectBlocks;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const float* x = args.x;
    typename V::F acc[R][N];
    clear<V>(acc);
    const std::int64_t even_inputs = args.inputs / 2 * 2;
    for (std::int64_t k = 0; k < even_inputs; k += 2) {
      typename V::F even[R];
      typename V::F odd[R];
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        even[r] = V::set1(x[r * args.x_stride + k]);
        odd[r] = V::set1(x[r * args.x_stride + k + 1]);
      }
      // One pair of weights at a time: more would not stay in registers.
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const typename V::I pair = load(streams, n, k);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) acc[r][n] = V::fma(even[r], even_weight<V>(pair), acc[r][n]);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) acc[r][n] = V::fma(odd[r], odd_weight<V>(pair), acc[r][n]);
      }
    }
    if (even_inputs < args.inputs) {
      typename V::F last[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) last[n] = even_weight<V>(load(streams, n, even_inputs));
      multiply_add<V>(acc, last, x + even_inputs, args.x_stride);
    }
    store_block<V>(args, 0, output, acc);
  }

 private:
  template <int N>
  [[gnu::always_inline]] static typename V::I load(const WeightStreams<V, N>& streams, int n,
                                                   std::int64_t k) {
    return V::load_int(streams.panel[n] + 2 * k * kPanelOutputs + 4 * streams.lane[n]);
  }
};

}  // namespace
}  // namespace quire
