// Matrix products of quantized weights for more than a few rows, on the byte dot product of VNNI:
// weights as unsigned bytes by inputs of 8 bits, or of 16 as two bytes: 256 * high + low. Integer
// sums are exact and scaled as in matmul_int8.inl.h and matmul_int16.inl.h, so for a few rows the
// bits are the same.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/avx512_vnni_bf16/matmul_vnni.inl.h"
#include "kernels/cpu/matmul_blocked.inl.h"

namespace quire {
namespace {

// What a blocked product does with codes that are used where they lie: unpacking those of four and
// eight bits uses units that products leave free.
template <WeightLayout kLayout>
struct PackedCodes {
  using Reader = GroupReader<VnniVec16, kLayout>;
  static constexpr std::int64_t kInputs = 2048;  // of four panels in the L2 cache
  const MatmulPanels* args;
  const std::uint8_t* panel;
  std::int64_t first;  // group

  template <WeightLayout>
  void expand(const MatmulPanels& of, const std::uint8_t* from, std::int64_t begin,
              std::int64_t /*end*/) {
    args = &of;
    panel = from;
    first = begin / kGroupInputs;
  }
  template <int kQuad>
  [[gnu::always_inline]] __m512i quad(std::int64_t g) const {
    return unsigned_quad<kLayout, kQuad>(group(g));
  }
  [[gnu::always_inline]] __m512 scale(std::int64_t g, int part) const {
    return group(g).scale(part);
  }
  [[gnu::always_inline]] __m512 minimum(std::int64_t g, int part) const {
    return group(g).minimum(part);
  }

 private:
  [[gnu::always_inline]] Reader group(std::int64_t g) const {
    return Reader(*args, panel, first + g, 0);
  }
};

// The others, expanded once for all rows; kLike stands for all that are alike then. kWhole: scales
// come without factors, for sums of whole groups.
template <WeightLayout kLike, bool kWhole>
struct alignas(64) ExpandedCodes {
  using V = VnniVec16;
  static constexpr GroupLayout kForm = group_layout(kLike);
  static constexpr std::int64_t kInputs = 640;  // of two panels in the L1 cache
  static constexpr std::int64_t kGroups = kInputs / kGroupInputs;
  static constexpr int kParts = 8 / kScaleQuads<kLike>;
  std::uint8_t lines[kGroups * 8 * 64];
  float scales[kGroups * kParts * kPanelOutputs];
  float minima[kForm.has_minimum ? kGroups * kPanelOutputs : 1];
  std::int32_t factors[kWhole ? kGroups * kParts * kPanelOutputs : 1];

  template <WeightLayout kLayout>
  void expand(const MatmulPanels& args, const std::uint8_t* from, std::int64_t begin,
              std::int64_t end) {
    for (std::int64_t g = 0; g < (end - begin) / kGroupInputs; ++g) {
      const GroupReader<V, kLayout> group(args, from, begin / kGroupInputs + g, 0);
      repeat<8>([&]<int kQuad>() __attribute__((always_inline)) {
        V::store_int(lines + (g * 8 + kQuad) * 64, group.template quad<kQuad>());
      });
      repeat<kParts>([&]<int kPart>() __attribute__((always_inline)) {
        const std::int64_t at = (g * kParts + kPart) * kPanelOutputs;
        V::store(scales + at, kWhole ? V::load_half(group.scales) : group.scale(kPart));
        if constexpr (kWhole) {
          V::store_int(factors + at, V::load_signed_bytes(group.factors + 16 * kPart));
        }
      });
      if constexpr (kForm.has_minimum) V::store(minima + g * kPanelOutputs, group.minimum(0));
    }
  }
  template <int kQuad>
  [[gnu::always_inline]] __m512i quad(std::int64_t g) const {
    return V::load_int(lines + (g * 8 + kQuad) * 64);
  }
  [[gnu::always_inline]] __m512 scale(std::int64_t g, int part) const {
    return V::load(scales + (g * kParts + part) * kPanelOutputs);
  }
  [[gnu::always_inline]] __m512 minimum(std::int64_t g, int /*part*/) const {
    return V::load(minima + g * kPanelOutputs);
  }
  [[gnu::always_inline]] __m512i factor(std::int64_t g, int part) const {
    return V::load_int(factors + (g * kParts + part) * kPanelOutputs);
  }
};

template <WeightLayout kLayout>
inline constexpr bool kUsedPacked = group_layout(kLayout).code_bits % 4 == 0 &&
                                    group_layout(kLayout).factors == ScaleFactors::kNone;

// Expanded, all layouts with minima are alike.
template <WeightLayout kLayout>
inline constexpr WeightLayout kMultipliedLike =
    !kUsedPacked<kLayout> && group_layout(kLayout).has_minimum ? WeightLayout::kUint5 : kLayout;

template <WeightLayout kLayout, bool k16>
struct VnniProduct {
  using V = VnniVec16;
  static constexpr GroupLayout kForm = group_layout(kLayout);
  static constexpr int kQuads = kScaleQuads<kLayout>;
  static constexpr int kParts = 8 / kQuads;
  // Two halves of a group of 8-bit inputs are added as integers, times their factors.
  static constexpr bool kAddsHalves = kAddsHalvesOf8Bits<kLayout> && !k16;
  using Piece = std::conditional_t<kUsedPacked<kLayout>, PackedCodes<kLayout>,
                                   ExpandedCodes<kLayout, kAddsHalves>>;
  static constexpr bool kScalesOutputs = kScaledAtEnd<kLayout>;
  // A tile's sums and the dot products of a group, or of two halves, find room in registers.
  static constexpr int kTileSums = kAddsHalves ? 8 : 12;

  template <int R, int P>
  static void multiply(const MatmulPanels& args, const Piece (&pieces)[P], std::int64_t row,
                       std::int64_t begin, std::int64_t end, Ahead& ahead, float* sums) {
    constexpr int kTileRows = kTileSums / P;
    constexpr int kTiles = (R + kTileRows - 1) / kTileRows;
    constexpr int kRows = (R + kTiles - 1) / kTiles;
    repeat<kTiles>([&]<int kTile>() __attribute__((always_inline)) {
      constexpr int kFirst = kTile * kRows;
      constexpr int kCount = R - kFirst < kRows ? R - kFirst : kRows;
      tile<kCount, kFirst == 0>(VnniRows<k16>(args, row + kFirst, begin),
                                (end - begin) / kGroupInputs, pieces, ahead,
                                sums + kFirst * P * V::kWidth);
    });
  }

 private:
  // R rows by N panels. One tile of a block fetches: several cost more than they gain.
  template <int R, bool kFetch, int N>
  [[gnu::always_inline]] static void tile(VnniRows<k16> x, std::int64_t groups,
                                          const Piece (&pieces)[N], Ahead& ahead, float* sums) {
    static_assert(V::kWidth == kPanelOutputs);
    __m512 acc[R][N];
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) acc[r][n] = V::load(sums + (r * N + n) * V::kWidth);
    }
    for (std::int64_t g = 0; g < groups; ++g) {
      if constexpr (kFetch) ahead.fetch(kGroupInputs);
      repeat<kAddsHalves ? 1 : kParts>([&]<int kPart>() __attribute__((always_inline)) {
        __m512i dot[R][N];
        dot_part<kPart>(pieces, g, x, dot);
        if constexpr (kAddsHalves) {
          __m512i second[R][N];
          dot_part<1>(pieces, g, x, second);
          QUIRE_UNROLL
          for (int n = 0; n < N; ++n) {
            add_halves(n, pieces[n].factor(g, 0), pieces[n].factor(g, 1), second, dot);
          }
        }
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          const Piece& piece = pieces[n];
          __m512 scale = V::zero();
          if constexpr (!kScalesOutputs) scale = piece.scale(g, kPart);
          __m512 minimum = V::zero();
          if constexpr (kForm.has_minimum) minimum = piece.minimum(g, kPart);
          add_group<kLayout, kPart>(n, g, scale, minimum, x, dot, acc);
        }
      });
    }
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) V::store(sums + (r * N + n) * V::kWidth, acc[r][n]);
    }
  }

  // The sums of a part of a group, without its zeros.
  template <int kPart, int R, int N>
  [[gnu::always_inline]] static void dot_part(const Piece (&pieces)[N], std::int64_t g,
                                              const VnniRows<k16>& x, __m512i (&dot)[R][N]) {
    const auto correction_of = [&](int r) __attribute__((always_inline)) {
      return V::set1_int(x.template correction<kLayout, kPart>(r, g));
    };
    QUIRE_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512i first = k16 ? _mm512_setzero_si512() : correction_of(r);
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) dot[r][n] = first;
    }
    add_quads<kPart * kQuads>(pieces, g, x.high + g * kGroupInputs, x.stride, dot);
    if constexpr (k16) {
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m512i correction = correction_of(r);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          dot[r][n] = V::template shift_left<8>(dot[r][n]);
          if constexpr (kUnsignedZero<kLayout> != 0) dot[r][n] = V::add32(dot[r][n], correction);
        }
      }
      add_quads<kPart * kQuads>(pieces, g, x.low + g * kGroupInputs, x.stride, dot);
    }
  }

  template <int kFirst, int R, int N>
  [[gnu::always_inline]] static void add_quads(const Piece (&pieces)[N], std::int64_t g,
                                               const std::int8_t* x, std::int64_t stride,
                                               __m512i (&dot)[R][N]) {
    repeat<kQuads>([&]<int kIndex>() __attribute__((always_inline)) {
      constexpr int kQuad = kFirst + kIndex;
      __m512i weight[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) weight[n] = pieces[n].template quad<kQuad>(g);
      QUIRE_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m512i inputs = V::set1_quad(x + r * stride + 4 * kQuad);
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          dot[r][n] = dot_bytes(dot[r][n], weight[n], inputs);
          QUIRE_PIN_VECTOR(dot[r][n]);
        }
      }
    });
  }
};

template <WeightLayout kLayout, bool k16>
struct VnniPieces {
  using Product = VnniProduct<kMultipliedLike<kLayout>, k16>;
  using Piece = typename Product::Piece;
  // Four pieces of expanded codes would leave the L1 cache; 16-bit inputs gain nothing by four.
  static constexpr int kWidePanels =
      kUsedPacked<kLayout> && !k16 ? MatmulVec16::kBlockPanels : VnniVec16::kBlockPanels;
  static constexpr std::int64_t kInputs = Piece::kInputs;
  static constexpr bool kScalesOutputs = Product::kScalesOutputs;

  static void expand(const MatmulPanels& args, const std::uint8_t* panel, std::int64_t begin,
                     std::int64_t end, Piece& piece) {
    piece.template expand<kLayout>(args, panel, begin, end);
  }
};

}  // namespace
}  // namespace quire
