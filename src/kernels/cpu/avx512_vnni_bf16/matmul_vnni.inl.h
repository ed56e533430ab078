// Matrix products of quantized weights with activations rounded to integers, on the dot products of
// VNNI. Integer sums are exact and scaled as in matmul_int16.inl.h and matmul_int8.inl.h, so the
// bits are those of the levels below.
#pragma once

#include <cstdint>

#include "kernels/cpu/dots_avx512.h"
#include "kernels/cpu/matmul_int16.inl.h"
#include "kernels/cpu/matmul_int8.inl.h"
#include "kernels/cpu/matmul_vec_avx512.h"

namespace quire {
namespace {

struct VnniVec16 : MatmulVec16 {
  static I add_products16(I sum, I a, I b) { return dot_pairs(sum, a, b); }
};

// Signed codes become unsigned, for that side of vpdpbusd.
template <WeightLayout kLayout>
inline constexpr int kUnsignedZero = group_layout(kLayout).code_bits == 8
                                         ? 128
                                         : group_layout(kLayout).zero;

// Whether Int8Rows::offsets are what these codes' zero asks for.
template <WeightLayout kLayout>
inline constexpr bool kHasOffsets = group_layout(kLayout).code_bits == 8;

template <WeightLayout kLayout, int kQuad>
[[gnu::always_inline]] inline __m512i unsigned_quad(const GroupReader<VnniVec16, kLayout>& group) {
  const __m512i codes = group.template quad<kQuad>();
  if constexpr (group_layout(kLayout).code_bits < 8) return codes;
  return _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
}

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

// acc += the sums of a group, scaled, and its minimum: of vector n. `scales` and `scaled_sums` are
// the group's of rows `groups` apart; what the layout lacks of `scale` and `minimum` is not looked
// at.
template <WeightLayout kLayout, int R, int N>
[[gnu::always_inline]] inline void add_group(int n, __m512 scale, __m512 minimum,
                                             const float* scales, const float* scaled_sums,
                                             std::int64_t groups, const __m512i (&dot)[R][N],
                                             __m512 (&acc)[R][N]) {
  using V = VnniVec16;
  QUIRE_UNROLL
  for (int r = 0; r < R; ++r) {
    __m512 product = V::set1(scales[r * groups]);
    if constexpr (!kScaledAtEnd<kLayout>) product = V::mul(scale, product);
    acc[r][n] = V::fma(V::to_float(dot[r][n]), product, acc[r][n]);
    if constexpr (group_layout(kLayout).has_minimum) {
      acc[r][n] = V::fma(minimum, V::set1(scaled_sums[r * groups]), acc[r][n]);
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
  static constexpr int kParts = 8 / kQuads;  // of a group, each with a factor of its own

  // Sums of part kPart of a group, without its zeros. `codes`, `sums` and `offsets` are the
  // group's, of rows `stride`, 2 * `groups` and `groups` apart.
  template <int kPart, int R, int N>
  [[gnu::always_inline]] static void dot_part(const Reader (&group)[N], const std::int8_t* codes,
                                              std::int64_t stride, const std::int16_t* sums,
                                              const std::int32_t* offsets, std::int64_t groups,
                                              __m512i (&dot)[R][N]) {
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      int offset = 0;
      if constexpr (kHasOffsets<kLayout>) {
        offset = offsets[r * groups];
      } else {
        const std::int16_t* halves = sums + 2 * r * groups;
        const int sum = kParts == 1 ? halves[0] + halves[1] : halves[kPart];
        offset = -kUnsignedZero<kLayout> * sum;
      }
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) dot[r][n] = V::set1_int(offset);
    }
    repeat<kQuads>([&]<int kIndex>() __attribute__((always_inline)) {
      constexpr int kQuad = kPart * kQuads + kIndex;
      __m512i weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = unsigned_quad<kLayout, kQuad>(group[n]);
      }
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m512i x = V::set1_quad(codes + r * stride + 4 * kQuad);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) dot[r][n] = dot_bytes(dot[r][n], weight[n], x);
      }
    });
  }

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const std::int64_t groups = args.inputs / kGroupInputs;
    const Int8Rows& x = args.int8_x;
    __m512 acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < groups; ++g) {
      Reader group[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) group[n] = Reader(streams.panel[n], g, streams.lane[n]);
      streams.fetch(kForm.block_offset(g) + kForm.group_offset(g), kForm.group_bytes());
      __m512i dot[R][N];
      dot_part<0>(group, x.codes + g * kGroupInputs, x.stride, x.sums + 2 * g, x.offsets + g,
                  groups, dot);
      if constexpr (kParts == 2) {
        __m512i second[R][N];
        dot_part<1>(group, x.codes + g * kGroupInputs, x.stride, x.sums + 2 * g, x.offsets + g,
                    groups, second);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          add_halves(n, V::load_signed_bytes(group[n].factors),
                     V::load_signed_bytes(group[n].factors + 16), second, dot);
        }
      }
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        __m512 scale = V::zero();
        if constexpr (kParts == 2) {
          scale = V::load_half(group[n].scales);
        } else if constexpr (!kScaledAtEnd<kLayout>) {
          scale = group[n].scale(0);
        }
        __m512 minimum = V::zero();
        if constexpr (kForm.has_minimum) minimum = group[n].minimum();
        add_group<kLayout>(n, scale, minimum, x.scales + g, x.scaled_sums + g, groups, dot, acc);
      }
    }
    if constexpr (kScaledAtEnd<kLayout>) scale_outputs<V>(args, output, acc);
    store_block<V>(args, 0, output, acc);
  }
};

}  // namespace
}  // namespace quire
