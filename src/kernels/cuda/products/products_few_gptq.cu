// GPTQ's blocks.
#include "kernels/cuda/products/few_launch.cuh"
#include "kernels/cuda/products/hqq_codes.cuh"

namespace quire::cuda {

FewLauncher few_gptq_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kBlocksGptq2Span32:
      return launch_few<WeightLayout::kBlocksGptq2Span32>;
    case WeightLayout::kBlocksGptq2Span64:
      return launch_few<WeightLayout::kBlocksGptq2Span64>;
    case WeightLayout::kBlocksGptq2Span128:
      return launch_few<WeightLayout::kBlocksGptq2Span128>;
    case WeightLayout::kBlocksGptq2Span256:
      return launch_few<WeightLayout::kBlocksGptq2Span256>;
    case WeightLayout::kBlocksGptq3Span32:
      return launch_few<WeightLayout::kBlocksGptq3Span32>;
    case WeightLayout::kBlocksGptq3Span64:
      return launch_few<WeightLayout::kBlocksGptq3Span64>;
    case WeightLayout::kBlocksGptq3Span128:
      return launch_few<WeightLayout::kBlocksGptq3Span128>;
    case WeightLayout::kBlocksGptq3Span256:
      return launch_few<WeightLayout::kBlocksGptq3Span256>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
