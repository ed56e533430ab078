#include "nn/residual.h"

#include <span>

namespace quire {
namespace {

bool is_normed(const Residual& residual) {
  return residual.norm != nullptr && !residual.norm->empty();
}

}  // namespace

void add_to_residual(ForwardContext& ctx, const float* x, const ResidualProjection& projection,
                     const Residual& residual) {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const bool direct = !is_normed(residual) && residual.scale == 1.0F;
  const std::int64_t hidden_size = projection.weight->outputs();
  const MatmulPart part = {.weight = projection.weight,
                           .out = direct ? residual.hidden : residual.scratch,
                           .out_stride = hidden_size,
                           .bias = projection.bias->data_or_null(),
                           .accumulate = direct};
  ctx.ops.matmul(x, projection.weight->inputs(), rows, projection.mode, std::span(&part, 1),
                 *projection.stage);
  if (!direct) add_to_residual(ctx, residual.scratch, hidden_size, residual);
}

void add_to_residual(ForwardContext& ctx, const float* x, std::int64_t hidden_size,
                     const Residual& residual) {
  const std::int64_t rows = ctx.tokens.num_tokens;
  if (is_normed(residual)) {
    residual.norm->apply_and_add(ctx.ops, x, rows, residual.hidden);
  } else {
    ctx.ops.scale_and_add(x, residual.scale, rows * hidden_size, residual.hidden);
  }
}

}  // namespace quire
