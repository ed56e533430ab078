// Weights of GGUF files and of quantization at load.
#include "kernels/cuda/products/few_launch.cuh"

namespace quire::cuda {

FewLauncher few_group_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kInt8:
      return launch_few<WeightLayout::kInt8>;
    case WeightLayout::kInt4:
      return launch_few<WeightLayout::kInt4>;
    case WeightLayout::kInt5:
      return launch_few<WeightLayout::kInt5>;
    case WeightLayout::kUint4:
      return launch_few<WeightLayout::kUint4>;
    case WeightLayout::kUint5:
      return launch_few<WeightLayout::kUint5>;
    case WeightLayout::kUint4Super:
      return launch_few<WeightLayout::kUint4Super>;
    case WeightLayout::kUint5Super:
      return launch_few<WeightLayout::kUint5Super>;
    case WeightLayout::kInt6Super:
      return launch_few<WeightLayout::kInt6Super>;
    case WeightLayout::kInt4Group128:
      return launch_few<WeightLayout::kInt4Group128>;
    case WeightLayout::kF8Block128:
      return launch_few<WeightLayout::kF8Block128>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
