// Matrix products and embedding look-up over packed weights.
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
  call.compute_all(ctx.pool, parts, [](const MatmulPart&, const MatmulTile&, int) {});
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
