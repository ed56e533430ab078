// What the kernels of products_few.h are told.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/gated_activation.cuh"

namespace quire::cuda {

// One weight of a call.
struct FewPart {
  const std::uint8_t* panels = nullptr;
  std::int32_t first_panel = 0;  // where panels of all parts are counted on
  std::int32_t outputs = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  const float* bias = nullptr;
  bool accumulate = false;
};

inline constexpr int kMaxFewParts = 4;

// Groups of 32 inputs that a warp has in registers before it multiplies them, of layouts with one
// sum, for so many tiles of 8 rows and panels a warp.
constexpr int few_piece_groups(int tiles, int panels) { return tiles * panels == 1 ? 2 : 1; }

// Groups of a unit (FewPlan): whole blocks and, of layouts with one sum, two pieces.
constexpr int few_unit_groups(const FragmentForm& form, int tiles, int panels) {
  if (form.span_groups == 0) return 2 * few_piece_groups(tiles, panels);
  const bool is_codebook = form.codes == CodeForm::kNF4 || form.codes == CodeForm::kFP4;
  const int groups = tiles * panels == 1 && !is_codebook ? 8 : 4;
  return form.block_groups > groups ? static_cast<int>(form.block_groups) : groups;
}

// Warps of a block that multiply.
constexpr int few_warps(int tiles) { return tiles == 4 ? 15 : 8; }

// How blocks go through panels. An item is one panel or two, which one warp multiplies with the
// same rows: of a gated product those that have the same outputs. Block b of n computes items b, b
// + n, b + 2 n and so on, some at once. All inputs of an item are multiplied in its block, in
// stages of some groups of 32 inputs.
struct FewPlan {
  std::int32_t items = 0;
  std::int32_t item_panels = 1;
  std::int32_t items_at_once = 1;  // of a block
  std::int32_t splits = 1;         // warps that share an item's rows
  std::int32_t team = 1;           // warps that share an item's units, one after the other
  std::int32_t workers = 1;        // warps that multiply
  // A unit of groups is what a warp of a team multiplies before it hands over; a stage of the ring
  // has some units.
  std::int32_t unit_groups = 1;
  std::int32_t stage_units = 1;
  std::int32_t stage_groups = 1;
  std::int32_t panel_stages = 1;  // of a panel
  // The ring of stages in a block's shared memory. A stage has a chunk of each panel, then rows,
  // then sums of inputs.
  std::int32_t ring_stages = 1;
  std::int32_t last_stages = 1;  // to be copied when the next kernel's blocks may begin to copy
  std::int32_t chunk_bytes = 0;
  std::int32_t rows_offset = 0;
  std::int32_t sums_offset = 0;
  std::int32_t stage_bytes = 0;
  // Few rows are rounded by every block itself, into shared memory behind the ring, and are not in
  // stages: rows_offset and sums_offset are from the end of the ring then.
  bool has_own_rows = false;
  std::int32_t shared_bytes = 0;  // of a block, all in all
};

struct FewArgs {
  FewPlan plan;
  std::int32_t tiles = 1;  // of 8 rows, of a warp: 1, 2 or 4
  FewPart parts[kMaxFewParts];
  std::int32_t num_parts = 0;
  std::int32_t panels = 0;  // of all parts; of a gated product, of each
  std::int64_t panel_bytes = 0;
  std::int64_t chunks_end = 0;  // of a panel: what lies behind is no part of its blocks
  std::int64_t inputs = 0;
  std::int32_t rows = 0;
  // As round_fragments() writes them, and InputSums of layouts with minima; or the inputs
  // themselves.
  const std::uint16_t* x = nullptr;
  const float* sums = nullptr;
  const float* own_x = nullptr;
  std::int64_t own_x_stride = 0;
  const std::int32_t* input_order = nullptr;
  // Part 0 is the gate and part 1 the other product; results go to the gate's `out`.
  bool is_gated = false;
  GateFunction gate;
};

}  // namespace quire::cuda
