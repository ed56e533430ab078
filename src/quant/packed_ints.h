// Small unsigned integers as GPTQ, AWQ and their like pack them: into 32-bit words, along one of
// the two dimensions of an array, the first in the lowest bits. Or one in each byte.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace quire {

enum class PackedAlong : std::uint8_t {
  kFirst,   // words [ceil(rows * bits / 32)][cols]: a word has neighbours of a column
  kSecond,  // words [rows][ceil(cols * bits / 32)]: a word has neighbours of a row
  kBytes    // bytes [rows][cols]
};

// Where AWQ's words have element i of eight: at 4 * kAwqPlaces[i] (Lin et al. 2023, AWQ; the order
// of its GEMM kernel).
inline constexpr std::array<int, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

struct PackedInts {
  const std::uint8_t* data = nullptr;
  int bits = 4;  // 2, 3, 4 or 8; integers of three bits go on from one word into the next
  PackedAlong along = PackedAlong::kFirst;
  std::int64_t stride = 0;  // words, or bytes, from one stored row to the next
  bool awq_places = false;  // of four bits

  std::uint32_t word(std::int64_t index) const {
    std::uint32_t value = 0;
    std::memcpy(&value, data + 4 * index, 4);
    return value;
  }

  int get(std::int64_t row, std::int64_t col) const {
    if (along == PackedAlong::kBytes) return data[row * stride + col];
    const bool first = along == PackedAlong::kFirst;
    std::int64_t index = first ? row : col;
    if (awq_places) index = index / 8 * 8 + kAwqPlaces[static_cast<std::size_t>(index % 8)];
    const std::int64_t bit = index * bits;
    const std::int64_t at = first ? bit / 32 * stride + col : row * stride + bit / 32;
    const int shift = static_cast<int>(bit % 32);
    std::uint64_t two = word(at);
    if (shift + bits > 32) two |= std::uint64_t{word(at + (first ? stride : 1))} << 32;
    return static_cast<int>(two >> shift) & ((1 << bits) - 1);
  }
};

}  // namespace quire
