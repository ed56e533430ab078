// Matrix products of quantized weights (group_layout.h) with activations rounded to 16 bits
// (Int16Rows), written once for every layout and vector width. A group's sum of products is exact
// in 32-bit integers (at most 32 * 128 * 32639); it is scaled and added once: acc += float(sum) *
// (scale of weights * scale of inputs), and for minima acc += minimum * (scale of inputs * sum of
// input codes). Where an output has one scale it multiplies acc at the end instead. So few rows and
// many, whose integers are added in different orders, give the same bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_blocked.inl.h"
#include "kernels/cpu/matmul_groups.inl.h"

namespace quire {
namespace {

// The weights of a quad as two vectors of 16-bit pairs, inputs 0 and 2, and 1 and 3, of each lane.
// Below eight bits the zero is not subtracted.
template <typename V, WeightLayout kLayout>
struct QuadPairs {
  static constexpr GroupLayout kForm = group_layout(kLayout);
  typename V::I even;
  typename V::I odd;

  [[gnu::always_inline]] explicit QuadPairs(typename V::I codes) {
    if constexpr (kForm.code_bits == 8) {
      even = V::template shift_right_signed16<8>(V::template shift_left16<8>(codes));
      odd = V::template shift_right_signed16<8>(codes);
    } else {
      even = V::bit_and(codes, V::set1_int(0x00FF00FF));
      odd = V::template shift_right16<8>(codes);
    }
  }
};

// Scales and minima are constant for this many quads.
template <WeightLayout kLayout>
inline constexpr int kScaleQuads = group_layout(kLayout).factors == ScaleFactors::kHalfGroup ||
                                           group_layout(kLayout).span == ScaleSpan::kHalfGroup
                                       ? 4
                                       : 8;

// dot += pairs of weights of vector n times the inputs at `x` of each row, one quad apart.
template <typename V, bool kFirst, int R, int N>
[[gnu::always_inline]] inline void add_int16_pairs(typename V::I weight, const std::int16_t* x,
                                                   int n, typename V::I (&dot)[R][N]) {
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    const typename V::I pair = V::set1_pair(x + 4 * r);
    dot[r][n] =
        kFirst ? V::multiply_add16(weight, pair) : V::add_products16(dot[r][n], weight, pair);
    QUIRE_PIN_VECTOR(dot[r][n]);
  }
}

// Few rows, the weights expanded in registers.
template <typename V, WeightLayout kLayout>
struct GroupInt16Block {
  using Shape = typename V::DirectBlocks16;
  using Reader = GroupReader<V, kLayout>;
  using F = typename V::F;
  using I = typename V::I;
  static constexpr GroupLayout kForm = Reader::kForm;
  static constexpr int kQuads = kScaleQuads<kLayout>;

  // The sums of part kPart of a group: of all of it, or of one half. One vector of weights at a
  // time, so that what its codes become stays in few registers.
  template <int kPart, int R, int N>
  [[gnu::always_inline]] static void dot_codes(const Reader (&group)[N], const std::int16_t* x,
                                               I (&dot)[R][N]) {
    if constexpr (kForm.code_bits == 4) {
      // A nibble that is alone in 16 bits needs no byte in between.
      const I mask = V::set1_int(0x000F000F);
      repeat<4>([&]<int kLine>() __attribute__((always_inline)) {
        const std::int16_t* low = x + kLine * 4 * R;
        const std::int16_t* high = x + (kLine + 4) * 4 * R;
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const I line = V::load_int(group[n].codes + 64 * kLine);
          add_int16_pairs<V, kLine == 0>(V::bit_and(line, mask), low, n, dot);
          add_int16_pairs<V, false>(V::bit_and(V::template shift_right16<4>(line), mask), high, n,
                                    dot);
          add_int16_pairs<V, false>(V::bit_and(V::template shift_right16<8>(line), mask), low + 2,
                                    n, dot);
          add_int16_pairs<V, false>(V::template shift_right16<12>(line), high + 2, n, dot);
        }
      });
    } else {
      repeat<kQuads>([&]<int kIndex>() __attribute__((always_inline)) {
        constexpr int kQuad = kPart * kQuads + kIndex;
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const QuadPairs<V, kLayout> pairs(group[n].template quad<kQuad>());
          add_int16_pairs<V, kIndex == 0>(pairs.even, x + kQuad * 4 * R, n, dot);
          add_int16_pairs<V, false>(pairs.odd, x + kQuad * 4 * R + 2, n, dot);
        }
      });
    }
  }

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const std::int64_t first = args.first_input / kGroupInputs;
    const std::int16_t* codes = args.int16_x.codes + args.first_input * R;
    const float* scales = args.int16_x.scales + first * R;
    const std::int32_t* sums = args.int16_x.sums + 2 * first * R;
    const float* scaled_sums = args.int16_x.scaled_sums + first * R;
    const GroupLayout form = form_of<kLayout>(args);
    F acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g) {
      Reader group[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) group[n] = Reader(args, streams.panel[n], g, streams.lane[n]);
      streams.fetch(form.block_offset(g) + form.group_offset(g), form.group_bytes());
      repeat<8 / kQuads>([&]<int kPart>() __attribute__((always_inline)) {
        I dot[R][N];
        dot_codes<kPart>(group, codes + g * kGroupInputs * R, dot);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          F scale;
          if constexpr (!kScaledAtEnd<kLayout>) scale = group[n].scale(kPart);
          F minimum;
          if constexpr (kForm.has_minimum) minimum = group[n].minimum(kPart);
          QUIRE_UNROLL
          for (int r = 0; r < R; ++r) {
            I total = dot[r][n];
            if constexpr (kForm.zero != 0) {
              const std::int32_t* halves = sums + 2 * g * R + r;
              const std::int32_t sum = kQuads == 8 ? halves[0] + halves[R] : halves[kPart * R];
              total = V::add32(total, V::set1_int(-kForm.zero * sum));
            }
            F product = V::set1(scales[g * R + r]);
            if constexpr (!kScaledAtEnd<kLayout>) product = V::mul(scale, product);
            acc[r][n] = V::fma(V::to_float(total), product, acc[r][n]);
            if constexpr (kForm.has_minimum) {
              float sum = scaled_sums[g * R + r];
              if constexpr (kHalvesHaveMinima<kLayout>) {
                sum = scales[g * R + r] * static_cast<float>(sums[(2 * g + kPart) * R + r]);
              }
              acc[r][n] = V::fma(minimum, V::set1(sum), acc[r][n]);
            }
          }
        }
      });
    }
    if constexpr (kScaledAtEnd<kLayout>) scale_outputs<V>(args, output, acc);
    store_block<V>(args, 0, output, acc);
  }
};

// What a blocked product (matmul_blocked.inl.h) does with expanded codes and inputs rounded to 16
// bits. Parts: of a group, each with a scale of its own, where outputs are not scaled at the end.
template <typename V, int kParts, bool kMinimum, bool kScalesGroups>
struct Int16Product {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int kQuads = 8 / kParts;
  static constexpr std::int64_t kInputs = 640;  // of a piece at most
  static constexpr std::int64_t kGroups = kInputs / kGroupInputs;

  struct alignas(64) Piece {
    std::int16_t lines[kInputs * kPanelOutputs];  // [pair][16][2], the zero subtracted
    float scales[kGroups * kParts * kPanelOutputs];
    float minima[kMinimum ? kGroups * kParts * kPanelOutputs : 1];
  };

  template <int R, int P>
  static void multiply(const MatmulPanels& args, const Piece (&pieces)[P], std::int64_t row,
                       std::int64_t begin, std::int64_t end, Ahead& ahead, float* sums) {
    constexpr int kVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
    constexpr int N = P * kVectors;
    const std::int64_t num_groups = args.row_inputs / kGroupInputs;
    const std::int64_t first = (args.first_input + begin) / kGroupInputs;
    const std::int16_t* x =
        args.int16_x.codes + row * args.row_inputs + (args.first_input + begin) * R;
    const float* scales = args.int16_x.scales + row * num_groups + first * R;
    const float* scaled_sums = args.int16_x.scaled_sums + row * num_groups + first * R;
    const std::int32_t* halves = args.int16_x.sums + 2 * (row * num_groups + first * R);
    const std::int64_t piece_groups = (end - begin) / kGroupInputs;
    for (std::int64_t g = 0; g < piece_groups; ++g) {
      ahead.fetch(kGroupInputs);
      for (int part = 0; part < kParts; ++part) {
        const std::int64_t pair = g * 16 + part * kQuads * 2;
        I dot[R][N];
        dot_lines<R, P>(pieces, pair, x + pair / 2 * 4 * R, dot);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const Piece& piece = pieces[n / kVectors];
          const int lane = n % kVectors * V::kWidth;
          F scale;
          if constexpr (kScalesGroups) {
            scale = V::load(piece.scales + (g * kParts + part) * kPanelOutputs + lane);
          }
          QUIRE_UNROLL
          for (int r = 0; r < R; ++r) {
            float* sum = sums + (r * N + n) * V::kWidth;
            F product = V::set1(scales[g * R + r]);
            if constexpr (kScalesGroups) product = V::mul(scale, product);
            F total = V::fma(V::to_float(dot[r][n]), product, V::load(sum));
            if constexpr (kMinimum) {
              float sum_of_inputs = scaled_sums[g * R + r];
              if constexpr (kParts == 2) {
                const std::int32_t half = halves[(2 * g + part) * R + r];
                sum_of_inputs = scales[g * R + r] * static_cast<float>(half);
              }
              const F minimum = V::load(piece.minima + (g * kParts + part) * kPanelOutputs + lane);
              total = V::fma(minimum, V::set1(sum_of_inputs), total);
            }
            V::store(sum, total);
          }
        }
      }
    }
  }

 private:
  // The sums of kQuads quads from line `pair` on.
  template <int R, int P, int N>
  [[gnu::always_inline]] static void dot_lines(const Piece (&pieces)[P], std::int64_t pair,
                                               const std::int16_t* x, I (&dot)[R][N]) {
    constexpr int kVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
    repeat<2 * kQuads>([&]<int kStep>() __attribute__((always_inline)) {
      I weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = V::load_int(pieces[n / kVectors].lines + (pair + kStep) * 2 * kPanelOutputs +
                                n % kVectors * V::kWidth * 2);
      }
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I inputs = V::set1_pair(x + (kStep / 2 * R + r) * 4 + kStep % 2 * 2);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          dot[r][n] = kStep == 0 ? V::multiply_add16(weight[n], inputs)
                                 : V::add_products16(dot[r][n], weight[n], inputs);
          QUIRE_PIN_VECTOR(dot[r][n]);
        }
      }
    });
  }
};

template <typename V, WeightLayout kLayout>
struct Int16Pieces {
  using Reader = GroupReader<V, kLayout>;
  using I = typename V::I;
  static constexpr GroupLayout kForm = Reader::kForm;
  static constexpr int kParts = 8 / kScaleQuads<kLayout>;
  static constexpr bool kScalesOutputs = kScaledAtEnd<kLayout>;
  using Product = Int16Product<V, kParts, kForm.has_minimum, !kScalesOutputs>;
  using Piece = typename Product::Piece;
  static constexpr std::int64_t kInputs = Product::kInputs;

  // Inputs [begin, end), whole groups, of a panel.
  static void expand(const MatmulPanels& args, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t end, Piece& piece) {
    const std::int64_t first = begin / kGroupInputs;
    for (std::int64_t g = 0; g < (end - begin) / kGroupInputs; ++g) {
      QUIRE_UNROLL
      for (std::int64_t lane = 0; lane < kPanelOutputs; lane += V::kWidth) {
        const Reader group(args, panel, first + g, lane);
        std::int16_t* line = piece.lines + g * kGroupInputs * kPanelOutputs + 2 * lane;
        repeat<8>([&]<int kQuad>() __attribute__((always_inline)) {
          QuadPairs<V, kLayout> pairs(group.template quad<kQuad>());
          if constexpr (kForm.zero != 0) {
            const I zero = V::set1_int(kForm.zero * 0x00010001);
            pairs.even = V::sub16(pairs.even, zero);
            pairs.odd = V::sub16(pairs.odd, zero);
          }
          V::store_int(line + kQuad * 4 * kPanelOutputs, pairs.even);
          V::store_int(line + (kQuad * 4 + 2) * kPanelOutputs, pairs.odd);
        });
        if constexpr (!kScaledAtEnd<kLayout>) {
          repeat<kParts>([&]<int kPart>() __attribute__((always_inline)) {
            V::store(piece.scales + (g * kParts + kPart) * kPanelOutputs + lane,
                     group.scale(kPart));
          });
        }
        if constexpr (kForm.has_minimum) {
          repeat<kParts>([&]<int kPart>() __attribute__((always_inline)) {
            V::store(piece.minima + (g * kParts + kPart) * kPanelOutputs + lane,
                     group.minimum(kPart));
          });
        }
      }
    }
  }
};

}  // namespace
}  // namespace quire
