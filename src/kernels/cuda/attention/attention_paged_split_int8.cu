#include "kernels/cuda/attention/attention_paged_worker.cuh"

namespace quire::cuda {

void split_attention_of_int8(const Launch& launch, const SplitTask& task) {
  launch_type<DType::kI8>(launch, task);
}

}  // namespace quire::cuda
