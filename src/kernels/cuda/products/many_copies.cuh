// Copies of panels and rows into the ring of stages of a product of many rows (many_kernel.cuh), by
// one warp.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copies.cuh"
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/cluster_copies.cuh"
#include "kernels/cuda/products/many_tiles.cuh"
#include "kernels/cuda/products/rounded_rows.h"

namespace quire::cuda {

template <typename Tile>
class ManyProducer {
 public:
  __device__ ManyProducer(const ManyMaps& maps, const ManyArgs& args,
                          const ManyBuffers<Tile>& buffers)
      : maps_(maps),
        args_(args),
        buffers_(buffers),
        lane_(static_cast<std::int32_t>(threadIdx.x % 32)),
        rank_(Tile::kBlocks > 1 ? static_cast<std::int32_t>(cluster_rank()) : 0) {}

  // Weights do not change: the first of them are copied while kernels before this one run.
  __device__ void copy() {
    const auto first_tile = static_cast<std::int32_t>(blockIdx.x) / Tile::kBlocks;
    const auto step = static_cast<std::int32_t>(gridDim.x) / Tile::kBlocks;
    const std::int32_t chunks = (args_.groups() + Tile::kChunkGroups - 1) / Tile::kChunkGroups;
    const std::int32_t whole_chunks = args_.inputs / Tile::kChunkInputs;
    const std::int32_t early = min(whole_chunks, Tile::kStages);
    for (std::int32_t chunk = 0; chunk < early; ++chunk) {
      copy_whole_panels(first_tile_panel(first_tile), chunk, chunk);
    }
    wait_for_previous();
    std::int32_t done = 0;  // chunks of all tiles
    RingPlace<Tile::kStages> at;
    for (std::int32_t tile = first_tile; tile < args_.order.count(); tile += step) {
      const std::int32_t panel = first_tile_panel(tile);
      const std::int32_t row = args_.order.place(tile).row_tile * Tile::kRows;
      for (std::int32_t chunk = 0; chunk < chunks; ++chunk, ++done, at.advance()) {
        barrier_wait(buffers_.empty(at.stage), at.parity ^ 1U);
        std::uint32_t bytes = Tile::kRowBytes + Tile::kWeightBytes;
        if (chunk == whole_chunks) {
          bytes = Tile::kRowBytes + copy_last_panels(panel, chunk, at.stage);
        } else if (done >= early) {
          copy_whole_panels(panel, chunk, at.stage);
        }
        if (lane_ == 0) {
          copy_rows(row, chunk, at.stage);
          bytes += copy_sums(row, chunk, at.stage);
          barrier_expect(buffers_.full(at.stage), bytes);
        }
      }
      if (!args_.output.accumulate || !args_.output.is_boxed) continue;
      for (std::int32_t i = 0; i < Tile::kRows; i += Tile::kBeforeRows, at.advance()) {
        barrier_wait(buffers_.empty(at.stage), at.parity ^ 1U);
        if (lane_ == 0) copy_results(panel * 16, row + i, at.stage);
      }
    }
  }

 private:
  __device__ std::int32_t first_tile_panel(std::int32_t tile) const {
    return (args_.order.place(tile).output_tile * Tile::kBlocks + rank_) * Tile::kOutputPanels;
  }

  __device__ void copy_whole_panels(std::int32_t panel, std::int32_t chunk, std::uint32_t stage) {
    if (lane_ != 0) return;
    constexpr int kWeights = Tile::kIsGated ? 2 : 1;
    const std::uint32_t to = shared_address(buffers_.weights(stage));
#pragma unroll
    for (int i = 0; i < kWeights; ++i) {
      copy_box(maps_.panels[i], 0, chunk * Tile::kPanelUnits, panel, to + i * Tile::kWeightStride,
               buffers_.full(stage));
    }
  }

  // Of the last chunk, where panels end before it does; the bytes of all panels' copies.
  __device__ std::uint32_t copy_last_panels(std::int32_t panel, std::int32_t chunk,
                                            std::uint32_t stage) {
    const std::int64_t offset = Tile::kForm.header_bytes + std::int64_t{chunk} * Tile::kPanelBytes;
    const auto bytes = static_cast<std::uint32_t>(
        min(args_.panel_bytes - offset, std::int64_t{Tile::kPanelBytes}));
    const std::int32_t count = max(min(args_.num_panels - panel, Tile::kOutputPanels), 0);
    const std::int32_t own = lane_ % Tile::kOutputPanels;
    if (lane_ < Tile::kPanels && own < count) {
      const std::uint8_t* panels = args_.panels[lane_ / Tile::kOutputPanels];
      copy_bytes(panels + (panel + own) * args_.panel_bytes + offset, bytes,
                 shared_address(buffers_.panel(stage, lane_)), buffers_.full(stage));
    }
    return count * (Tile::kPanels / Tile::kOutputPanels) * bytes;
  }

  __device__ void copy_rows(std::int32_t row, std::int32_t chunk, std::uint32_t stage) {
    constexpr int kOwnRows = Tile::kRows / Tile::kBlocks;  // that this block copies
    const std::uint32_t to = shared_address(buffers_.rows(stage)) + rank_ * kOwnRows * 128;
#pragma unroll
    for (int box = 0; box < Tile::kChunkGroups / 2; ++box) {
      const std::int32_t input = chunk * Tile::kChunkInputs + box * 64;
      if constexpr (Tile::kBlocks > 1) {
        copy_box_to_blocks(maps_.rows, input, row + rank_ * kOwnRows, to + box * Tile::kBoxBytes,
                           buffers_.full(stage), (1U << Tile::kBlocks) - 1);
      } else {
        copy_box(maps_.rows, input, row, to + box * Tile::kBoxBytes, buffers_.full(stage));
      }
    }
  }

  // The bytes of the copies.
  __device__ std::uint32_t copy_sums(std::int32_t row, std::int32_t chunk, std::uint32_t stage) {
    std::uint32_t bytes = 0;
    if constexpr (Tile::kForm.has_minimum) {
      constexpr std::int32_t kSpanInputs = 32 * Tile::kSpanGroups;
      const std::int32_t spans = (args_.inputs + kSpanInputs - 1) / kSpanInputs;
      const std::int64_t stride = sum_stride(args_.output.rows);
      const auto own_bytes =
          static_cast<std::uint32_t>(4 * min(stride - row, std::int64_t{Tile::kRows}));
#pragma unroll
      for (int i = 0; i < Tile::kSpans; ++i) {
        const std::int32_t span = chunk * Tile::kSpans + i;
        if (span >= spans) break;
        copy_bytes(args_.input_sums + span * stride + row, own_bytes,
                   shared_address(buffers_.sums(stage)) + i * Tile::kRows * 4,
                   buffers_.full(stage));
        bytes += own_bytes;
      }
    }
    return bytes;
  }

  // What the tile's results are added to.
  __device__ void copy_results(std::int32_t output, std::int32_t row, std::uint32_t stage) {
    constexpr int kBoxes = Tile::kBeforeRows / 32 * Tile::kRowBoxes;
    const std::uint32_t to = shared_address(buffers_.rows(stage));
    for (int box = 0; box < kBoxes; ++box) {
      copy_box(maps_.out, output + box % Tile::kRowBoxes * 32, row + box / Tile::kRowBoxes * 32,
               to + box * Tile::kResultBoxBytes, buffers_.full(stage));
    }
    barrier_expect(buffers_.full(stage), kBoxes * Tile::kResultBoxBytes);
  }

  const ManyMaps& maps_;
  const ManyArgs& args_;
  ManyBuffers<Tile> buffers_;
  std::int32_t lane_;
  std::int32_t rank_;  // of the block in its cluster
};

}  // namespace quire::cuda
