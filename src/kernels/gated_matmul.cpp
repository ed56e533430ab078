#include <algorithm>
#include <cassert>

#include "kernels/gated_call.h"
#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

constexpr std::int64_t kPanelsAtOnce = 4;  // that kernels compute at once, at most

std::int64_t panels_per_tile(std::int64_t rows) {
  const std::int64_t fit = GatedCall::kScratchFloats / (2 * kPanelOutputs * rows);
  assert(fit > 0);
  return fit < kPanelsAtOnce ? fit : fit / kPanelsAtOnce * kPanelsAtOnce;
}

}  // namespace

std::uint64_t gated_scratch_bytes(int num_threads) {
  return Arena::float_bytes(GatedCall::kScratchFloats) * static_cast<std::uint64_t>(num_threads);
}

GatedCall::GatedCall(OpContext& ctx, const float* x, std::int64_t rows, ActivationMode mode,
                     const GatedProducts& products, Arena& workspace)
    : parts_{{.weight = products.gate, .bias = products.gate_bias},
             {.weight = products.up, .bias = products.up_bias}},
      call_(ctx, x, products.gate->inputs(), rows, ctx.table.matmul.chunk_rows, mode, parts_,
            workspace),
      rows_(rows),
      chunk_rows_(ctx.table.matmul.chunk_rows),
      activate_and_mul_(products.activation == Activation::kSilu
                            ? ctx.table.rows.silu_and_mul
                            : ctx.table.rows.gelu_tanh_and_mul),
      clamped_(products.clamped),
      clamped_and_mul_(ctx.table.rows.clamped_and_mul) {}

void GatedCall::compute_tile(const MatmulTile& tile, float* out) const {
  const std::int64_t width = parts_[0].weight->outputs();
  const std::int64_t first = tile.panel_begin * kPanelOutputs;
  const std::int64_t outputs = std::min(tile.panel_end * kPanelOutputs, width) - first;
  MatmulTile of_gate = tile;
  of_gate.next_panels = parts_[1].weight->panel(tile.panel_begin);
  MatmulTile of_up = tile;
  of_up.out = tile.out + (tile.row_end - tile.row_begin) * tile.out_stride;
  call_.compute(parts_[0], of_gate);
  call_.compute(parts_[1], of_up);
  for (std::int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    const std::int64_t sums = (row - tile.row_begin) * tile.out_stride;
    float* const to = out + row * width + first;
    if (clamped_) {
      clamped_and_mul_(*clamped_, of_gate.out + sums, of_up.out + sums, outputs, to);
    } else {
      activate_and_mul_(of_gate.out + sums, of_up.out + sums, outputs, to);
    }
  }
}

void GatedCall::compute(std::int64_t begin, std::int64_t end, float* scratch, float* out) const {
  const std::int64_t tile_panels = panels_per_tile(std::min(rows_, chunk_rows_));
  for (std::int64_t row = 0; row < rows_; row += chunk_rows_) {
    for (std::int64_t panel = begin; panel < end; panel += tile_panels) {
      const std::int64_t panel_end = std::min(panel + tile_panels, end);
      const bool again = panel_end == end && row + chunk_rows_ < rows_;  // for the next rows
      compute_tile({.row_begin = row,
                    .row_end = std::min(row + chunk_rows_, rows_),
                    .panel_begin = panel,
                    .panel_end = panel_end,
                    .next_panels = parts_[0].weight->panel(again ? begin : panel_end),
                    .out = scratch,
                    .out_stride = (panel_end - panel) * kPanelOutputs},
                   out);
    }
  }
}

void gated_matmul(OpContext& ctx, const float* x, std::int64_t rows, ActivationMode mode,
                  const GatedProducts& products, float* out, const Stage& stage) {
  const OpSpan span(ctx, stage);
  if (span.get() != nullptr) {
    const MatmulPart parts[] = {{.weight = products.gate}, {.weight = products.up}};
    span.get()->cost = cost_of(parts, rows);
  }
  Arena workspace(ctx.workspace);
  const GatedCall call(ctx, x, rows, mode, products, workspace);
  float* const scratch = workspace.floats(GatedCall::kScratchFloats * ctx.pool.num_threads());
  ctx.pool.parallel_for_guided(call.num_panels(), kPanelGrain, call.max_panels(),
                               [&](std::int64_t begin, std::int64_t end, int worker) {
                                 call.compute(begin, end,
                                              scratch + worker * GatedCall::kScratchFloats, out);
                               });
}

}  // namespace quire
