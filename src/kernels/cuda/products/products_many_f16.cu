// Weights of float16.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_f16_launcher(WeightLayout layout) {
  return layout == WeightLayout::kF16 ? launch_layout<WeightLayout::kF16> : nullptr;
}

}  // namespace quire::cuda
