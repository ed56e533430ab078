// Matrix products over packed panels, written once for every vector width. A level's file gives the
// vector operations `V` (kernels/cpu/avx2/matmul_avx2.cpp shows them all) and instantiates.
//
// A block is R input rows by N consecutive vectors of outputs, with one accumulator each, that
// walks the whole of K. How rows and outputs are cut into blocks changes what shares a loaded
// weight, never the order of operations on one accumulator; so an output's bits depend on its row
// and its weights alone.
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

template <WeightLayout kLayout>
struct GroupTraits {
  static constexpr bool kInt8 = kLayout == WeightLayout::kInt8;
  static constexpr bool kHasMinimum = kLayout == WeightLayout::kUint4;
  static constexpr std::int64_t kGroupBytes =
      kInt8 ? kInt8GroupBytes : (kHasMinimum ? kUint4GroupBytes : kInt4GroupBytes);
  static constexpr std::int64_t kScales = kInt8 ? 512 : 256;  // offset within a group
  static constexpr std::int64_t kMinima = kScales + 32;
};

// Quantized weights, float32 activations: each weight becomes the float that decode_row() gives.
template <typename V, WeightLayout kLayout>
struct GroupFloatBlock {
  using Shape = typename V::FloatBlocks;
  using G = GroupTraits<kLayout>;
  using F = typename V::F;
  using I = typename V::I;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t row, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const float* x = args.x + row * args.x_stride;
    F acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g, x += kGroupInputs) {
      F scale[N];
      F minimum[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const std::uint8_t* group = streams.panel[n] + g * G::kGroupBytes + 2 * streams.lane[n];
        scale[n] = V::load_half(group + G::kScales);
        if constexpr (G::kHasMinimum) minimum[n] = V::load_half(group + G::kMinima);
      }
      // Multiplies the codes that sit `kShift` bits up in each lane with x[k].
      const auto add_codes = [&]<int kShift>(const I(&line)[N], std::int64_t k) {
        F weight[N];
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          I code;
          if constexpr (G::kInt8) {
            code = V::template shift_right_signed<24>(V::template shift_left<24 - kShift>(line[n]));
          } else {
            code = V::bit_and(V::template shift_right<kShift>(line[n]), V::set1_int(15));
          }
          if constexpr (kLayout == WeightLayout::kInt4) code = V::add32(code, V::set1_int(-8));
          weight[n] = V::mul(scale[n], V::to_float(code));
          if constexpr (G::kHasMinimum) weight[n] = V::add(weight[n], minimum[n]);
        }
        multiply_add<V>(acc, weight, x + k, args.x_stride);
      };
      constexpr int kLines = G::kInt8 ? 8 : 4;
      for (std::int64_t u = 0; u < kLines; ++u) {
        I line[N];
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          line[n] =
              V::load_int(streams.panel[n] + g * G::kGroupBytes + 64 * u + 4 * streams.lane[n]);
        }
        add_codes.template operator()<0>(line, 4 * u);
        add_codes.template operator()<8>(line, 4 * u + 1);
        add_codes.template operator()<16>(line, 4 * u + 2);
        add_codes.template operator()<24>(line, 4 * u + 3);
        if constexpr (!G::kInt8) {
          add_codes.template operator()<4>(line, 4 * u + 16);
          add_codes.template operator()<12>(line, 4 * u + 17);
          add_codes.template operator()<20>(line, 4 * u + 18);
          add_codes.template operator()<28>(line, 4 * u + 19);
        }
      }
    }
    store_block<V>(args, row, output, acc);
  }
};

// Quantized weights, int8 activations. A group's sum of products is exact in integers; it is scaled
// and added once: acc += float(sum) * (scale of weights * scale of inputs), and for minima
// acc += minimum * (scale of inputs * sum of input codes).
template <typename V, WeightLayout kLayout>
struct GroupInt8Block {
  using Shape = typename V::IntBlocks;
  using G = GroupTraits<kLayout>;
  using F = typename V::F;
  using I = typename V::I;

  // Signed bytes: |w| and the activation with the sign of w, because the byte product wants one
  // unsigned side. Two products are at most 2 * 128 * 127 and fit 16 bits; more would not.
  template <int R, int N>
  [[gnu::always_inline]] static void dot_int8(const std::uint8_t* const (&group)[N],
                                              const std::int8_t* codes, std::int64_t stride,
                                              I (&dot)[R][N]) {
    QUIRE_UNROLL
    for (std::int64_t u = 0; u < 8; ++u) {
      I weight[N];
      I magnitude[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = V::load_int(group[n] + 64 * u);
        magnitude[n] = V::abs8(weight[n]);
      }
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I x = V::set1_quad(codes + r * stride + 4 * u);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const I pairs = V::multiply_add_bytes(magnitude[n], V::apply_sign8(x, weight[n]));
          const I quads = V::add_pairs16(pairs);
          dot[r][n] = u == 0 ? quads : V::add32(dot[r][n], quads);
          QUIRE_PIN_VECTOR(dot[r][n]);
        }
      }
    }
  }

  // Unsigned nibbles: 16 products are at most 16 * 15 * 127 = 30480, so a group fits 16 bits.
  template <int R, int N>
  [[gnu::always_inline]] static void dot_4bit(const std::uint8_t* const (&group)[N],
                                              const std::int8_t* codes, std::int64_t stride,
                                              I (&dot)[R][N]) {
    const I mask = V::set1_int(0x0F0F0F0F);
    QUIRE_UNROLL
    for (std::int64_t u = 0; u < 4; ++u) {
      I low[N];
      I high[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const I line = V::load_int(group[n] + 64 * u);
        low[n] = V::bit_and(line, mask);
        high[n] = V::bit_and(V::template shift_right<4>(line), mask);
      }
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I x_low = V::set1_quad(codes + r * stride + 4 * u);
        const I x_high = V::set1_quad(codes + r * stride + 16 + 4 * u);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const I first = V::multiply_add_bytes(low[n], x_low);
          dot[r][n] = u == 0 ? first : V::add16(dot[r][n], first);
          QUIRE_PIN_VECTOR(dot[r][n]);
          dot[r][n] = V::add16(dot[r][n], V::multiply_add_bytes(high[n], x_high));
          QUIRE_PIN_VECTOR(dot[r][n]);
        }
      }
    }
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) dot[r][n] = V::add_pairs16(dot[r][n]);
    }
  }

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t row, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const std::int64_t groups = args.inputs / kGroupInputs;
    const std::int8_t* codes = args.int8_x.codes + row * args.inputs;
    const float* scales = args.int8_x.scales + row * groups;
    const std::int32_t* sums = args.int8_x.sums + row * groups;
    const float* scaled_sums = args.int8_x.scaled_sums + row * groups;
    F acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < groups; ++g, codes += kGroupInputs) {
      const std::uint8_t* group[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        group[n] = streams.panel[n] + g * G::kGroupBytes + 4 * streams.lane[n];
      }
      I dot[R][N];
      if constexpr (G::kInt8) {
        dot_int8<R, N>(group, codes, args.inputs, dot);
      } else {
        dot_4bit<R, N>(group, codes, args.inputs, dot);
      }
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const std::uint8_t* halves = group[n] - 2 * streams.lane[n];
        const F scale = V::load_half(halves + G::kScales);
        F minimum;
        if constexpr (G::kHasMinimum) minimum = V::load_half(halves + G::kMinima);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) {
          const std::int64_t at = r * groups + g;
          I total = dot[r][n];
          if constexpr (kLayout == WeightLayout::kInt4) {
            total = V::add32(total, V::set1_int(-8 * sums[at]));
          }
          acc[r][n] = V::fma(V::to_float(total), V::mul(scale, V::set1(scales[at])), acc[r][n]);
          if constexpr (G::kHasMinimum) {
            acc[r][n] = V::fma(minimum, V::set1(scaled_sums[at]), acc[r][n]);
          }
        }
      }
    }
    store_block<V>(args, row, output, acc);
  }
};

// Outputs [output, end), a whole number of panels, for R rows.
template <typename V, typename Block, int R>
void run_outputs(const MatmulPanels& args, std::int64_t row, std::int64_t output,
                 std::int64_t end) {
  constexpr int kVectors = Block::Shape::vectors(R);
  constexpr int kPanelVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
  constexpr int kRest = kVectors < kPanelVectors ? kVectors : kPanelVectors;
  for (; output + kVectors * V::kWidth <= end; output += kVectors * V::kWidth) {
    Block::template run<R, kVectors>(args, row, output);
  }
  for (; output < end; output += kRest * V::kWidth) {
    Block::template run<R, kRest>(args, row, output);
  }
}

// As above for `rows` <= R rows.
template <typename V, typename Block, int R>
void run_rows(const MatmulPanels& args, std::int64_t row, std::int64_t rows, std::int64_t output,
              std::int64_t end) {
  if (rows == R) {
    run_outputs<V, Block, R>(args, row, output, end);
  } else if constexpr (R > 1) {
    run_rows<V, Block, R - 1>(args, row, rows, output, end);
  }
}

// Strips of panels stay in the cache while the blocks of rows pass over them.
template <typename V, typename Block>
void vec_matmul(const MatmulPanels& args) {
  constexpr std::int64_t kRows = Block::Shape::kRows;
  const std::int64_t end = args.panel_end * kPanelOutputs;
  for (std::int64_t output = args.panel_begin * kPanelOutputs; output < end;
       output += Block::Shape::kStripOutputs) {
    const std::int64_t strip_end =
        output + Block::Shape::kStripOutputs < end ? output + Block::Shape::kStripOutputs : end;
    for (std::int64_t row = 0; row < args.rows; row += kRows) {
      const std::int64_t rows = args.rows - row < kRows ? args.rows - row : kRows;
      run_rows<V, Block, kRows>(args, row, rows, output, strip_end);
    }
  }
}

template <typename V>
void set_vec_matmul(MatmulKernels& kernels) {
  kernels.f32 = vec_matmul<V, DenseBlock<V, WeightLayout::kF32>>;
  kernels.f16 = vec_matmul<V, DenseBlock<V, WeightLayout::kF16>>;
  kernels.bf16 = vec_matmul<V, Bf16Block<V>>;
  kernels.int8_float = vec_matmul<V, GroupFloatBlock<V, WeightLayout::kInt8>>;
  kernels.uint4_float = vec_matmul<V, GroupFloatBlock<V, WeightLayout::kUint4>>;
  kernels.int4_float = vec_matmul<V, GroupFloatBlock<V, WeightLayout::kInt4>>;
  kernels.int8_int8 = vec_matmul<V, GroupInt8Block<V, WeightLayout::kInt8>>;
  kernels.uint4_int8 = vec_matmul<V, GroupInt8Block<V, WeightLayout::kUint4>>;
  kernels.int4_int8 = vec_matmul<V, GroupInt8Block<V, WeightLayout::kInt4>>;
}

}  // namespace
}  // namespace quire
