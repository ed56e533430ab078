// Weights of 16 bits, and those whose rows have one scale.
#include "kernels/cuda/products/few_launch.cuh"

namespace quire::cuda {

FewLauncher few_dense_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kF16:
      return launch_few<WeightLayout::kF16>;
    case WeightLayout::kBF16:
      return launch_few<WeightLayout::kBF16>;
    case WeightLayout::kInt8Row:
      return launch_few<WeightLayout::kInt8Row>;
    case WeightLayout::kF8Row:
      return launch_few<WeightLayout::kF8Row>;
    case WeightLayout::kUint4ZeroRow:
      return launch_few<WeightLayout::kUint4ZeroRow>;
    case WeightLayout::kInt8ZeroRow:
      return launch_few<WeightLayout::kInt8ZeroRow>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
