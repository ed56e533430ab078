#include "nn/residual.h"

#include <span>

namespace quire {

void add_to_residual(ForwardContext& ctx, const float* x, const ResidualProjection& projection,
                     const Residual& residual) {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const bool normed = residual.norm != nullptr && !residual.norm->empty();
  const MatmulPart part = {.weight = projection.weight,
                           .out = normed ? residual.scratch : residual.hidden,
                           .out_stride = projection.weight->outputs(),
                           .bias = vector_or_null(*projection.bias),
                           .accumulate = !normed};
  matmul(ctx.ops, x, projection.weight->inputs(), rows, projection.mode, std::span(&part, 1),
         *projection.stage);
  if (normed) residual.norm->apply_and_add(ctx.ops, residual.scratch, rows, residual.hidden);
}

}  // namespace quire
