// Weights with a scale for 128 inputs.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_span_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kInt4Group128:
      return launch_layout<WeightLayout::kInt4Group128>;
    case WeightLayout::kF8Block128:
      return launch_layout<WeightLayout::kF8Block128>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
