#include "kernels/cuda/products/grouped_wide.cuh"

namespace quire::cuda {

void launch_grouped_wide(const Launch& launch, WeightLayout layout, const GroupedKernelArgs& args) {
  if (fragment_form(layout).has_zeros) {
    launch_grouped_wide_zeros(launch, layout, args);
  } else {
    launch_grouped<WideFamily<false>>(launch, layout, args);
  }
}

}  // namespace quire::cuda
