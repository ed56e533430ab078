#include <algorithm>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_generic.h"
#include "kernels/cuda/attention/attention_latent.h"
#include "kernels/cuda/attention/attention_paged.h"

namespace quire::cuda {

std::uint64_t attention_workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  return std::max({generic_attention_workspace_bytes(limits, multiprocessors),
                   latent_attention_workspace_bytes(limits, multiprocessors),
                   paged_attention_workspace_bytes(limits, multiprocessors)});
}

std::optional<SplitShape> split_shape(const AttentionArgs& args, int multiprocessors) {
  if (paged_attention_applies(args)) return paged_split_shape(args, multiprocessors);
  if (latent_attention_applies(args)) return latent_split_shape(multiprocessors);
  return std::nullopt;
}

bool attention_repeats(const AttentionInputs& inputs, const AttentionArgs& args,
                       const std::optional<SplitShape>& shape) {
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  return shape && std::int64_t{inputs.max_queries} * group <= shape->max_rows;
}

void attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
               const StagedSplit& split) {
  if (inputs.num_tokens == 0) return;
  if (paged_attention_applies(args)) return paged_attention(launch, inputs, args, split);
  if (latent_attention_applies(args)) return latent_attention(launch, inputs, args, split);
  generic_attention(launch, inputs, args);
}

}  // namespace quire::cuda
