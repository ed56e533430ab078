#include "kernels/cuda/attention/attention_paged_split.h"
#include "kernels/cuda/attention/attention_paged_worker.cuh"

namespace quire::cuda {

void split_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                     const StagedSplit& split) {
  if (split.form.grid == 0) return;
  const SplitTask task = {.args = args,
                          .inputs = inputs,
                          .form = split.form,
                          .plan = split.plan,
                          .kv = KvPlaces::of(args),
                          .group = args.num_heads / args.layout.num_kv_heads,
                          .slots = reinterpret_cast<float*>(launch.workspace)};
  switch (args.layout.dtype) {
    case DType::kF8E4M3:
      split_attention_of_fp8(launch, task);
      break;
    case DType::kI8:
      split_attention_of_int8(launch, task);
      break;
    default:
      launch_type<DType::kBF16>(launch, task);
  }
  join_split_results(launch, task);
}

}  // namespace quire::cuda
