#include "kernels/sizing.h"

#include <algorithm>

#include "kernels/attention_plan.h"
#include "kernels/attention_scratch.h"
#include "kernels/matmul_kernel.h"
#include "kernels/packed_weight.h"

namespace quire {

std::uint64_t packed_weight_bytes(Encoding encoding, std::int64_t outputs, std::int64_t inputs,
                                  LoadQuantization quantization, bool vocabulary) {
  const PackOptions options = {.quantization = quantization, .vocabulary = vocabulary, .done = {}};
  return packed_bytes(layout_at_load(encoding, inputs, options), outputs, inputs);
}

std::uint64_t attention_scratch_bytes(std::int32_t head_dim, std::int32_t heads_per_kv_head) {
  const std::int64_t rows = std::int64_t{kMaxQueriesPerWork} * heads_per_kv_head;
  return static_cast<std::uint64_t>(AttentionScratch(head_dim, rows).total) * sizeof(float);
}

std::uint64_t workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs, std::int32_t head_dim,
                              std::int32_t heads_per_kv_head, int num_threads) {
  return std::max(matmul_workspace_bytes(max_rows, max_inputs),
                  attention_scratch_bytes(head_dim, heads_per_kv_head) *
                      static_cast<std::uint64_t>(num_threads));
}

}  // namespace quire
