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

void attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args) {
  if (inputs.num_tokens == 0) return;
  if (paged_attention_applies(args)) return paged_attention(launch, inputs, args);
  if (latent_attention_applies(args)) return latent_attention(launch, inputs, args);
  generic_attention(launch, inputs, args);
}

}  // namespace quire::cuda
