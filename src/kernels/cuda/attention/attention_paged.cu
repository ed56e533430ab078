#include <cstdint>

#include "kernels/cuda/attention/attention_paged.h"
#include "kernels/cuda/attention/attention_paged_split.h"
#include "kernels/cuda/attention/attention_paged_wide.h"

namespace quire::cuda {

bool paged_attention_applies(const AttentionArgs& args) {
  const KvLayout& layout = args.layout;
  return layout.dtype != DType::kF32 && layout.has_values() && layout.head_dim % 16 == 0 &&
         layout.head_dim >= 64 && layout.head_dim <= 256 && layout.block_size % 16 == 0 &&
         layout.block_stride() % 16 == 0;
}

std::uint64_t paged_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  return split_attention_workspace_bytes(limits, multiprocessors);
}

void paged_attention(const Launch& launch, const AttentionInputs& inputs,
                     const AttentionArgs& args) {
  if (inputs.num_tokens == 0) return;
  // Codes of a byte become operands in split_attention() alone.
  const bool is_wide = args.layout.dtype == DType::kBF16 && wide_attention_applies(args);
  const std::int32_t most_split_rows = is_wide ? kMostSplitRows : INT32_MAX;
  const bool is_small = args.layout.dtype != DType::kBF16 && args.layout.head_dim <= 128;
  const SplitPlan::Shape shape = {
      .tile_rows = kMostSplitRows,
      .blocks = launch.multiprocessors,
      .small_blocks = launch.multiprocessors * (is_small ? kSmallSplitBlocks : 1)};
  split_attention(launch, inputs, args,
                  SplitPlan::of(inputs, args, most_split_rows, shape, launch.workspace_bytes));
  if (is_wide) wide_attention(launch, inputs, args, most_split_rows);
}

}  // namespace quire::cuda
