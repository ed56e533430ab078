// Blocks of matrix products for the quantized layouts (group_layout.h), with float32 and with int8
// activations, written once for every layout and vector width.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/group_layout.h"

namespace quire {
namespace {

// One vector of outputs of one group: where it lies, and how its numbers are taken out.
template <typename V, WeightLayout kLayout>
struct GroupReader {
  static constexpr GroupLayout kForm = group_layout(kLayout);
  using F = typename V::F;
  using I = typename V::I;

  const std::uint8_t* codes;    // the vector's part of quad 0
  const std::uint8_t* factors;  // its first factor
  const std::uint8_t* scales;   // its first half-precision scale

  GroupReader() = default;
  [[gnu::always_inline]] GroupReader(const std::uint8_t* panel, std::int64_t g, std::int64_t lane) {
    const std::uint8_t* block = panel + kForm.block_offset(g);
    const std::uint8_t* group = block + kForm.group_offset(g);
    codes = group + 4 * lane;
    factors = group + kForm.code_bytes() + lane;
    scales = block + kForm.scale_offset() + 2 * lane;
  }

  // The codes of quad 4 * half + u, four bytes in each lane: signed if eight bits, else unsigned.
  [[gnu::always_inline]] I quad(int half, int u) const {
    if constexpr (kForm.code_bits == 8) {
      return V::load_int(codes + 64 * (4 * half + u));
    } else {
      const I low = V::bit_and(V::shift_right_by(V::load_int(codes + 64 * u), 4 * half),
                               V::set1_int(0x0F0F0F0F));
      if constexpr (kForm.code_bits == 4) return low;
      I high;
      if constexpr (kForm.code_bits == 5) {
        high = V::bit_and(V::shift_right_by(V::load_int(codes + 256), 4 * half + u),
                          V::set1_int(0x01010101));
      } else {
        high = V::bit_and(V::shift_right_by(V::load_int(codes + 256 + 64 * half), 2 * u),
                          V::set1_int(0x03030303));
      }
      return V::bit_or(low, V::template shift_left<4>(high));
    }
  }

  // The same below eight bits for a constant quad: shifts by immediates.
  template <int kQuad>
  [[gnu::always_inline]] I quad() const {
    I low = V::load_int(codes + 64 * (kQuad % 4));
    if constexpr (kQuad >= 4) low = V::template shift_right<4>(low);
    low = V::bit_and(low, V::set1_int(0x0F0F0F0F));
    if constexpr (kForm.code_bits == 5) {
      const I line = V::load_int(codes + 256);
      return V::bit_or(low, V::bit_and(up_to_4<kQuad>(line), V::set1_int(0x10101010)));
    } else {
      const I line = V::load_int(codes + 256 + 64 * (kQuad / 4));
      return V::bit_or(low, V::bit_and(up_to_4<kQuad % 4 * 2>(line), V::set1_int(0x30303030)));
    }
  }

  // The scale of the inputs of a half of the group; the product with a factor is exact.
  [[gnu::always_inline]] F scale(int half) const {
    const F scale = V::load_half(scales);
    if constexpr (kForm.factors == ScaleFactors::kGroup) {
      return V::mul(scale, V::load_bytes(factors));
    } else if constexpr (kForm.factors == ScaleFactors::kHalfGroup) {
      return V::mul(scale, V::to_float(V::load_signed_bytes(factors + 16 * half)));
    } else {
      return scale;
    }
  }
  [[gnu::always_inline]] F minimum() const {
    const F minimum = V::load_half(scales + 32);
    if constexpr (kForm.factors == ScaleFactors::kNone) {
      return minimum;
    } else {
      return V::mul(minimum, V::load_bytes(factors + 16));
    }
  }

 private:
  // Brings bit kFrom of each byte to bit 4, and the bits above with it.
  template <int kFrom>
  [[gnu::always_inline]] static I up_to_4(I x) {
    if constexpr (kFrom < 4) return V::template shift_left<4 - kFrom>(x);
    if constexpr (kFrom > 4) return V::template shift_right<kFrom - 4>(x);
    return x;
  }
};

// Calls step<0>(), step<1>(), ... for a constant count.
template <int kCount, int kFrom = 0, typename Step>
[[gnu::always_inline]] inline void repeat(const Step& step) {
  if constexpr (kFrom < kCount) {
    step.template operator()<kFrom>();
    repeat<kCount, kFrom + 1>(step);
  }
}

// Quantized weights, float32 activations: each weight becomes the float that decode_row() gives.
template <typename V, WeightLayout kLayout>
struct GroupFloatBlock {
  using Shape = typename V::FloatBlocks;
  using Reader = GroupReader<V, kLayout>;
  using F = typename V::F;
  using I = typename V::I;
  static constexpr GroupLayout kForm = Reader::kForm;

  // Multiplies the weights of byte kByte of each lane's codes with x[kByte] of each row.
  template <int kByte, int R, int N>
  [[gnu::always_inline]] static void add_codes(const I (&codes)[N], const F (&scale)[N],
                                               const F (&minimum)[N], const float* x,
                                               std::int64_t x_stride, F (&acc)[R][N]) {
    F weight[N];
    QUIRE_UNROLL
    for (int n = 0; n < N; ++n) {
      I code;
      if constexpr (kForm.code_bits == 8) {
        code = V::template shift_right_signed<24>(V::template shift_left<24 - 8 * kByte>(codes[n]));
      } else {
        code = V::bit_and(V::template shift_right<8 * kByte>(codes[n]), V::set1_int(0xFF));
      }
      if constexpr (kForm.zero != 0) code = V::add32(code, V::set1_int(-kForm.zero));
      weight[n] = V::mul(scale[n], V::to_float(code));
      if constexpr (kForm.has_minimum) weight[n] = V::add(weight[n], minimum[n]);
    }
    multiply_add<V>(acc, weight, x + kByte, x_stride);
  }

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t row, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const float* x = args.x + row * args.x_stride;
    F acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g, x += kGroupInputs) {
      Reader group[N];
      F scale[N];
      F minimum[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        group[n] = Reader(streams.panel[n], g, streams.lane[n]);
        scale[n] = group[n].scale(0);
        if constexpr (kForm.has_minimum) minimum[n] = group[n].minimum();
      }
      for (int half = 0; half < 2; ++half) {
        if constexpr (kForm.factors == ScaleFactors::kHalfGroup) {
          QUIRE_UNROLL
          for (int n = 0; n < N; ++n) scale[n] = group[n].scale(half);
        }
        for (int u = 0; u < 4; ++u) {
          I codes[N];
          QUIRE_UNROLL
          for (int n = 0; n < N; ++n) codes[n] = group[n].quad(half, u);
          const float* x_quad = x + 16 * half + 4 * u;
          add_codes<0>(codes, scale, minimum, x_quad, args.x_stride, acc);
          add_codes<1>(codes, scale, minimum, x_quad, args.x_stride, acc);
          add_codes<2>(codes, scale, minimum, x_quad, args.x_stride, acc);
          add_codes<3>(codes, scale, minimum, x_quad, args.x_stride, acc);
        }
      }
    }
    store_block<V>(args, row, output, acc);
  }
};

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

  // Signed bytes: |w| and the activation with the sign of w, because the byte product wants one
  // unsigned side. Two products are at most 2 * 128 * 127 and fit 16 bits; more would not.
  template <int R, int N>
  [[gnu::always_inline]] static void dot_8bit(const Reader (&group)[N], const std::int8_t* x_codes,
                                              std::int64_t stride, I (&dot)[R][N]) {
    QUIRE_UNROLL
    for (std::int64_t u = 0; u < 8; ++u) {
      I weight[N];
      I magnitude[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = V::load_int(group[n].codes + 64 * u);
        magnitude[n] = V::abs8(weight[n]);
      }
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I x = V::set1_quad(x_codes + r * stride + 4 * u);
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
    const std::int64_t groups = args.inputs / kGroupInputs;
    const std::int8_t* codes = args.int8_x.codes + row * args.inputs;
    const float* scales = args.int8_x.scales + row * groups;
    const std::int16_t* sums = args.int8_x.sums + row * groups * 2;
    const float* scaled_sums = args.int8_x.scaled_sums + row * groups;
    F acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < groups; ++g, codes += kGroupInputs) {
      Reader group[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) group[n] = Reader(streams.panel[n], g, streams.lane[n]);
      I dot[R][N];
      if constexpr (kForm.factors == ScaleFactors::kHalfGroup) {
        add_half_groups<R, N>(group, codes, args.inputs, scales + g, sums + 2 * g, groups, acc);
        continue;
      } else if constexpr (kForm.code_bits == 8) {
        dot_8bit<R, N>(group, codes, args.inputs, dot);
      } else if constexpr (kForm.code_bits == 4) {
        dot_4bit<R, N>(group, codes, args.inputs, dot);
      } else {
        I ones[2][N];
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) ones[0][n] = ones[1][n] = V::set1_int(0x00010001);
        dot_wide<R, N>(group, codes, args.inputs, ones, dot);
      }
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const F scale = group[n].scale(0);
        F minimum;
        if constexpr (kForm.has_minimum) minimum = group[n].minimum();
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

}  // namespace
}  // namespace quire
