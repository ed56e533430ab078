// Rows of 32-bit words turned into columns, by vectors of four words, which any processor has: that
// is enough for packing, which is bound by memory, and for rows of inputs, which are few.
//
// Of a checkpoint sixteen rows become lines of a panel: line j has word j of every row, in the
// order of the rows. All layouts but F16 are made of such lines (packed_weight.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/weight_layout.h"

namespace quire {

using Words = std::uint32_t __attribute__((vector_size(16)));

inline Words load_words(const void* from) {
  Words words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

inline void store_words(Words words, void* to) { std::memcpy(to, &words, sizeof(words)); }

inline std::uint32_t load_word(const std::uint8_t* from) {
  std::uint32_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// columns[j] = word j of each of the four rows.
[[gnu::always_inline]] inline void transpose_4x4(const Words (&rows)[4], Words (&columns)[4]) {
  const Words low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Words high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Words low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Words high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  columns[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  columns[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  columns[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  columns[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// Writes kWords lines (a multiple of 4) to `out`. load(row, i) gives words 4 i to 4 i + 3 of a row,
// which are also given to see(words).
template <int kWords, typename Load, typename See>
[[gnu::always_inline]] inline void transpose_rows(const Load& load, const See& see,
                                                  std::uint8_t* out) {
  for (int first = 0; first < kPanelOutputs; first += 4) {
    for (int i = 0; i < kWords / 4; ++i) {
      Words rows[4];
      for (int r = 0; r < 4; ++r) {
        rows[r] = load(first + r, i);
        see(rows[r]);
      }
      Words columns[4];
      transpose_4x4(rows, columns);
      for (int j = 0; j < 4; ++j) {
        const int at = (i * 4 + j) * 64 + first * 4;
        store_words(columns[j], out + at);
      }
    }
  }
}

}  // namespace quire
