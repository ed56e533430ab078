#include "nn/residual.h"

#include <span>

namespace quire {

void add_to_residual(ForwardContext& ctx, const float* x, const ResidualProjection& projection,
                     float* scratch, float* hidden) {
  const std::int64_t rows = ctx.tokens.num_tokens;
  const std::int64_t hidden_size = projection.weight->outputs();
  const bool normed = !projection.norm->empty();
  const MatmulPart part = {.weight = projection.weight,
                           .out = normed ? scratch : hidden,
                           .out_stride = hidden_size,
                           .bias = vector_or_null(*projection.bias),
                           .accumulate = !normed};
  matmul(ctx.ops, x, projection.weight->inputs(), rows, projection.mode, std::span(&part, 1),
         *projection.stage);
  if (normed) {
    rms_norm_and_add(ctx.ops, scratch, projection.norm->data(), projection.epsilon, rows,
                     hidden_size, hidden);
  }
}

}  // namespace quire
