// HQQ's blocks.
#include "kernels/cuda/products/few_launch.cuh"
#include "kernels/cuda/products/hqq_codes.cuh"

namespace quire::cuda {

FewLauncher few_hqq_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kBlocksHqq2Span32:
      return launch_few<WeightLayout::kBlocksHqq2Span32>;
    case WeightLayout::kBlocksHqq2Span64:
      return launch_few<WeightLayout::kBlocksHqq2Span64>;
    case WeightLayout::kBlocksHqq2Span128:
      return launch_few<WeightLayout::kBlocksHqq2Span128>;
    case WeightLayout::kBlocksHqq2Span256:
      return launch_few<WeightLayout::kBlocksHqq2Span256>;
    case WeightLayout::kBlocksHqq3Span32:
      return launch_few<WeightLayout::kBlocksHqq3Span32>;
    case WeightLayout::kBlocksHqq3Span64:
      return launch_few<WeightLayout::kBlocksHqq3Span64>;
    case WeightLayout::kBlocksHqq3Span128:
      return launch_few<WeightLayout::kBlocksHqq3Span128>;
    case WeightLayout::kBlocksHqq4Span32:
      return launch_few<WeightLayout::kBlocksHqq4Span32>;
    case WeightLayout::kBlocksHqq4Span64:
      return launch_few<WeightLayout::kBlocksHqq4Span64>;
    case WeightLayout::kBlocksHqq4Span128:
      return launch_few<WeightLayout::kBlocksHqq4Span128>;
    case WeightLayout::kBlocksHqq4Span256:
      return launch_few<WeightLayout::kBlocksHqq4Span256>;
    case WeightLayout::kBlocksHqq8Span32:
      return launch_few<WeightLayout::kBlocksHqq8Span32>;
    case WeightLayout::kBlocksHqq8Span64:
      return launch_few<WeightLayout::kBlocksHqq8Span64>;
    case WeightLayout::kBlocksHqq8Span128:
      return launch_few<WeightLayout::kBlocksHqq8Span128>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
