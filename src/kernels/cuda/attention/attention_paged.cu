#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/attention_paged.h"
#include "kernels/cuda/attention/attention_paged_split.h"
#include "kernels/cuda/attention/attention_paged_wide.h"

namespace quire::cuda {
namespace {

// Sequences with more rows are worth the turning of their keys and values.
constexpr std::int32_t kMostRowsUnturned = 128;

}  // namespace

bool paged_attention_applies(const AttentionArgs& args) {
  const KvLayout& layout = args.layout;
  return layout.dtype == DType::kBF16 && layout.has_values() && layout.head_dim % 16 == 0 &&
         layout.head_dim >= 64 && layout.head_dim <= 256 && layout.block_size % 16 == 0 &&
         layout.block_stride() % 16 == 0;
}

std::uint64_t paged_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  return std::max(split_attention_workspace_bytes(limits, multiprocessors),
                  wide_attention_workspace_bytes(limits));
}

void paged_attention(const Launch& launch, const AttentionInputs& inputs,
                     const AttentionArgs& args) {
  if (inputs.num_tokens == 0) return;
  const std::int32_t most_split_rows = wide_attention_applies(args) ? kMostRowsUnturned : INT32_MAX;
  split_attention(
      launch, inputs, args,
      SplitPlan::of(inputs, args, most_split_rows, launch.multiprocessors, launch.workspace_bytes));
  wide_attention(launch, inputs, args, most_split_rows);
}

}  // namespace quire::cuda
