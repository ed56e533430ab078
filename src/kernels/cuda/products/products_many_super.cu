// Weights with two-fold scales.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_super_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kUint4Super:
      return launch_layout<WeightLayout::kUint4Super>;
    case WeightLayout::kUint5Super:
      return launch_layout<WeightLayout::kUint5Super>;
    case WeightLayout::kInt6Super:
      return launch_layout<WeightLayout::kInt6Super>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
