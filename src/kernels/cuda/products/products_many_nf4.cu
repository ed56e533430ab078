// NF4 weights.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_nf4_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kNF4Span64:
      return launch_layout<WeightLayout::kNF4Span64>;
    case WeightLayout::kNF4Span128:
      return launch_layout<WeightLayout::kNF4Span128>;
    case WeightLayout::kNF4Span256:
      return launch_layout<WeightLayout::kNF4Span256>;
    case WeightLayout::kNF4Nested64:
      return launch_layout<WeightLayout::kNF4Nested64>;
    case WeightLayout::kNF4Nested128:
      return launch_layout<WeightLayout::kNF4Nested128>;
    case WeightLayout::kNF4Nested256:
      return launch_layout<WeightLayout::kNF4Nested256>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
