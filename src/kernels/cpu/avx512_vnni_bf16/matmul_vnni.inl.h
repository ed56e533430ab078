// Matrix products of quantized weights with activations rounded to integers, on the dot products of
// VNNI. Integer sums are exact and scaled as in matmul_int16.inl.h and matmul_int8.inl.h, so the
// bits are those of the levels below.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/dots_avx512.h"
#include "kernels/cpu/matmul_int16.inl.h"
#include "kernels/cpu/matmul_int8.inl.h"
#include "kernels/cpu/matmul_vec_avx512.h"

namespace quire {
namespace {

struct VnniVec16 : MatmulVec16 {
  // Six rows by two panels are a tile. Three by four need fewer instructions, but pieces of four
  // panels come from memory less well in time.
  static constexpr int kBlockPanels = 2;

  static I add_products16(I sum, I a, I b) { return dot_pairs(sum, a, b); }
};

// Signed codes become unsigned, for that side of vpdpbusd.
template <WeightLayout kLayout>
inline constexpr int kUnsignedZero = group_layout(kLayout).code_bits == 8
                                         ? 128
                                         : group_layout(kLayout).zero;

template <WeightLayout kLayout, int kQuad>
[[gnu::always_inline]] inline __m512i unsigned_quad(const GroupReader<VnniVec16, kLayout>& group) {
  const __m512i codes = group.template quad<kQuad>();
  if constexpr (group_layout(kLayout).code_bits < 8) return codes;
  return _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
}

// Whether the two halves of a group of 8-bit inputs are added as integers, times their factors;
// where their scales are floats, each is scaled by itself.
template <WeightLayout kLayout>
inline constexpr bool kAddsHalvesOf8Bits = group_layout(kLayout).factors
                                           == ScaleFactors::kHalfGroup;

// dot += second, the sums of the two halves of a group, each times its factor: of vector n.
template <int R, int N>
[[gnu::always_inline]] inline void add_halves(int n, __m512i factor, __m512i second_factor,
                                              const __m512i (&second)[R][N], __m512i (&dot)[R][N]) {
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    dot[r][n] = VnniVec16::add32(_mm512_mullo_epi32(dot[r][n], factor),
                                 _mm512_mullo_epi32(second[r][n], second_factor));
  }
}

// The rows of a call from one on, rounded to 8 bits or to 16 (two bytes); codes and sums from one
// input on.
template <bool k16>
struct VnniRows {
  const std::int8_t* high;
  const std::int8_t* low;  // of 16 bits
  std::int64_t stride;
  const float* scales;
  const float* scaled_sums;
  const std::conditional_t<k16, std::int32_t, std::int16_t>* sums;
  const std::int32_t* offsets;  // of 8 bits
  std::int64_t groups;          // of a row

  [[gnu::always_inline]] VnniRows(const MatmulPanels& args, std::int64_t row, std::int64_t begin)
      : groups(args.row_inputs / kGroupInputs) {
    begin += args.first_input;
    const std::int64_t group = row * groups + begin / kGroupInputs;
    const auto take = [&](const auto& x) __attribute__((always_inline)) {
      stride = x.stride;
      scales = x.scales + group;
      scaled_sums = x.scaled_sums + group;
      sums = x.sums + 2 * group;
    };
    if constexpr (k16) {
      take(args.int16_bytes_x);
      high = args.int16_bytes_x.high + row * stride + begin;
      low = args.int16_bytes_x.low + row * stride + begin;
      offsets = nullptr;
    } else {
      take(args.int8_x);
      high = args.int8_x.codes + row * stride + begin;
      low = nullptr;
      offsets = args.int8_x.offsets + group;
    }
  }

  // What makes sums of signed codes of sums of unsigned ones, for part kPart of group g: a half, or
  // all of it.
  template <WeightLayout kLayout, int kPart>
  [[gnu::always_inline]] int correction(int r, std::int64_t g) const {
    // Int8Rows::offsets are what the zero of eight bits asks for.
    if constexpr (!k16 && group_layout(kLayout).code_bits == 8 && kScaleQuads<kLayout> == 8) {
      return offsets[r * groups + g];
    } else {
      const auto* halves = sums + 2 * (r * groups + g);
      const bool whole = kScaleQuads<kLayout> == 8;
      return -kUnsignedZero<kLayout> * (whole ? halves[0] + halves[1] : halves[kPart]);
    }
  }

  // What the minimum of a part is multiplied by.
  template <WeightLayout kLayout, int kPart>
  [[gnu::always_inline]] float scaled_sum(int r, std::int64_t g) const {
    const std::int64_t at = r * groups + g;
    if constexpr (!kHalvesHaveMinima<kLayout>) return scaled_sums[at];
    return scales[at] * static_cast<float>(sums[2 * at + kPart]);
  }
};

// acc += the sums of part kPart of group g, scaled, and its minimum: of vector n. What the layout
// lacks of `scale` and `minimum` is not looked at.
template <WeightLayout kLayout, int kPart, bool k16, int R, int N>
[[gnu::always_inline]] inline void add_group(int n, std::int64_t g, __m512 scale, __m512 minimum,
                                             const VnniRows<k16>& x, const __m512i (&dot)[R][N],
                                             __m512 (&acc)[R][N]) {
  using V = VnniVec16;
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    __m512 product = V::set1(x.scales[r * x.groups + g]);
    if constexpr (!kScaledAtEnd<kLayout>) product = V::mul(scale, product);
    acc[r][n] = V::fma(V::to_float(dot[r][n]), product, acc[r][n]);
    if constexpr (group_layout(kLayout).has_minimum) {
      const float sum = x.template scaled_sum<kLayout, kPart>(r, g);
      acc[r][n] = V::fma(minimum, V::set1(sum), acc[r][n]);
    }
  }
}

// As GroupInt8Block, and codes of eight bits, for few rows.
template <WeightLayout kLayout>
struct VnniInt8Block {
  using V = VnniVec16;
  using Shape = typename V::DirectBlocks;
  using Reader = GroupReader<V, kLayout>;
  static constexpr GroupLayout kForm = Reader::kForm;
  static constexpr int kQuads = kScaleQuads<kLayout>;
  static constexpr int kParts = 8 / kQuads;  // of a group, each with a scale of its own
  static constexpr bool kAddsHalves = kAddsHalvesOf8Bits<kLayout>;

  // Sums of part kPart of group g, without its zeros.
  template <int kPart, int R, int N>
  [[gnu::always_inline]] static void dot_part(const Reader (&group)[N], const VnniRows<false>& x,
                                              std::int64_t g, __m512i (&dot)[R][N]) {
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512i correction = V::set1_int(x.correction<kLayout, kPart>(r, g));
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) dot[r][n] = correction;
    }
    const std::int8_t* codes = x.high + g * kGroupInputs;
    repeat<kQuads>([&]<int kIndex>() __attribute__((always_inline)) {
      constexpr int kQuad = kPart * kQuads + kIndex;
      __m512i weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = unsigned_quad<kLayout, kQuad>(group[n]);
      }
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m512i inputs = V::set1_quad(codes + r * x.stride + 4 * kQuad);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) dot[r][n] = dot_bytes(dot[r][n], weight[n], inputs);
      }
    });
  }

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const VnniRows<false> x(args, 0, 0);
    const GroupLayout form = form_of<kLayout>(args);
    __m512 acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g) {
      Reader group[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) group[n] = Reader(args, streams.panel[n], g, streams.lane[n]);
      streams.fetch(form.block_offset(g) + form.group_offset(g), form.group_bytes());
      repeat<kAddsHalves ? 1 : kParts>([&]<int kPart>() __attribute__((always_inline)) {
        __m512i dot[R][N];
        dot_part<kPart>(group, x, g, dot);
        if constexpr (kAddsHalves) {
          __m512i second[R][N];
          dot_part<1>(group, x, g, second);
          QUIRE_UNROLL
          for (int n = 0; n < N; ++n) {
            add_halves(n, V::load_signed_bytes(group[n].factors),
                       V::load_signed_bytes(group[n].factors + 16), second, dot);
          }
        }
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          __m512 scale = V::zero();
          if constexpr (kAddsHalves) {
            scale = V::load_half(group[n].scales);
          } else if constexpr (!kScaledAtEnd<kLayout>) {
            scale = group[n].scale(kPart);
          }
          __m512 minimum = V::zero();
          if constexpr (kForm.has_minimum) minimum = group[n].minimum(kPart);
          add_group<kLayout, kPart>(n, g, scale, minimum, x, dot, acc);
        }
      });
    }
    if constexpr (kScaledAtEnd<kLayout>) scale_outputs<V>(args, output, acc);
    store_block<V>(args, 0, output, acc);
  }
};

}  // namespace
}  // namespace quire
