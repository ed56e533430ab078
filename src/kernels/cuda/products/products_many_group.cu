// Weights with a scale for each group of 32 inputs.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_group_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kInt8:
      return launch_layout<WeightLayout::kInt8>;
    case WeightLayout::kInt4:
      return launch_layout<WeightLayout::kInt4>;
    case WeightLayout::kInt5:
      return launch_layout<WeightLayout::kInt5>;
    case WeightLayout::kUint4:
      return launch_layout<WeightLayout::kUint4>;
    case WeightLayout::kUint5:
      return launch_layout<WeightLayout::kUint5>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
