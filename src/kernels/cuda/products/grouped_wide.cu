#include "kernels/cuda/products/grouped_wide.cuh"

namespace quire::cuda {

void launch_grouped_wide(const Launch& launch, WeightLayout layout, const GroupedKernelArgs& args) {
  switch (wide_part(layout)) {
    case WidePart::kZeros:
      return launch_grouped_wide_zeros(launch, layout, args);
    case WidePart::kBlocks:
      return launch_grouped_wide_blocks(launch, layout, args);
    default:
      return launch_grouped<WideFamily<WidePart::kOthers>>(launch, layout, args);
  }
}

}  // namespace quire::cuda
