// Weights with zero points.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_zero_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kUint4Zero32:
      return launch_layout<WeightLayout::kUint4Zero32>;
    case WeightLayout::kUint4Zero64:
      return launch_layout<WeightLayout::kUint4Zero64>;
    case WeightLayout::kUint4Zero128:
      return launch_layout<WeightLayout::kUint4Zero128>;
    case WeightLayout::kUint4Scale32:
      return launch_layout<WeightLayout::kUint4Scale32>;
    case WeightLayout::kUint4Scale64:
      return launch_layout<WeightLayout::kUint4Scale64>;
    case WeightLayout::kUint4Scale128:
      return launch_layout<WeightLayout::kUint4Scale128>;
    case WeightLayout::kInt8Zero32:
      return launch_layout<WeightLayout::kInt8Zero32>;
    case WeightLayout::kInt8Zero64:
      return launch_layout<WeightLayout::kInt8Zero64>;
    case WeightLayout::kInt8Zero128:
      return launch_layout<WeightLayout::kInt8Zero128>;
    case WeightLayout::kInt8Scale32:
      return launch_layout<WeightLayout::kInt8Scale32>;
    case WeightLayout::kInt8Scale64:
      return launch_layout<WeightLayout::kInt8Scale64>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
