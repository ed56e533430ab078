// Launches of many_kernel.cuh.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/cuda/dynamic_shared.h"
#include "kernels/cuda/products/many_kernel.cuh"
#include "kernels/cuda/products/many_launchers.h"
#include "kernels/cuda/products/products_many.h"
#include "kernels/cuda/products/tensor_maps.h"

namespace quire::cuda {

inline ManyOutput many_output(const ManyCall& call) {
  const MatmulPart& part = call.part;
  const std::int64_t first = call.first_panel * kPanelOutputs;
  const std::int64_t outputs =
      std::min(call.num_panels * kPanelOutputs, part.weight->outputs() - first);
  float* const out = part.out + first;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(out) % (2 * sizeof(float)) == 0;
  return {.out = out,
          .stride = part.out_stride,
          .rows = call.x.rows,
          .outputs = outputs,
          .bias = part.bias == nullptr ? nullptr : part.bias + first,
          .accumulate = part.accumulate,
          .is_paired = is_aligned && part.out_stride % 2 == 0,
          .is_boxed = has_float_rows_map(out, outputs, part.out_stride)};
}

template <typename Tile>
TileOrder tile_order(const ManyCall& call) {
  // Row tiles whose rows stay in the L2 cache while all weights go past.
  constexpr std::int64_t kCachedBytes = std::int64_t{16} << 20;
  const std::int64_t tile_bytes = call.part.weight->inputs() * Tile::kRows * 2;
  const auto row_tiles = static_cast<std::int32_t>((call.x.rows + Tile::kRows - 1) / Tile::kRows);
  const auto cached =
      static_cast<std::int32_t>(std::max<std::int64_t>(kCachedBytes / tile_bytes, 1));
  return {.row_tiles = row_tiles,
          .output_tiles = static_cast<std::int32_t>((call.num_panels + Tile::kClusterPanels - 1) /
                                                    Tile::kClusterPanels),
          .group = std::min(row_tiles, cached)};
}

template <typename Tile>
CUtensorMap chunks_map(const PackedWeight& weight, const ManyCall& call, std::int64_t panel_bytes) {
  const std::int64_t chunks = weight.inputs() / Tile::kChunkInputs;
  return panels_map({.bytes = weight.panel(call.first_panel) + Tile::kForm.header_bytes,
                     .panels = call.num_panels,
                     .panel_bytes = panel_bytes,
                     .units = chunks * Tile::kPanelUnits,
                     .unit_bytes = Tile::kUnitBytes},
                    Tile::kPanelUnits, Tile::kOutputPanels);
}

template <typename Tile>
void launch_many(const Launch& launch, const ManyCall& call) {
  const ManyRows& x = call.x;
  const PackedWeight& weight = *call.part.weight;
  ManyArgs args;
  args.order = tile_order<Tile>(call);
  args.panels[0] = weight.panel(call.first_panel);
  args.panel_bytes = static_cast<std::int64_t>(panel_bytes(weight.layout(), weight.inputs()));
  args.num_panels = static_cast<std::int32_t>(call.num_panels);
  args.inputs = static_cast<std::int32_t>(weight.inputs());
  args.input_sums = x.sums;
  args.output = many_output(call);
  ManyMaps maps = {};
  maps.rows = bf16_rows_map(x.x, x.rows, x.padded_inputs, Tile::kRows / Tile::kBlocks);
  maps.panels[0] = chunks_map<Tile>(weight, call, args.panel_bytes);
  if constexpr (Tile::kIsGated) {
    args.panels[1] = call.up->panel(call.first_panel);
    if (call.up_bias != nullptr) args.up_bias = call.up_bias + call.first_panel * kPanelOutputs;
    args.gate = call.gate;
    maps.panels[1] = chunks_map<Tile>(*call.up, call, args.panel_bytes);
  }
  if (args.output.is_boxed) {
    maps.out = float_rows_map(args.output.out, x.rows, args.output.outputs, args.output.stride);
  }
  const int clusters = std::min(args.order.count(), launch.multiprocessors / Tile::kBlocks);
  launch_clusters_with_shared(many_rows_product<Tile>, Tile::kBlocks * clusters, Tile::kThreads,
                              Tile::kBlocks, Tile::kSharedBytes, launch.stream, maps, args);
}

// Measured: a step takes a while beside what tensor cores take for its products.
template <typename Tile>
constexpr TileKind tile_kind() {
  return {.rows = Tile::kRows,
          .panels = Tile::kOutputPanels,
          .step_cycles = 2 * Tile::kWarpgroups * Tile::kRows + 220,
          .launch = launch_many<Tile>};
}

// Sums of spans take registers, so that tiles are smaller.
template <WeightLayout kLayout>
void launch_layout(const Launch& launch, const ManyCall& call) {
  if constexpr (fragment_form(kLayout).span_groups == 0) {
    static constexpr TileKind kKinds[] = {tile_kind<ManyTile<kLayout, 2, 256>>(),
                                          tile_kind<ManyTile<kLayout, 2, 128>>(),
                                          tile_kind<ManyTile<kLayout, 1, 128>>()};
    static constexpr TileKind kGatedKinds[] = {tile_kind<ManyTile<kLayout, 2, 256, true>>(),
                                               tile_kind<ManyTile<kLayout, 2, 128, true>>(),
                                               tile_kind<ManyTile<kLayout, 2, 64, true>>()};
    if (call.up != nullptr) return launch_best(launch, call, kGatedKinds);
    launch_best(launch, call, kKinds);
  } else if constexpr (fragment_form(kLayout).has_minimum_codes() ||
                       fragment_form(kLayout).block_bytes > 4096) {
    // Two sums of a span, or blocks that shared memory has no room for beside many rows.
    static constexpr TileKind kKinds[] = {tile_kind<ManyTile<kLayout, 1, 64>>()};
    static constexpr TileKind kGatedKinds[] = {tile_kind<ManyTile<kLayout, 2, 64, true>>()};
    if (call.up != nullptr) return launch_best(launch, call, kGatedKinds);
    launch_best(launch, call, kKinds);
  } else {
    static constexpr TileKind kKinds[] = {tile_kind<ManyTile<kLayout, 2, 128>>(),
                                          tile_kind<ManyTile<kLayout, 1, 64>>()};
    static constexpr TileKind kGatedKinds[] = {tile_kind<ManyTile<kLayout, 2, 128, true>>(),
                                               tile_kind<ManyTile<kLayout, 2, 64, true>>()};
    if (call.up != nullptr) return launch_best(launch, call, kGatedKinds);
    launch_best(launch, call, kKinds);
  }
}

}  // namespace quire::cuda
