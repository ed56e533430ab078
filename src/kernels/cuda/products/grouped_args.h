// Products of groups of matrices of one size, of experts or of heads, each with rows of its own.
#pragma once

#include <cstdint>

namespace quire::cuda {

// Positions [begin, begin + count) of the rows of a group. Rows of experts are counted over all of
// them, those of heads from 0 on in each.
struct GroupTile {
  std::int32_t group = 0;
  std::int32_t begin = 0;
  std::int32_t count = 0;
};

// Of a launch: its arguments have to fit those of a kernel.
inline constexpr int kMaxGroups = 512;
inline constexpr int kMaxMatrices = 2;  // of a group, which have the same inputs

// Row p of group g is row x_rows[p] of the inputs, or row p * x_step + g * x_group_step; what comes
// of it lies at out[m] + p * out_stride + g * out_group_stride.
struct GroupedArgs {
  // [matrix][group - first_group]; null: all of the group's are of another launch.
  const std::uint8_t* panels[kMaxMatrices][kMaxGroups] = {};
  std::int32_t num_matrices = 0;
  std::int32_t first_group = 0;
  std::int32_t num_groups = 0;
  std::int64_t panel_bytes = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;

  const GroupTile* tiles = nullptr;         // null: every group has `rows` rows
  const std::int32_t* num_tiles = nullptr;  // in the device's memory
  std::int32_t max_tiles = 0;
  std::int32_t rows = 0;
  std::int32_t tile_rows = 0;  // of a tile, at most

  const std::int32_t* x_rows = nullptr;
  std::int64_t x_step = 1;
  std::int64_t x_group_step = 0;

  float* out[kMaxMatrices] = {};
  std::int64_t out_stride = 0;
  std::int64_t out_group_stride = 0;
  const float* biases[kMaxMatrices] = {};  // [groups][outputs] or null

  std::int64_t num_panels() const { return (outputs + 15) / 16; }
  std::int64_t num_tile_slots() const {
    return tiles != nullptr ? max_tiles : num_groups * ((rows + tile_rows - 1) / tile_rows);
  }
};

#if defined(__CUDACC__)
// Whether there is a tile `index`, and panels of its group.
__device__ inline bool find_tile(const GroupedArgs& args, std::int32_t index, GroupTile& tile) {
  if (args.tiles != nullptr) {
    if (index >= *args.num_tiles) return false;
    tile = args.tiles[index];
  } else {
    const std::int32_t of_group = (args.rows + args.tile_rows - 1) / args.tile_rows;
    const std::int32_t begin = index % of_group * args.tile_rows;
    tile = {args.first_group + index / of_group, begin, min(args.tile_rows, args.rows - begin)};
  }
  return tile.group >= args.first_group && tile.group < args.first_group + args.num_groups;
}

__device__ inline std::int64_t x_row(const GroupedArgs& args, std::int32_t group,
                                     std::int32_t position) {
  if (args.x_rows != nullptr) return args.x_rows[position];
  return position * args.x_step + group * args.x_group_step;
}
#endif

}  // namespace quire::cuda
