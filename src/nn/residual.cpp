#include "nn/residual.h"

#include <span>

namespace quire {

void add_to_residual(ForwardContext& ctx, const float* x, const ResidualProjection& projection,
                     const Residual& residual) {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const bool normed = residual.norm != nullptr && !residual.norm->empty();
  const bool direct = !normed && residual.scale == 1.0F;
  const std::int64_t hidden_size = projection.weight->outputs();
  const MatmulPart part = {.weight = projection.weight,
                           .out = direct ? residual.hidden : residual.scratch,
                           .out_stride = hidden_size,
                           .bias = projection.bias->data_or_null(),
                           .accumulate = direct};
  ctx.ops.matmul(x, projection.weight->inputs(), rows, projection.mode, std::span(&part, 1),
                 *projection.stage);
  if (normed) {
    residual.norm->apply_and_add(ctx.ops, residual.scratch, rows, residual.hidden);
  } else if (!direct) {
    ctx.ops.scale_and_add(residual.scratch, residual.scale, rows * hidden_size, residual.hidden);
  }
}

}  // namespace quire
