// Tile registers (AMX). Eight of them, 0 to 7, a template argument because the instructions encode
// it. A thread configures their shapes, uses them, and releases them before it does anything else,
// so that the operating system need not save them.
#pragma once

#include <cstdint>

#if defined(QUIRE_EMULATE_WIDE_VECTORS)
#include "kernels/cpu/emulated_tiles.h"
#endif

namespace quire {
namespace {

inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;

// What ldtilecfg reads.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, int tile_rows, int tile_row_bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

#if !defined(QUIRE_EMULATE_WIDE_VECTORS)

// The compilers' own intrinsics want literal numbers of tiles, and GCC 12 does not tell the
// optimizer that a load of a tile reads memory.
inline void tile_configure(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
inline void tile_release() { asm volatile("tilerelease" : : : "memory"); }

template <int kTile>
inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
// Rows `stride` bytes apart.
template <int kTile>
inline void tile_load(const void* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void tile_store(void* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}

// sum[m][n] += left[m] . right[n], where a row of `left` is K values and a row of `right` has the
// next four bytes of K of each n: two bfloat16 with float32 sums, or four signed bytes.
template <int kSum, int kLeft, int kRight>
inline void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}
template <int kSum, int kLeft, int kRight>
inline void tile_dot_bytes() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}

#else

inline void tile_configure(const TileConfig& config) { emulated_tiles().configure(&config); }
inline void tile_release() { emulated_tiles().release(); }
template <int kTile>
inline void tile_zero() {
  emulated_tiles().zero(kTile);
}
template <int kTile>
inline void tile_load(const void* from, std::int64_t stride) {
  emulated_tiles().load(kTile, from, stride);
}
template <int kTile>
inline void tile_store(void* to, std::int64_t stride) {
  emulated_tiles().store(kTile, to, stride);
}
template <int kSum, int kLeft, int kRight>
inline void tile_dot_bf16() {
  emulated_tiles().dot_bf16(kSum, kLeft, kRight);
}
template <int kSum, int kLeft, int kRight>
inline void tile_dot_bytes() {
  emulated_tiles().dot_bytes(kSum, kLeft, kRight);
}

#endif

}  // namespace
}  // namespace quire
