// Which rows go to which experts of a mixture, as grouped products read it: the pairs of a row and
// an expert that it goes to, sorted by expert, those of one in the order of their rows, and cut
// into tiles of rows of one expert.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/grouped_args.h"

namespace quire::cuda {

// A pair is row * experts_per_row + rank.
struct ExpertLists {
  std::int32_t* pair_at = nullptr;      // [pairs]: of a position
  std::int32_t* row_at = nullptr;       // [pairs]: the row of that pair
  std::int32_t* expert_at = nullptr;    // [pairs]: the expert of that pair
  std::int32_t* position_of = nullptr;  // [pairs]: of a pair
  GroupTile* tiles = nullptr;           // [max_tiles()], by expert and position
  std::int32_t* num_tiles = nullptr;
};

// Tiles that there can be.
constexpr std::int64_t max_tiles(std::int64_t pairs, std::int64_t num_experts,
                                 std::int64_t tile_rows) {
  return std::min(pairs, num_experts + pairs / tile_rows);
}

// chosen: [pairs], as route() gives them.
void list_experts(const Launch& launch, const std::int32_t* chosen, std::int64_t pairs,
                  std::int64_t experts_per_row, std::int64_t num_experts, std::int64_t tile_rows,
                  const ExpertLists& lists);

}  // namespace quire::cuda
