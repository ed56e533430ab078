#include "base/checked.h"
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/products/weight_decode.cuh"

namespace quire::cuda {
namespace {

constexpr int kEmbeddingThreads = 256;

struct EmbeddingTable {
  PanelForm form;
  const std::uint8_t* panels = nullptr;
  const std::int32_t* order = nullptr;  // [form.inputs] or nullptr
};

// blockIdx.x: token; blockIdx.y: inputs, four a thread.
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_kernel(const EmbeddingTable table, const TokenId* token_ids, float* out) {
  let_next_start();
  wait_for_previous();
  const std::int64_t inputs = table.form.inputs;
  const std::int64_t first = 4 * (std::int64_t{blockIdx.y} * kEmbeddingThreads + threadIdx.x);
  if (first >= inputs) return;
  const std::int64_t token = token_ids[blockIdx.x];
  const std::uint8_t* const panel = table.panels + token / kPanelOutputs * table.form.panel_bytes;
  float4 quad[1];
  decode_quads(table.form, panel, first, static_cast<int>(token % kPanelOutputs), quad);
  const float weights[] = {quad[0].x, quad[0].y, quad[0].z, quad[0].w};
  float* const row = out + blockIdx.x * inputs;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i >= inputs) return;
    row[table.order == nullptr ? first + i : table.order[first + i]] = weights[i];
  }
}

}  // namespace

void embedding(const Launch& launch, const PackedWeight& table, const TokenId* token_ids,
               std::int64_t num_tokens, float* out) {
  if (num_tokens == 0) return;
  const std::int64_t quads = ceil_div(table.inputs(), 4);
  const dim3 grid(static_cast<unsigned>(num_tokens),
                  static_cast<unsigned>(ceil_div(quads, kEmbeddingThreads)));
  const EmbeddingTable args = {
      .form = panel_form(table), .panels = table.panel(0), .order = table.input_order()};
  launch_dependent(embedding_kernel, grid, dim3(kEmbeddingThreads), 0, launch.stream, args,
                   token_ids, out);
}

}  // namespace quire::cuda
