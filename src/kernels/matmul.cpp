// Matrix products and embedding look-up over packed weights.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/matmul_call.h"
#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

constexpr Stage kEmbeddingStage = {StageKind::kKernel, "embedding"};

// Which of two is kept does not depend on their order.
RowBest better(const RowBest& a, const RowBest& b) {
  if (std::isnan(a.value) || std::isnan(b.value)) return std::isnan(a.value) ? a : b;
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.index < b.index ? a : b;
}

}  // namespace

std::uint64_t best_scratch_bytes(std::int64_t max_rows, int num_threads) {
  return Arena::array_bytes<RowBest>(max_rows * num_threads);
}

void matmul(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
            ActivationMode mode, std::span<const MatmulPart> parts, const Stage& stage) {
  const OpSpan span(ctx, stage);
  if (span.get() != nullptr) span.get()->cost = cost_of(parts, rows);
  Arena workspace(ctx.workspace);
  const MatmulCall call(ctx, x, x_stride, rows, MatmulCall::kAllRows, mode, parts, workspace);
  call.compute_all(ctx.pool, parts, [](const MatmulPart&, const MatmulTile&, int) {});
}

void matmul_and_best(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
                     ActivationMode mode, const MatmulPart& part, RowBest* best,
                     const Stage& stage) {
  const OpSpan span(ctx, stage);
  const std::span<const MatmulPart> parts(&part, 1);
  if (span.get() != nullptr) span.get()->cost = cost_of(parts, rows);
  Arena workspace(ctx.workspace);
  const MatmulCall call(ctx, x, x_stride, rows, ctx.table.matmul.chunk_rows, mode, parts,
                        workspace);
  const int num_threads = ctx.pool.num_threads();
  RowBest* const of_workers = workspace.array<RowBest>(rows * num_threads);
  constexpr RowBest kNone = {.value = -std::numeric_limits<float>::infinity(), .index = 0};
  std::fill_n(of_workers, rows * num_threads, kNone);
  const auto find_best = [&](const MatmulPart&, const MatmulTile& tile, int worker) {
    const std::int64_t first = tile.panel_begin * kPanelOutputs;
    const std::int64_t outputs =
        std::min(tile.panel_end * kPanelOutputs, part.weight->outputs()) - first;
    for (std::int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const float* const computed = tile.out + (row - tile.row_begin) * tile.out_stride;
      RowBest of_tile = ctx.table.rows.best_of_row(computed, outputs);
      of_tile.index += static_cast<std::int32_t>(first);
      RowBest& kept = of_workers[worker * rows + row];
      kept = better(kept, of_tile);
    }
  };
  call.compute_all(ctx.pool, parts, find_best);
  for (std::int64_t row = 0; row < rows; ++row) {
    best[row] = kNone;
    for (int worker = 0; worker < num_threads; ++worker) {
      best[row] = better(best[row], of_workers[worker * rows + row]);
    }
  }
}

void embedding(OpContext& ctx, const PackedWeight& table, const TokenId* token_ids,
               std::int64_t num_tokens, float* out) {
  const OpSpan span(ctx, kEmbeddingStage);
  const std::int64_t inputs = table.inputs();
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    table.decode_output(token_ids[t], out + t * inputs);
  }
}

}  // namespace quire
