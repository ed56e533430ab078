#include "kernels/cuda/products/grid_codes.cuh"
#include "kernels/cuda/products/grouped_wide.cuh"
#include "kernels/cuda/products/hqq_codes.cuh"

namespace quire::cuda {

void launch_grouped_wide_blocks(const Launch& launch, WeightLayout layout,
                                const GroupedKernelArgs& args) {
  launch_grouped<WideFamily<WidePart::kBlocks>>(launch, layout, args);
}

}  // namespace quire::cuda
