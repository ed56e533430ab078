// Matrix products of quantized weights below eight bits (group_layout.h) with activations rounded
// to int8, written once for every layout and vector width. With eight bits the products of two
// codes do not fit what the byte product adds, and 16-bit activations are as fast.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_groups.inl.h"

namespace quire {
namespace {

// Quantized weights, int8 activations. A group's sum of products is exact in integers; it is scaled
// and added once: acc += float(sum) * (scale of weights * scale of inputs), and for minima
// acc += minimum * (scale of inputs * sum of input codes). Where each half of a group has a signed
// factor the integer sum includes it: at most 32 * 32 * 127 * 128 < 2^24, so exact as a float, too.
template <typename V, WeightLayout kLayout>
struct GroupInt8Block {
  using Shape = typename V::IntBlocks;
  using Reader = GroupReader<V, kLayout>;
  using F = typename V::F;
  using I = typename V::I;
  static constexpr GroupLayout kForm = Reader::kForm;

  // Unsigned nibbles: 16 products are at most 16 * 15 * 127 = 30480, so a group fits 16 bits.
  template <int R, int N>
  [[gnu::always_inline]] static void dot_4bit(const Reader (&group)[N], const std::int8_t* x_codes,
                                              std::int64_t stride, I (&dot)[R][N]) {
    const I mask = V::set1_int(0x0F0F0F0F);
    QUIRE_UNROLL
    for (std::int64_t u = 0; u < 4; ++u) {
      I low[N];
      I high[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const I line = V::load_int(group[n].codes + 64 * u);
        low[n] = V::bit_and(line, mask);
        high[n] = V::bit_and(V::template shift_right<4>(line), mask);
      }
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I x_low = V::set1_quad(x_codes + r * stride + 4 * u);
        const I x_high = V::set1_quad(x_codes + r * stride + 16 + 4 * u);
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

  // Unsigned codes of five and six bits. Four quads of five bits are at most 4 * 2 * 31 * 127 and
  // two of six bits 2 * 2 * 63 * 127, which fits 16 bits; then they are widened, times `factor` of
  // their half: a number for each lane, in both of its 16-bit parts.
  template <int R, int N>
  [[gnu::always_inline]] static void dot_wide(const Reader (&group)[N], const std::int8_t* x_codes,
                                              std::int64_t stride, const I (&factor)[2][N],
                                              I (&dot)[R][N]) {
    constexpr int kQuads = kForm.code_bits == 5 ? 4 : 2;
    I pairs[R][N];
    repeat<8>([&]<int kQuad>() __attribute__((always_inline)) {
      I weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) weight[n] = group[n].template quad<kQuad>();
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I x = V::set1_quad(x_codes + r * stride + 4 * kQuad);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const I products = V::multiply_add_bytes(weight[n], x);
          pairs[r][n] = kQuad % kQuads == 0 ? products : V::add16(pairs[r][n], products);
          QUIRE_PIN_VECTOR(pairs[r][n]);
          if constexpr (kQuad % kQuads == kQuads - 1) {
            const I sums = V::multiply_add16(pairs[r][n], factor[kQuad / 4][n]);
            dot[r][n] = kQuad < kQuads ? sums : V::add32(dot[r][n], sums);
            QUIRE_PIN_VECTOR(dot[r][n]);
          }
        }
      }
    });
  }

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t row, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const GroupLayout form = form_of<kLayout>(args);
    const std::int64_t groups = args.inputs / kGroupInputs;
    const std::int64_t stride = args.int8_x.stride;
    const std::int8_t* codes = args.int8_x.codes + row * stride;
    const float* scales = args.int8_x.scales + row * groups;
    const std::int16_t* sums = args.int8_x.sums + row * groups * 2;
    const float* scaled_sums = args.int8_x.scaled_sums + row * groups;
    F acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < groups; ++g, codes += kGroupInputs) {
      Reader group[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) group[n] = Reader(args, streams.panel[n], g, streams.lane[n]);
      if constexpr (R <= kMaxDirectRows) {
        streams.fetch(form.block_offset(g) + form.group_offset(g), form.group_bytes());
      }
      I dot[R][N];
      if constexpr (kForm.factors == ScaleFactors::kHalfGroup) {
        add_half_groups<R, N>(group, codes, stride, scales + g, sums + 2 * g, groups, acc);
        continue;
      } else if constexpr (kForm.code_bits == 4) {
        dot_4bit<R, N>(group, codes, stride, dot);
      } else {
        I ones[2][N];
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) ones[0][n] = ones[1][n] = V::set1_int(0x00010001);
        dot_wide<R, N>(group, codes, stride, ones, dot);
      }
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const F scale = group[n].scale(0);
        F minimum;
        if constexpr (kForm.has_minimum) minimum = group[n].minimum(0);
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) {
          const std::int64_t at = r * groups + g;
          I total = dot[r][n];
          if constexpr (kForm.zero != 0) {
            total = V::add32(total, V::set1_int(-kForm.zero * (sums[2 * at] + sums[2 * at + 1])));
          }
          acc[r][n] = V::fma(V::to_float(total), V::mul(scale, V::set1(scales[at])), acc[r][n]);
          if constexpr (kForm.has_minimum) {
            acc[r][n] = V::fma(minimum, V::set1(scaled_sums[at]), acc[r][n]);
          }
        }
      }
    }
    store_block<V>(args, row, output, acc);
  }

 private:
  static constexpr int kHalfGroupZeroBits = 5;
  static_assert(kForm.factors != ScaleFactors::kHalfGroup || kForm.zero == 1 << kHalfGroupZeroBits);

  // One group whose halves have factors of their own; `scales` and `sums` are the group's, for rows
  // `stride` and 2 * `stride` apart.
  template <int R, int N>
  [[gnu::always_inline]] static void add_half_groups(const Reader (&group)[N],
                                                     const std::int8_t* x_codes,
                                                     std::int64_t inputs, const float* scales,
                                                     const std::int16_t* sums, std::int64_t stride,
                                                     F (&acc)[R][N]) {
    const I low_part = V::set1_int(0xFFFF);
    I factor[2][N];
    I both[N];  // the first half's factor in the low 16 bits, the second's in the high ones
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) {
      const I first = V::bit_and(V::load_signed_bytes(group[n].factors), low_part);
      const I second = V::load_signed_bytes(group[n].factors + 16);
      const I second_high = V::template shift_left<16>(second);
      factor[0][n] = V::bit_or(first, V::template shift_left<16>(first));
      factor[1][n] = V::bit_or(V::bit_and(second, low_part), second_high);
      both[n] = V::bit_or(first, second_high);
    }
    I dot[R][N];
    dot_wide<R, N>(group, x_codes, inputs, factor, dot);
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) {
      const F scale = V::load_half(group[n].scales);
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        int pair = 0;
        __builtin_memcpy(&pair, sums + 2 * r * stride, sizeof(pair));
        const I zeros = V::multiply_add16(both[n], V::set1_int(pair));
        const I total = V::sub32(dot[r][n], V::template shift_left<kHalfGroupZeroBits>(zeros));
        acc[r][n] =
            V::fma(V::to_float(total), V::mul(scale, V::set1(scales[r * stride])), acc[r][n]);
      }
    }
  }
};

// Outputs [output, end), a whole number of panels, for R rows.
template <typename V, typename Block, int R>
void run_int8_outputs(const MatmulPanels& args, std::int64_t row, std::int64_t output,
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
void run_int8_rows(const MatmulPanels& args, std::int64_t row, std::int64_t rows,
                   std::int64_t output, std::int64_t end) {
  if (rows == R) {
    run_int8_outputs<V, Block, R>(args, row, output, end);
  } else if constexpr (R > 1) {
    run_int8_rows<V, Block, R - 1>(args, row, rows, output, end);
  }
}

// Strips of panels stay in the cache while the blocks of rows pass over them.
template <typename V, typename Block>
void int8_matmul(const MatmulPanels& args) {
  constexpr std::int64_t kRows = Block::Shape::kRows;
  const std::int64_t end = args.num_panels * kPanelOutputs;
  for (std::int64_t output = 0; output < end; output += Block::Shape::kStripOutputs) {
    const std::int64_t strip_end =
        output + Block::Shape::kStripOutputs < end ? output + Block::Shape::kStripOutputs : end;
    for (std::int64_t row = 0; row < args.rows; row += kRows) {
      const std::int64_t rows = args.rows - row < kRows ? args.rows - row : kRows;
      run_int8_rows<V, Block, kRows>(args, row, rows, output, strip_end);
    }
  }
}

}  // namespace
}  // namespace quire
