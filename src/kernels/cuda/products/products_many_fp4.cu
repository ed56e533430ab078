// FP4 weights.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_fp4_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kFP4Span64:
      return launch_layout<WeightLayout::kFP4Span64>;
    case WeightLayout::kFP4Span128:
      return launch_layout<WeightLayout::kFP4Span128>;
    case WeightLayout::kFP4Span256:
      return launch_layout<WeightLayout::kFP4Span256>;
    case WeightLayout::kFP4Nested64:
      return launch_layout<WeightLayout::kFP4Nested64>;
    case WeightLayout::kFP4Nested128:
      return launch_layout<WeightLayout::kFP4Nested128>;
    case WeightLayout::kFP4Nested256:
      return launch_layout<WeightLayout::kFP4Nested256>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
