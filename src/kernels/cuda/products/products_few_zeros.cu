// Weights with zero points.
#include "kernels/cuda/products/few_launch.cuh"

namespace quire::cuda {

FewLauncher few_zero_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kUint4Zero32:
      return launch_few<WeightLayout::kUint4Zero32>;
    case WeightLayout::kUint4Zero64:
      return launch_few<WeightLayout::kUint4Zero64>;
    case WeightLayout::kUint4Zero128:
      return launch_few<WeightLayout::kUint4Zero128>;
    case WeightLayout::kUint4Scale32:
      return launch_few<WeightLayout::kUint4Scale32>;
    case WeightLayout::kUint4Scale64:
      return launch_few<WeightLayout::kUint4Scale64>;
    case WeightLayout::kUint4Scale128:
      return launch_few<WeightLayout::kUint4Scale128>;
    case WeightLayout::kInt8Zero32:
      return launch_few<WeightLayout::kInt8Zero32>;
    case WeightLayout::kInt8Zero64:
      return launch_few<WeightLayout::kInt8Zero64>;
    case WeightLayout::kInt8Zero128:
      return launch_few<WeightLayout::kInt8Zero128>;
    case WeightLayout::kInt8Scale32:
      return launch_few<WeightLayout::kInt8Scale32>;
    case WeightLayout::kInt8Scale64:
      return launch_few<WeightLayout::kInt8Scale64>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
