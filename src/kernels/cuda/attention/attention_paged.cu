#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/attention_paged.h"
#include "kernels/cuda/attention/attention_paged_split.h"
#include "kernels/cuda/attention/attention_paged_wide.h"

namespace quire::cuda {
namespace {

// Sequences with more rows are worth the turning of their keys and values.
constexpr std::int32_t kMostRowsUnturned = 128;

// Codes of a byte become operands in split_attention() alone.
bool is_wide(const AttentionArgs& args) {
  return args.layout.dtype == DType::kBF16 && wide_attention_applies(args);
}

}  // namespace

bool paged_attention_applies(const AttentionArgs& args) {
  const KvLayout& layout = args.layout;
  return layout.dtype != DType::kF32 && layout.has_values() && layout.head_dim % 16 == 0 &&
         layout.head_dim >= 64 && layout.head_dim <= 256 && layout.block_size % 16 == 0 &&
         layout.block_stride() % 16 == 0;
}

std::uint64_t paged_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  return std::max(split_attention_workspace_bytes(limits, multiprocessors),
                  wide_attention_workspace_bytes(limits));
}

SplitShape paged_split_shape(const AttentionArgs& args, int multiprocessors) {
  const bool is_small = args.layout.dtype != DType::kBF16 && args.layout.head_dim <= 128;
  return {.max_rows = is_wide(args) ? kMostRowsUnturned : INT32_MAX,
          .tile_rows = kMostSplitRows,
          .blocks = multiprocessors,
          .small_blocks = multiprocessors * (is_small ? kSmallSplitBlocks : 1)};
}

void paged_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                     const StagedSplit& split) {
  split_attention(launch, inputs, args, split);
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  if (is_wide(args) && std::int64_t{inputs.max_queries} * group > kMostRowsUnturned) {
    wide_attention(launch, inputs, args, kMostRowsUnturned);
  }
}

}  // namespace quire::cuda
