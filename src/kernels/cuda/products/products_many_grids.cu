// Compact blocks of grid encodings.
#include "kernels/cuda/products/grid_codes.cuh"
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_grid_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kBlocksIQ2_XXS:
      return launch_layout<WeightLayout::kBlocksIQ2_XXS>;
    case WeightLayout::kBlocksIQ2_XS:
      return launch_layout<WeightLayout::kBlocksIQ2_XS>;
    case WeightLayout::kBlocksIQ2_S:
      return launch_layout<WeightLayout::kBlocksIQ2_S>;
    case WeightLayout::kBlocksIQ3_XXS:
      return launch_layout<WeightLayout::kBlocksIQ3_XXS>;
    case WeightLayout::kBlocksIQ3_S:
      return launch_layout<WeightLayout::kBlocksIQ3_S>;
    case WeightLayout::kBlocksIQ1_S:
      return launch_layout<WeightLayout::kBlocksIQ1_S>;
    case WeightLayout::kBlocksIQ1_M:
      return launch_layout<WeightLayout::kBlocksIQ1_M>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
