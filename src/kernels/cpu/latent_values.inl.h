// Values that are parts of the keys (KvLayout::latent_dims), laid as values that are apart: tiles
// of four by four pieces, a piece being the numbers of kGroup dimensions of kGroup keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/unroll.h"
#include "kernels/transpose.h"

namespace quire {

// Four pieces side by side, of 4 or of 8 bytes.
template <int kPieceBytes>
struct FourPieces;

template <>
struct FourPieces<4> {
  using T = Words;
  static T load(const std::byte* from) {
    T x;
    __builtin_memcpy(&x, from, sizeof(x));
    return x;
  }
  static void store(std::byte* to, T x) { __builtin_memcpy(to, &x, sizeof(x)); }
  static T swap(T x) {
    const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    return reinterpret_cast<T>(_mm_shuffle_epi8(reinterpret_cast<__m128i>(x), order));
  }
  static void transpose(T (&x)[4]) { transpose_4x4({x[0], x[1], x[2], x[3]}, x); }
};

template <>
struct FourPieces<8> {
  using T = __m256i;
  static T load(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void store(std::byte* to, T x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
  static T swap(T x) {
    return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15)));
  }
  static void transpose(T (&x)[4]) {
    const T even01 = _mm256_unpacklo_epi64(x[0], x[1]);  // pieces 0 and 2 of both
    const T odd01 = _mm256_unpackhi_epi64(x[0], x[1]);
    const T even23 = _mm256_unpacklo_epi64(x[2], x[3]);
    const T odd23 = _mm256_unpackhi_epi64(x[2], x[3]);
    x[0] = _mm256_permute2x128_si256(even01, even23, 0x20);
    x[1] = _mm256_permute2x128_si256(odd01, odd23, 0x20);
    x[2] = _mm256_permute2x128_si256(even01, even23, 0x31);
    x[3] = _mm256_permute2x128_si256(odd01, odd23, 0x31);
  }
};

// `dims` dimensions of kKeys neighbouring keys, from the dimensions' place in the keys of a block,
// `step` bytes from one group to the next, to [kKeys / Rows::kGroup][dims][Rows::kGroup].
template <class Rows, int kKeys>
inline void transpose_latent_keys(const std::byte* from, std::int64_t step, std::int64_t dims,
                                  std::byte* to) {
  constexpr int kPieceBytes = Rows::kGroup * Rows::kGroup * Rows::kBytes;
  using Four = FourPieces<kPieceBytes>;
  const std::int64_t row_bytes = dims * Rows::kGroup * Rows::kBytes;
  const std::int64_t groups = dims / Rows::kGroup;
  // The last tile begins where it is whole; with fewer groups than it has they are repeated, and
  // only what is asked for is stored.
  const auto tile = [&](std::int64_t group, std::int64_t count) __attribute__((always_inline)) {
    QUIRE_UNROLL
    for (int piece = 0; piece < kKeys / Rows::kGroup; piece += 4) {
      typename Four::T x[4];
      QUIRE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::int64_t at = group + (i < count ? i : count - 1);
        x[i] = Four::load(from + at * step + piece * kPieceBytes);
        if constexpr (Rows::kGroup == 2) x[i] = Four::swap(x[i]);
      }
      Four::transpose(x);
      std::byte* const row = to + piece * row_bytes + group * kPieceBytes;
      QUIRE_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (count == 4) {
          Four::store(row + i * row_bytes, x[i]);
        } else {
          __builtin_memcpy(row + i * row_bytes, &x[i],
                           static_cast<std::size_t>(count * kPieceBytes));
        }
      }
    }
  };
  if (groups < 4) {
    tile(0, groups);
    return;
  }
  for (std::int64_t group = 0; group < groups - 4; group += 4) tile(group, 4);
  tile(groups - 4, 4);
}

}  // namespace quire
