#include "quant/grid_tables.h"

#include "quant/grid_words.h"

namespace quire {

constinit const Grid<std::uint64_t, 256> kIq2XxsGrid =
    grid_of<std::uint64_t, 256>(kIq2XxsWords, kIq2Values);
constinit const Grid<std::uint64_t, 512> kIq2XsGrid =
    grid_of<std::uint64_t, 512>(kIq2XsWords, kIq2Values);
constinit const Grid<std::uint64_t, 1024> kIq2SGrid =
    grid_of<std::uint64_t, 1024>(kIq2SWords, kIq2Values);
constinit const Grid<std::uint32_t, 256> kIq3XxsGrid =
    grid_of<std::uint32_t, 256>(kIq3XxsWords, kIq3XxsValues);
constinit const Grid<std::uint32_t, 512> kIq3SGrid =
    grid_of<std::uint32_t, 512>(kIq3SWords, kIq3SValues);
constinit const Grid<std::uint64_t, 2048> kIq1Grid =
    grid_of<std::uint64_t, 2048>(kIq1Words, kIq1Values);

}  // namespace quire
