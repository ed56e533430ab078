// Weights with a scale for each output.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_row_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kInt8Row:
      return launch_layout<WeightLayout::kInt8Row>;
    case WeightLayout::kF8Row:
      return launch_layout<WeightLayout::kF8Row>;
    case WeightLayout::kUint4ZeroRow:
      return launch_layout<WeightLayout::kUint4ZeroRow>;
    case WeightLayout::kInt8ZeroRow:
      return launch_layout<WeightLayout::kInt8ZeroRow>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
