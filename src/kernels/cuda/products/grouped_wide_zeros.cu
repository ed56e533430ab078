#include "kernels/cuda/products/grouped_wide.cuh"

namespace quire::cuda {

void launch_grouped_wide_zeros(const Launch& launch, WeightLayout layout,
                               const GroupedKernelArgs& args) {
  launch_grouped<WideFamily<WidePart::kZeros>>(launch, layout, args);
}

}  // namespace quire::cuda
