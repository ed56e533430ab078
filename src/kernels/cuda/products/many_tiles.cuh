// How products of many rows are cut into tiles, the order in which blocks compute them, and what a
// tile needs of shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copies.cuh"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/gated_activation.cuh"
#include "kernels/op_args.h"

namespace quire::cuda {

// `row_tiles` x `output_tiles` tiles of a cluster. Those that run at the same time shall share what
// they read through the L2 cache: tiles of `group` row tiles are computed one output tile after the
// other, then those of the next row tiles.
struct TileOrder {
  std::int32_t row_tiles = 0;
  std::int32_t output_tiles = 0;
  std::int32_t group = 1;

  struct Place {
    std::int32_t row_tile;
    std::int32_t output_tile;
  };
  __host__ __device__ std::int32_t count() const { return row_tiles * output_tiles; }
  __device__ Place place(std::int32_t tile) const {
    const std::int32_t group_tiles = group * output_tiles;
    const std::int32_t first = tile / group_tiles * group;
    const std::int32_t rest = tile % group_tiles;
    const std::int32_t rows = min(group, row_tiles - first);
    return {.row_tile = first + rest % rows, .output_tile = rest / rows};
  }
};

// A block's tile of kRows rows by 64 outputs for each of `kGroups` warpgroups, and a ring of stages
// that it multiplies: a chunk of inputs of the rows and the panels. Of a gated product the first of
// two warpgroups computes the gate, the other the other product, both of the same 64 outputs.
//
// The blocks of a cluster have tiles of the same rows side by side. Each copies a part of the rows
// to all of them: what goes through the L2 cache to a multiprocessor is what limits dense products.
template <WeightLayout kLayoutOf, int kGroups, int kTileRows, bool kHasGate = false,
          int kShares = 2>
struct ManyTile {
  static constexpr WeightLayout kLayout = kLayoutOf;
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr int kWarpgroups = kGroups;  // that multiply
  static constexpr int kRows = kTileRows;
  static constexpr bool kIsGated = kHasGate;
  static constexpr int kPanels = 4 * kWarpgroups;
  static constexpr int kOutputPanels = kIsGated ? 4 : kPanels;
  static_assert(!kIsGated || kWarpgroups == 2);
  static constexpr int kBlocks = kShares;  // of a cluster
  static constexpr int kClusterPanels = kBlocks * kOutputPanels;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  // Registers of a thread that copies, and of one that multiplies.
  static constexpr int kCopyRegisters = 56;
  static constexpr int kRegisters = kWarpgroups > 2 ? 152 : 224;

  // A chunk has whole blocks of a panel.
  static constexpr int kLeastGroups = kForm.span_groups == 0 ? 2 : 4;
  static constexpr int kBlockGroups = static_cast<int>(kForm.block_groups);
  static constexpr int kChunkGroups = kBlockGroups > kLeastGroups ? kBlockGroups : kLeastGroups;
  static constexpr int kChunkInputs = 32 * kChunkGroups;
  // Of one sum; of a sum of all inputs, so many of each chunk.
  static constexpr int kSpanGroups =
      kForm.span_groups == 0 ? kChunkGroups : static_cast<int>(kForm.span_groups);
  static constexpr int kSpans = kChunkGroups / kSpanGroups;

  // Of a chunk: boxes of 64 inputs of the rows, aligned to 1024, bytes of the panels, each in as
  // few equal units as a box takes, and sums of the rows' inputs.
  static constexpr int kBoxBytes = kRows * 128;
  static constexpr int kRowBytes = kChunkGroups / 2 * kBoxBytes;
  static constexpr int kPanelBytes =
      static_cast<int>(kChunkGroups / kForm.block_groups * kForm.block_bytes);
  static constexpr int panel_units() {
    int units = (kPanelBytes + 2047) / 2048;
    while (kPanelBytes % (16 * units) != 0) ++units;
    return units;
  }
  static constexpr int kPanelUnits = panel_units();
  static constexpr int kUnitBytes = kPanelBytes / kPanelUnits;
  static constexpr int kWeightBytes = kPanels * kPanelBytes;
  // Of a gated product's two weights: boxes are copied to multiples of 128.
  static constexpr int kWeightStride = (kOutputPanels * kPanelBytes + 127) / 128 * 128;
  static constexpr int kWeightsEnd = kPanels / kOutputPanels * kWeightStride;
  static constexpr int kSumBytes = kForm.has_minimum ? kSpans * kRows * 4 : 0;
  static constexpr int kStageBytes = (kRowBytes + kWeightsEnd + kSumBytes + 1023) / 1024 * 1024;

  // Rows of results that a stage takes, where there are some to add to: boxes of 32 rows and 32
  // outputs, those of the same rows side by side.
  static constexpr int kOutputs = 16 * kOutputPanels;
  static constexpr int kResultBoxBytes = 32 * 32 * 4;
  static constexpr int kRowBoxes = kOutputs / 32;
  static constexpr int kFitRows = kStageBytes / (kRowBoxes * kResultBoxBytes) * 32;
  static constexpr int kBeforeRows = kFitRows < kRows ? kFitRows : kRows;
  static_assert(kBeforeRows >= 32);

  static constexpr int kBarrierBytes = 1024;
  // Of a warpgroup: results on their way to memory.
  static constexpr int kStoreSets = kWarpgroups > 2 ? 1 : 2;  // of two boxes each
  static constexpr int kStoreBytes = kStoreSets * 2 * kResultBoxBytes;
  static constexpr int kMostSharedBytes = 227 * 1024;  // of a block
  static constexpr int kOtherBytes = kBarrierBytes + kWarpgroups * kStoreBytes;
  static constexpr int kFit = (kMostSharedBytes - kOtherBytes) / kStageBytes;
  static constexpr int kStages = kFit < 8 ? kFit : 8;
  static_assert(kStages >= 2);
  static constexpr int kSharedBytes = kOtherBytes + kStages * kStageBytes;
};

// Shared memory of a block: barriers, stages, results. Aligned to 1024.
template <typename Tile>
struct ManyBuffers {
  std::uint8_t* base = nullptr;

  // Whether a stage's copies are there, and whether nobody reads it any more.
  __device__ std::uint32_t full(std::uint32_t stage) const {
    return shared_address(base) + 8 * stage;
  }
  __device__ std::uint32_t empty(std::uint32_t stage) const {
    return shared_address(base) + 8 * (Tile::kStages + stage);
  }
  __device__ std::uint8_t* rows(std::uint32_t stage) const {
    return base + Tile::kBarrierBytes + stage * Tile::kStageBytes;
  }
  __device__ std::uint8_t* weights(std::uint32_t stage) const {
    return rows(stage) + Tile::kRowBytes;
  }
  // Of a warp.
  __device__ std::uint8_t* panel(std::uint32_t stage, std::int32_t warp) const {
    return weights(stage) + warp / Tile::kOutputPanels * Tile::kWeightStride +
           warp % Tile::kOutputPanels * Tile::kPanelBytes;
  }
  __device__ std::uint8_t* sums(std::uint32_t stage) const {
    return weights(stage) + Tile::kWeightsEnd;
  }
  __device__ std::uint8_t* results(std::int32_t warpgroup) const {
    return rows(Tile::kStages) + warpgroup * Tile::kStoreBytes;
  }
};

// The place in a ring of `kStages` stages, and the parity of the round.
template <int kStages>
struct RingPlace {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1U;
  }
};

// Where a product's results go.
struct ManyOutput {
  float* out = nullptr;  // [rows][stride]
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t outputs = 0;
  const float* bias = nullptr;  // of a gated product, the gate's
  bool accumulate = false;
  bool is_paired = false;  // whether two floats of a row can be read and written at once
  bool is_boxed = false;   // whether boxes of results can be copied
};

struct ManyArgs {
  TileOrder order;
  const std::uint8_t* panels[2] = {};  // of the weight, or of a gated product's two
  std::int64_t panel_bytes = 0;
  std::int32_t num_panels = 0;
  std::int32_t inputs = 0;
  const float* input_sums = nullptr;  // InputSums of rounded_rows.h
  ManyOutput output;
  const float* up_bias = nullptr;  // of a gated product
  GateFunction gate;

  __device__ std::int32_t groups() const { return (inputs + 31) / 32; }
};

// What boxes are copied of.
struct ManyMaps {
  CUtensorMap rows;
  CUtensorMap panels[2];  // as ManyArgs has them
  CUtensorMap out;        // of results, where that is possible
};

}  // namespace quire::cuda
