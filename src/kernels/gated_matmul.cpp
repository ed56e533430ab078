// The gate and up projections of an MLP with its activation, in tiles: a worker computes some
// panels of both for some rows into scratch that its second cache holds, and stores what becomes of
// them.
#include <algorithm>
#include <cassert>

#include "kernels/matmul_call.h"
#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

// Sums of one worker, gate and up: some panels of both for any level's MatmulKernels::chunk_rows.
constexpr std::int64_t kScratchFloats = 12 * 1024;
constexpr std::int64_t kPanelsAtOnce = 4;  // that kernels compute at once, at most

std::int64_t panels_per_tile(std::int64_t rows) {
  const std::int64_t fit = kScratchFloats / (2 * kPanelOutputs * rows);
  assert(fit > 0);
  return fit < kPanelsAtOnce ? fit : fit / kPanelsAtOnce * kPanelsAtOnce;
}

}  // namespace

std::uint64_t gated_scratch_bytes(int num_threads) {
  return Arena::float_bytes(kScratchFloats) * static_cast<std::uint64_t>(num_threads);
}

void gated_matmul(OpContext& ctx, const float* x, std::int64_t rows, ActivationMode mode,
                  const GatedProducts& products, float* out, const Stage& stage) {
  const OpSpan span(ctx, stage);
  const MatmulPart parts[] = {{.weight = products.gate, .bias = products.gate_bias},
                              {.weight = products.up, .bias = products.up_bias}};
  if (span.get() != nullptr) span.get()->cost = cost_of(parts, rows);
  Arena workspace(ctx.workspace);
  const std::int64_t chunk_rows = ctx.table.matmul.chunk_rows;
  const MatmulCall call(ctx, x, products.gate->inputs(), rows, chunk_rows, mode, parts, workspace);
  float* const scratch = workspace.floats(kScratchFloats * ctx.pool.num_threads());
  const std::int64_t width = products.gate->outputs();
  const std::int64_t tile_panels = panels_per_tile(std::min(rows, chunk_rows));
  const auto activate_and_mul = products.activation == Activation::kSilu
                                    ? ctx.table.rows.silu_and_mul
                                    : ctx.table.rows.gelu_tanh_and_mul;

  const auto compute_tile = [&](const MatmulTile& tile) {
    const std::int64_t first = tile.panel_begin * kPanelOutputs;
    const std::int64_t outputs = std::min(tile.panel_end * kPanelOutputs, width) - first;
    MatmulTile of_gate = tile;
    of_gate.next_panels = products.up->panel(tile.panel_begin);
    MatmulTile of_up = tile;
    of_up.out = tile.out + (tile.row_end - tile.row_begin) * tile.out_stride;
    call.compute(parts[0], of_gate);
    call.compute(parts[1], of_up);
    for (std::int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const std::int64_t sums = (row - tile.row_begin) * tile.out_stride;
      activate_and_mul(of_gate.out + sums, of_up.out + sums, outputs, out + row * width + first);
    }
  };
  const auto compute = [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t row = 0; row < rows; row += chunk_rows) {
      for (std::int64_t panel = begin; panel < end; panel += tile_panels) {
        const std::int64_t panel_end = std::min(panel + tile_panels, end);
        const bool again = panel_end == end && row + chunk_rows < rows;  // for the next rows
        compute_tile({.row_begin = row,
                      .row_end = std::min(row + chunk_rows, rows),
                      .panel_begin = panel,
                      .panel_end = panel_end,
                      .next_panels = products.gate->panel(again ? begin : panel_end),
                      .out = scratch + worker * kScratchFloats,
                      .out_stride = (panel_end - panel) * kPanelOutputs});
      }
    }
  };
  ctx.pool.parallel_for_guided(products.gate->num_panels(), kPanelGrain, call.max_panels(),
                               compute);
}

}  // namespace quire
