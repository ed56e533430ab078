#include "kernels/cuda/attention/attention_paged_worker.cuh"

namespace quire::cuda {

void split_attention_of_fp8(const Launch& launch, const SplitTask& task) {
  launch_type<DType::kF8E4M3>(launch, task);
}

}  // namespace quire::cuda
