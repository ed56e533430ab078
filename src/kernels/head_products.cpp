// A product for each head: small matrices, so many heads are one parallel region, as many as their
// rounded inputs leave room for.
#include <algorithm>
#include <memory>

#include "base/checked.h"
#include "kernels/matmul_call.h"
#include "kernels/op_span.h"
#include "kernels/ops.h"
#include "kernels/sizing.h"

namespace quire {
namespace {

// With so few rows of all heads, these are one region.
constexpr std::int64_t kMinRegionRows = 256;
// Numbers below which copying is not handed to another thread.
constexpr std::int64_t kGrainCopied = 8192;

std::int64_t heads_at_once(std::int64_t rows, std::int64_t num_heads) {
  return std::clamp<std::int64_t>(kMinRegionRows / rows, 1, num_heads);
}

void copy_numbers(OpContext& ctx, std::int64_t rows, const HeadProducts& products) {
  const std::int64_t inputs = products.weights[0].inputs();
  const std::int64_t num_heads = std::ssize(products.weights);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrainCopied / (num_heads * products.copied));
  ctx.pool.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t head = 0; head < num_heads; ++head) {
        std::copy_n(products.x + row * products.x_stride + head * products.x_head_stride + inputs,
                    products.copied,
                    products.out + row * products.out_stride + head * products.out_head_stride);
      }
    }
  });
}

}  // namespace

std::uint64_t head_products_workspace_bytes(std::int64_t max_rows, const HeadSizes& heads) {
  if (heads.num_heads == 0) return 0;
  // The most heads at once come with few rows.
  const std::int64_t calls = heads_at_once(1, heads.num_heads);
  return Arena::array_bytes<MatmulCall>(calls) + Arena::array_bytes<MatmulPart>(calls) +
         matmul_workspace_bytes(std::max(max_rows, kMinRegionRows), heads.max_inputs) +
         static_cast<std::uint64_t>(calls) * matmul_workspace_bytes(0, heads.max_inputs);
}

void matmul_by_head(OpContext& ctx, std::int64_t rows, ActivationMode mode,
                    const HeadProducts& products, const Stage& stage) {
  const OpSpan span(ctx, stage);
  if (products.copied != 0) copy_numbers(ctx, rows, products);
  const std::int64_t num_heads = std::ssize(products.weights);
  const std::int64_t panels = products.weights[0].num_panels();
  const std::int64_t most = heads_at_once(rows, num_heads);
  for (std::int64_t first = 0; first < num_heads; first += most) {
    const std::int64_t count = std::min(most, num_heads - first);
    Arena workspace(ctx.workspace);
    auto* const calls = workspace.array<MatmulCall>(count);
    auto* const parts = workspace.array<MatmulPart>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t head = first + i;
      parts[i] = {.weight = &products.weights[static_cast<std::size_t>(head)],
                  .out = products.out + head * products.out_head_stride + products.copied,
                  .out_stride = products.out_stride};
      std::construct_at(calls + i, ctx, products.x + head * products.x_head_stride,
                        products.x_stride, rows, MatmulCall::kAllRows, mode,
                        std::span(parts + i, 1), workspace);
      if (span.get() == nullptr) continue;
      const SpanCost cost = cost_of(std::span(parts + i, 1), rows);
      span.get()->cost.bytes += cost.bytes;
      span.get()->cost.operations += cost.operations;
    }
    ctx.pool.parallel_for_guided(count * panels, kPanelGrain, calls[0].max_panels(),
                                 [&](std::int64_t begin, std::int64_t end, int) {
                                   while (begin < end) {
                                     const std::int64_t i = begin / panels;
                                     const std::int64_t next = std::min(end, (i + 1) * panels);
                                     calls[i].compute_panels(
                                         parts[i], begin - i * panels, next - i * panels,
                                         [](const MatmulPart&, const MatmulTile&) {});
                                     begin = next;
                                   }
                                 });
  }
}

}  // namespace quire
