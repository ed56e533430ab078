// Weights of codebooks.
#include "kernels/cuda/products/few_launch.cuh"

namespace quire::cuda {

FewLauncher few_codebook_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kNF4Span64:
      return launch_few<WeightLayout::kNF4Span64>;
    case WeightLayout::kNF4Span128:
      return launch_few<WeightLayout::kNF4Span128>;
    case WeightLayout::kNF4Span256:
      return launch_few<WeightLayout::kNF4Span256>;
    case WeightLayout::kNF4Nested64:
      return launch_few<WeightLayout::kNF4Nested64>;
    case WeightLayout::kNF4Nested128:
      return launch_few<WeightLayout::kNF4Nested128>;
    case WeightLayout::kNF4Nested256:
      return launch_few<WeightLayout::kNF4Nested256>;
    case WeightLayout::kFP4Span64:
      return launch_few<WeightLayout::kFP4Span64>;
    case WeightLayout::kFP4Span128:
      return launch_few<WeightLayout::kFP4Span128>;
    case WeightLayout::kFP4Span256:
      return launch_few<WeightLayout::kFP4Span256>;
    case WeightLayout::kFP4Nested64:
      return launch_few<WeightLayout::kFP4Nested64>;
    case WeightLayout::kFP4Nested128:
      return launch_few<WeightLayout::kFP4Nested128>;
    case WeightLayout::kFP4Nested256:
      return launch_few<WeightLayout::kFP4Nested256>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
