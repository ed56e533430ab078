#include "kernels/sizing.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/attention_plan.h"
#include "kernels/attention_scratch.h"
#include "kernels/matmul_kernel.h"
#include "kernels/packed_weight.h"
#include "kernels/sampling/sample_rows.h"

namespace quire {

std::uint64_t packed_weight_bytes(Encoding encoding, std::int64_t outputs, std::int64_t inputs,
                                  LoadQuantization quantization, bool vocabulary) {
  const PackOptions options = {.quantization = quantization, .vocabulary = vocabulary, .done = {}};
  return packed_bytes(layout_at_load(encoding, inputs, options), outputs, inputs);
}

std::uint64_t attention_scratch_bytes(std::int32_t head_dim, std::int32_t heads_per_kv_head) {
  // No fewer than with fewer heads: what is enough for all layers is that of the largest sizes.
  const std::int64_t rows = std::max(kMaxRowsPerWork, heads_per_kv_head);
  return static_cast<std::uint64_t>(AttentionScratch::floats(head_dim, rows)) * sizeof(float);
}

std::uint64_t attention_workspace_bytes(const AttentionSizes& attention, int num_threads) {
  const auto scratch = attention_scratch_bytes(attention.head_dim, attention.heads_per_kv_head) *
                       static_cast<std::uint64_t>(num_threads);
  const std::int64_t ranges = ceil_div(attention.max_seq_len, std::int64_t{kRangeKeys});
  if (ranges <= 1) return scratch;
  // Fewer sequences and heads are split than there are shares of a step.
  const std::int64_t splits =
      num_threads == 1 ? 0 : std::int64_t{AttentionPlan::kWorkPerThread} * num_threads - 1;
  const std::int64_t states =
      attention.max_num_seqs == 1 ? 0 : attention.max_num_seqs * attention.num_kv_heads;
  const std::int64_t floats =
      PartialResults::floats(attention.head_dim, attention.heads_per_kv_head);
  return scratch + static_cast<std::uint64_t>((splits * ranges + states) * floats) * sizeof(float);
}

std::uint64_t workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs,
                              const AttentionSizes& attention, int num_threads) {
  const std::int64_t num_heads =
      std::int64_t{attention.num_kv_heads} * (attention.heads_per_kv_head + 2);
  const std::uint64_t beside_products =
      std::max({best_scratch_bytes(attention.max_num_seqs, num_threads),
                gated_scratch_bytes(num_threads), qkv_scratch_bytes(max_rows, num_heads)});
  return std::max(matmul_workspace_bytes(max_rows, max_inputs) + beside_products,
                  attention_workspace_bytes(attention, num_threads));
}

StreamMemory cpu_stream_memory(const StreamLimits& limits, int num_threads) {
  return {
      .workspace = std::max(
          {workspace_bytes(limits.max_rows, limits.max_inputs, limits.attention, num_threads),
           expert_workspace_bytes(limits.max_rows, limits.experts, num_threads),
           head_products_workspace_bytes(limits.max_rows, limits.head_products)}),
      .sampling = SamplingScratch::bytes(limits.vocab_size, limits.max_sampled_rows, num_threads)};
}

}  // namespace quire
