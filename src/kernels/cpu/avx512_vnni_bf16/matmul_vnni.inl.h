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

template <WeightLayout kLayout, int kQuad>
[[gnu::always_inline]] inline __m512i unsigned_quad(const GroupReader<VnniVec16, kLayout>& group) {
  const __m512i codes = group.template quad<kQuad>();
  if constexpr (group_layout(kLayout).code_bits < 8) return codes;
  return _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
}

// As GroupInt8Block, and codes of eight bits.
template <WeightLayout kLayout>
struct VnniInt8Block {
  using V = VnniVec16;
  using Shape = typename V::IntBlocks;
  using Reader = GroupReader<V, kLayout>;
  static constexpr GroupLayout kForm = Reader::kForm;
  static constexpr int kQuads = kScaleQuads<kLayout>;
  static constexpr int kParts = 8 / kQuads;  // of a group, each with a factor of its own

  // Sums of part kPart of a group, without its zeros. `codes` and `sums` are the group's, of rows
  // `stride` and 2 * `groups` apart.
  template <int kPart, int R, int N>
  [[gnu::always_inline]] static void dot_part(const Reader (&group)[N], const std::int8_t* codes,
                                              std::int64_t stride, const std::int16_t* sums,
                                              std::int64_t groups, __m512i (&dot)[R][N]) {
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      const std::int16_t* halves = sums + 2 * r * groups;
      const int sum = kParts == 1 ? halves[0] + halves[1] : halves[kPart];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) dot[r][n] = V::set1_int(-kUnsignedZero<kLayout> * sum);
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
  static void run(const MatmulPanels& args, std::int64_t row, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const std::int64_t groups = args.inputs / kGroupInputs;
    const std::int64_t stride = args.int8_x.stride;
    const std::int8_t* codes = args.int8_x.codes + row * stride;
    const float* scales = args.int8_x.scales + row * groups;
    const std::int16_t* sums = args.int8_x.sums + row * groups * 2;
    const float* scaled_sums = args.int8_x.scaled_sums + row * groups;
    __m512 acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < groups; ++g) {
      Reader group[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) group[n] = Reader(streams.panel[n], g, streams.lane[n]);
      if constexpr (R <= kMaxDirectRows) {
        streams.fetch(kForm.block_offset(g) + kForm.group_offset(g), kForm.group_bytes());
      }
      __m512i dot[R][N];
      dot_part<0>(group, codes + g * kGroupInputs, stride, sums + 2 * g, groups, dot);
      if constexpr (kParts == 2) {
        __m512i second[R][N];
        dot_part<1>(group, codes + g * kGroupInputs, stride, sums + 2 * g, groups, second);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const __m512i factor = V::load_signed_bytes(group[n].factors);
          const __m512i second_factor = V::load_signed_bytes(group[n].factors + 16);
          QUIRE_UNROLL
          for (int r = 0; r < R; ++r) {
            dot[r][n] = V::add32(_mm512_mullo_epi32(dot[r][n], factor),
                                 _mm512_mullo_epi32(second[r][n], second_factor));
          }
        }
      }
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        __m512 scale;
        if constexpr (kParts == 2) {
          scale = V::load_half(group[n].scales);
        } else if constexpr (!kScaledAtEnd<kLayout>) {
          scale = group[n].scale(0);
        }
        __m512 minimum;
        if constexpr (kForm.has_minimum) minimum = group[n].minimum();
        QUIRE_UNROLL
        for (int r = 0; r < R; ++r) {
          const std::int64_t at = r * groups + g;
          __m512 product = V::set1(scales[at]);
          if constexpr (!kScaledAtEnd<kLayout>) product = V::mul(scale, product);
          acc[r][n] = V::fma(V::to_float(dot[r][n]), product, acc[r][n]);
          if constexpr (kForm.has_minimum) {
            acc[r][n] = V::fma(minimum, V::set1(scaled_sums[at]), acc[r][n]);
          }
        }
      }
    }
    if constexpr (kScaledAtEnd<kLayout>) scale_outputs<V>(args, output, acc);
    store_block<V>(args, row, output, acc);
  }
};

}  // namespace
}  // namespace quire
