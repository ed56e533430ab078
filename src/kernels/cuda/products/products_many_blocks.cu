// Compact blocks of K encodings, and of four bits and fewer without grids.
#include "kernels/cuda/products/many_launch.cuh"

namespace quire::cuda {

ManyLauncher many_block_launcher(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kBlocksQ2_K:
      return launch_layout<WeightLayout::kBlocksQ2_K>;
    case WeightLayout::kBlocksQ3_K:
      return launch_layout<WeightLayout::kBlocksQ3_K>;
    case WeightLayout::kBlocksQ8_K:
      return launch_layout<WeightLayout::kBlocksQ8_K>;
    case WeightLayout::kBlocksIQ4_NL:
      return launch_layout<WeightLayout::kBlocksIQ4_NL>;
    case WeightLayout::kBlocksIQ4_XS:
      return launch_layout<WeightLayout::kBlocksIQ4_XS>;
    case WeightLayout::kBlocksMXFP4:
      return launch_layout<WeightLayout::kBlocksMXFP4>;
    case WeightLayout::kBlocksNVFP4:
      return launch_layout<WeightLayout::kBlocksNVFP4>;
    case WeightLayout::kBlocksNVFP4Scaled:
      return launch_layout<WeightLayout::kBlocksNVFP4Scaled>;
    case WeightLayout::kBlocksTQ1_0:
      return launch_layout<WeightLayout::kBlocksTQ1_0>;
    case WeightLayout::kBlocksTQ2_0:
      return launch_layout<WeightLayout::kBlocksTQ2_0>;
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
