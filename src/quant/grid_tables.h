// The codebooks of the grid encodings (iq2xxs_grid and so on in ggml-common.h): the values of eight
// or four consecutive weights under one index, the first in the lowest byte, as signed bytes.
#pragma once

#include <cstdint>

namespace quire {

template <typename Entry, int kCount>
struct Grid {
  Entry entries[kCount];
};

// Of IQ2_*: 8, 25 and 43, to be given signs.
extern const Grid<std::uint64_t, 256> kIq2XxsGrid;
extern const Grid<std::uint64_t, 512> kIq2XsGrid;
extern const Grid<std::uint64_t, 1024> kIq2SGrid;
// Of IQ3_*, four weights: 4 to 62, and odd numbers to 15; to be given signs.
extern const Grid<std::uint32_t, 256> kIq3XxsGrid;
extern const Grid<std::uint32_t, 512> kIq3SGrid;
// Of IQ1_S and IQ1_M: -8, 0 and 8, eighths, to which an eighth is added or subtracted.
extern const Grid<std::uint64_t, 2048> kIq1Grid;

}  // namespace quire
