// Matrix products and embedding look-up over packed weights: one fork and join a call, the panels
// of all parts handed out in shrinking chunks to whichever worker is free.
#include <algorithm>

#include "kernels/matmul_call.h"
#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

constexpr Stage kEmbeddingStage = {StageKind::kKernel, "embedding"};

}  // namespace

void matmul(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
            ActivationMode mode, std::span<const MatmulPart> parts, const Stage& stage) {
  const OpSpan span(ctx, stage);
  if (span.get() != nullptr) span.get()->cost = cost_of(parts, rows);
  Arena workspace(ctx.workspace);
  const MatmulCall call(ctx, x, x_stride, rows, MatmulCall::kAllRows, mode, parts, workspace);
  std::int64_t panels = 0;
  for (const MatmulPart& part : parts) panels += part.weight->num_panels();
  const auto compute = [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t first = 0;  // of the part
    for (const MatmulPart& part : parts) {
      const std::int64_t num_panels = part.weight->num_panels();
      const std::int64_t panel_begin = std::max<std::int64_t>(begin - first, 0);
      const std::int64_t panel_end = std::min(end - first, num_panels);
      first += num_panels;
      if (panel_begin >= panel_end) continue;
      call.compute(part, {.row_begin = 0,
                          .row_end = rows,
                          .panel_begin = panel_begin,
                          .panel_end = panel_end,
                          .out = part.out + panel_begin * kPanelOutputs,
                          .out_stride = part.out_stride});
    }
  };
  ctx.pool.parallel_for_guided(panels, kPanelGrain, call.max_panels(), compute);
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
