// The tile registers of one thread, and the AMX instructions on them, as Intel's Software
// Developer's Manual defines them (volume 1, chapter 18; volume 2, LDTILECFG, TILELOADD, TDPBSSD,
// TDPBF16PS): for processors that lack them. What would be an invalid-opcode exception ends the
// program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/emulated_dots.h"

namespace quire {

class EmulatedTiles {
 public:
  // `config`: the 64 bytes that ldtilecfg reads. All tiles become zero.
  void configure(const void* config);
  void release();
  void zero(int tile);
  void load(int tile, const void* from, std::int64_t stride);
  void store(int tile, void* to, std::int64_t stride);
  // sum[m][n] += sum over k of left[m][k] * right[k][n], k counting four bytes.
  void dot_bf16(int sum, int left, int right);
  void dot_bytes(int sum, int left, int right);

 private:
  static constexpr int kTiles = 8;
  static constexpr int kMaxRows = 16;
  static constexpr int kMaxRowBytes = 64;

  struct Tile {
    int rows = 0;
    int row_bytes = 0;
    std::uint8_t data[kMaxRows][kMaxRowBytes] = {};
  };

  static void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "invalid use of tiles: %s\n", what);
    std::abort();
  }
  static float bf16_at(const Tile& tile, int row, int index) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tile.data[row] + 2 * index, sizeof(bits));
    return emulated_bf16(bits);
  }
  Tile& at(int tile);
  void check_product(int sum, int left, int right);

  bool configured_ = false;
  Tile tiles_[kTiles];
};

// Those of the calling thread, as a processor has them.
inline EmulatedTiles& emulated_tiles() {
  thread_local EmulatedTiles tiles;
  return tiles;
}

inline EmulatedTiles::Tile& EmulatedTiles::at(int tile) {
  require(configured_, "not configured");
  require(tile >= 0 && tile < kTiles, "no such tile");
  require(tiles_[tile].rows > 0 && tiles_[tile].row_bytes > 0, "a tile without a shape");
  return tiles_[tile];
}

inline void EmulatedTiles::configure(const void* config) {
  std::uint8_t bytes[64];
  std::memcpy(bytes, config, sizeof(bytes));
  require(bytes[0] == 1, "palette");
  for (int i = 1; i < 16; ++i) require(bytes[i] == 0, "reserved bytes or start row");
  for (int i = 0; i < 16; ++i) {
    std::uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, bytes + 16 + 2 * i, sizeof(row_bytes));
    const int rows = bytes[48 + i];
    require(i < kTiles || (rows == 0 && row_bytes == 0), "more than eight tiles");
    require(rows <= kMaxRows && row_bytes <= kMaxRowBytes, "a tile too large");
    require((rows == 0) == (row_bytes == 0), "half a shape");
    if (i < kTiles) {
      tiles_[i] = Tile{};
      tiles_[i].rows = rows;
      tiles_[i].row_bytes = row_bytes;
    }
  }
  configured_ = true;
}

inline void EmulatedTiles::release() {
  configured_ = false;
  for (Tile& tile : tiles_) tile = Tile{};
}

inline void EmulatedTiles::zero(int tile) { std::memset(at(tile).data, 0, sizeof(Tile::data)); }

inline void EmulatedTiles::load(int tile, const void* from, std::int64_t stride) {
  Tile& to = at(tile);
  std::memset(to.data, 0, sizeof(to.data));
  for (int row = 0; row < to.rows; ++row) {
    std::memcpy(to.data[row], static_cast<const std::uint8_t*>(from) + row * stride,
                static_cast<std::size_t>(to.row_bytes));
  }
}

inline void EmulatedTiles::store(int tile, void* to, std::int64_t stride) {
  const Tile& from = at(tile);
  for (int row = 0; row < from.rows; ++row) {
    std::memcpy(static_cast<std::uint8_t*>(to) + row * stride, from.data[row],
                static_cast<std::size_t>(from.row_bytes));
  }
}

inline void EmulatedTiles::check_product(int sum, int left, int right) {
  require(sum != left && sum != right && left != right, "one tile twice in a product");
  const Tile& c = at(sum);
  const Tile& a = at(left);
  const Tile& b = at(right);
  require(a.row_bytes % 4 == 0 && b.row_bytes % 4 == 0 && c.row_bytes % 4 == 0, "parts of lanes");
  require(c.rows == a.rows, "rows of the left factor");
  require(c.row_bytes == b.row_bytes, "columns of the right factor");
  require(a.row_bytes / 4 == b.rows, "inner sizes");
}

// Even and odd positions of K are summed apart, from zero; the two sums are added, then to what the
// tile held. Every operation rounds to nearest even and flushes denormal numbers.
inline void EmulatedTiles::dot_bf16(int sum, int left, int right) {
  check_product(sum, left, right);
  Tile& c = tiles_[sum];
  const Tile& a = tiles_[left];
  const Tile& b = tiles_[right];
  for (int m = 0; m < c.rows; ++m) {
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      float parts[2] = {};
      for (int k = 0; k < b.rows; ++k) {
        for (int part = 0; part < 2; ++part) {
          parts[part] =
              emulated_fma(bf16_at(a, m, 2 * k + part), bf16_at(b, k, 2 * n + part), parts[part]);
        }
      }
      float total = 0;
      std::memcpy(&total, c.data[m] + 4 * n, sizeof(total));
      total = emulated_add(total, emulated_add(parts[0], parts[1]));
      std::memcpy(c.data[m] + 4 * n, &total, sizeof(total));
    }
  }
}

inline void EmulatedTiles::dot_bytes(int sum, int left, int right) {
  check_product(sum, left, right);
  Tile& c = tiles_[sum];
  const Tile& a = tiles_[left];
  const Tile& b = tiles_[right];
  for (int m = 0; m < c.rows; ++m) {
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      std::uint32_t total = 0;  // wraps
      std::memcpy(&total, c.data[m] + 4 * n, sizeof(total));
      for (int k = 0; k < b.rows; ++k) {
        for (int i = 0; i < 4; ++i) {
          const int product = static_cast<std::int8_t>(a.data[m][4 * k + i]) *
                              static_cast<std::int8_t>(b.data[k][4 * n + i]);
          total += static_cast<std::uint32_t>(product);
        }
      }
      std::memcpy(c.data[m] + 4 * n, &total, sizeof(total));
    }
  }
}

}  // namespace quire
