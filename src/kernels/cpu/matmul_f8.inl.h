// Matrix products of e4m3 weights (group_layout.h) with float32 inputs, written once for every
// vector width. Moved to where a half float has its exponent and mantissa, a code is 2^-8 of its
// value, subnormal ones included, and a processor turns those into floats as fast as others: no
// denormal float is ever multiplied.
//
// Some inputs at a time are summed (kF8RunInputs), and their sum is scaled: for few rows and
// for many the same ones, so that bits do not depend on the number of rows.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_blocked.inl.h"
#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/group_layout.h"

namespace quire {
namespace {

// The codes of four inputs of a panel.
inline constexpr std::int64_t kF8Inputs = 4;
inline constexpr std::int64_t kF8Line = kF8Inputs * kPanelOutputs;

// Of a run at most: those of a block. Four panels of them stay in the L1 cache as lines of floats.
inline constexpr std::int64_t kF8RunInputs = 128;

template <WeightLayout kLayout>
struct F8Panel {
  static constexpr GroupLayout kForm = group_layout(kLayout);
  static constexpr bool kSharesScales = kForm.span == ScaleSpan::kPanelBlocks;

  // Where the codes of a run begin, from the begin of the panel.
  [[gnu::always_inline]] static std::int64_t codes_offset(std::int64_t input) {
    const std::int64_t group = input / kGroupInputs;
    return kForm.block_offset(group) + kForm.group_offset(group);
  }
  // The scales of a vector of outputs in the run that begins with `input`.
  template <typename V>
  [[gnu::always_inline]] static typename V::F scale(const std::uint8_t* panel, std::int64_t input,
                                                    std::int64_t lane) {
    if constexpr (kSharesScales) {
      float scale = 0;
      __builtin_memcpy(&scale, panel + kForm.block_offset(input / kGroupInputs), sizeof(scale));
      return V::set1(scale);
    } else {
      return V::load(reinterpret_cast<const float*>(panel + 4 * lane));
    }
  }
};

// Four inputs of a panel as half floats, and these as floats. A product of bytes moves a code to
// its place and repeats its sign above it, in one instruction. Half floats are converted from
// memory where a register's part would have to be moved first, which takes as many turns of the
// ports that multiply.
template <typename V>
class F8Halves {
 public:
  static constexpr float kUnit = 256.0F;  // of a weight() in the value of its code

  [[gnu::always_inline]] explicit F8Halves(const std::uint8_t* codes) {
    const typename V::I kept = V::set1_int(static_cast<int>(0xBF80BF80U));
    QUIRE_UNROLL
    for (int at = 0; at < kLines; ++at) {
      const typename V::I line = V::load_int(codes + at * kBytes);
      even_[at] = V::bit_and(V::multiply_add_bytes(V::set1_int(0x00800080), line), kept);
      odd_[at] =
          V::bit_and(V::multiply_add_bytes(V::set1_int(static_cast<int>(0x80008000U)), line), kept);
      V::store_halves(stored_[at], even_[at]);
      V::store_halves(stored_[kLines + at], odd_[at]);
    }
    __asm__("" : "+m"(stored_));  // else they stay in registers
  }

  // Of input i and the outputs from `lane` on.
  [[gnu::always_inline]] typename V::F weight(int i, std::int64_t lane) const {
    const std::int64_t place = i / 2 * kPanelOutputs + lane;  // among even inputs, or odd ones
    const auto at = static_cast<int>(place / kHalves);
    const std::uint16_t* const stored = stored_[i % 2 * kLines + at];
    if (place % kHalves != 0) {
      return V::load_half(reinterpret_cast<const std::uint8_t*>(stored + V::kWidth));
    }
    return V::first_halves(stored, i % 2 == 0 ? even_[at] : odd_[at]);
  }

 private:
  static constexpr std::int64_t kBytes = 4 * V::kWidth;
  static constexpr std::int64_t kHalves = kBytes / 2;
  static constexpr int kLines = static_cast<int>(kF8Line / kBytes);
  typename V::I even_[kLines];
  typename V::I odd_[kLines];
  alignas(64) std::uint16_t stored_[2 * kLines][kHalves];  // of even inputs, then of odd ones
};

// sum + acc * unit * scale, in this order.
template <typename V>
[[gnu::always_inline]] inline typename V::F add_run(typename V::F acc, float unit,
                                                    typename V::F scale, typename V::F sum) {
  return V::fma(V::mul(acc, V::set1(unit)), scale, sum);
}

// Products with float32 inputs. What F8Block and F8Pieces need of such, as F8DotTerms has it too.
template <typename V>
struct F8FloatTerms {
  using F = typename V::F;
  using Shape = typename V::DirectBlocks;
  static constexpr float kUnit = F8Halves<V>::kUnit;
  // Ahead of what is multiplied: with eight streams of a line at a time, an Intel processor with
  // AVX-512 waits for more than it can ask for where that is further away.
  static constexpr std::int64_t kAhead = V::kWidth == 16 ? 512 : 2048;

  // acc += the products of `count` inputs from `input` on; their codes are at `offset` of a panel.
  template <int R, int N>
  [[gnu::always_inline]] static void add(const MatmulPanels& args,
                                         const WeightStreams<V, N>& streams, std::int64_t offset,
                                         std::int64_t input, std::int64_t count, F (&acc)[R][N]) {
    constexpr int kVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
    const float* x = args.x + input;
    for (std::int64_t k = 0; k < count; k += kF8Inputs, x += kF8Inputs, offset += kF8Line) {
      streams.template fetch<kAhead>(offset, kF8Line);
      QUIRE_UNROLL
      for (int first = 0; first < N; first += kVectors) {
        const F8Halves<V> halves(streams.panel[first] + offset);
        QUIRE_UNROLL
        for (int i = 0; i < kF8Inputs; ++i) {
          F weight[kVectors];
          QUIRE_UNROLL
          for (int v = 0; v < kVectors; ++v) weight[v] = halves.weight(i, v * V::kWidth);
          QUIRE_UNROLL
          for (int r = 0; r < R; ++r) {
            const F value = V::set1(x[r * args.x_stride + i]);
            QUIRE_UNROLL
            for (int v = 0; v < kVectors; ++v) {
              acc[r][first + v] = V::fma(value, weight[v], acc[r][first + v]);
            }
          }
        }
      }
    }
  }

  // Many rows: codes become lines of floats.
  using Lines = FloatProduct<V>;
  using Piece = typename Lines::Piece;
  static void expand(const std::uint8_t* codes, std::int64_t inputs, Piece& piece) {
    piece.begin = piece.lines;
    float* line = piece.lines;
    for (std::int64_t k = 0; k < inputs; k += kF8Inputs, codes += kF8Line) {
      const F8Halves<V> halves(codes);
      QUIRE_UNROLL
      for (int i = 0; i < kF8Inputs; ++i, line += kPanelOutputs) {
        QUIRE_UNROLL
        for (int lane = 0; lane < kPanelOutputs; lane += V::kWidth) {
          V::store(line + lane, halves.weight(i, lane));
        }
      }
    }
  }
};

// Few rows.
template <typename V, WeightLayout kLayout, typename Terms>
struct F8Block {
  using Shape = typename Terms::Shape;
  using Panel = F8Panel<kLayout>;
  using F = typename V::F;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const std::int64_t run_inputs = equal_pieces(args.inputs, kF8RunInputs);
    F sums[R][N];
    clear<V>(sums);
    for (std::int64_t begin = 0; begin < args.inputs; begin += run_inputs) {
      const std::int64_t left = args.inputs - begin;
      F acc[R][N];
      clear<V>(acc);
      Terms::add(args, streams, Panel::codes_offset(begin), begin,
                 left < run_inputs ? left : run_inputs, acc);
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const F scale = Panel::template scale<V>(streams.panel[n], begin, streams.lane[n]);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) {
          sums[r][n] = add_run<V>(acc[r][n], Terms::kUnit, scale, sums[r][n]);
        }
      }
    }
    store_block<V>(args, 0, output, sums);
  }
};

// Many rows: a run is a piece, expanded to lines.
template <typename V, typename Terms>
struct F8Product {
  using Lines = typename Terms::Lines;
  struct alignas(64) Piece : Terms::Piece {
    float scales[kPanelOutputs];
  };
  template <int R, int P>
  static void multiply(const MatmulPanels& args, const Piece (&pieces)[P], std::int64_t row,
                       std::int64_t begin, std::int64_t end, Ahead& ahead, float* sums) {
    constexpr int kVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
    constexpr int N = P * kVectors;
    typename V::F acc[R][N];
    clear<V>(acc);
    Lines::template add<R, P>(args, pieces, row, begin, end, ahead, acc);
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) {
      const auto scale = V::load(pieces[n / kVectors].scales + n % kVectors * V::kWidth);
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        float* const sum = sums + (r * N + n) * V::kWidth;
        V::store(sum, add_run<V>(acc[r][n], Terms::kUnit, scale, V::load(sum)));
      }
    }
  }
};

template <typename V, WeightLayout kLayout, typename Terms>
struct F8Pieces {
  using Panel = F8Panel<kLayout>;
  using Product = F8Product<V, Terms>;
  using Piece = typename Product::Piece;
  static constexpr std::int64_t kInputs = kF8RunInputs;
  static constexpr bool kScalesOutputs = false;
  static_assert(kInputs <= Terms::Lines::kInputs);

  static void expand(const MatmulPanels& /*args*/, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t end, Piece& piece) {
    Terms::expand(panel + Panel::codes_offset(begin), end - begin, piece);
    for (int lane = 0; lane < kPanelOutputs; lane += V::kWidth) {
      V::store(piece.scales + lane, Panel::template scale<V>(panel, begin, lane));
    }
  }
};

}  // namespace
}  // namespace quire
