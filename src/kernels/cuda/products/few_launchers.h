// The launches of the kernels of products_few.h by layout, compiled in files of their own.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/few_args.h"
#include "kernels/weight_layout.h"

namespace quire::cuda {

using FewLauncher = void (*)(const Launch& launch, const FewArgs& args);

// Null for layouts that another file has.
FewLauncher few_dense_launcher(WeightLayout layout);
FewLauncher few_group_launcher(WeightLayout layout);
FewLauncher few_zero_launcher(WeightLayout layout);
FewLauncher few_codebook_launcher(WeightLayout layout);
FewLauncher few_block_launcher(WeightLayout layout);
FewLauncher few_grid_launcher(WeightLayout layout);
FewLauncher few_hqq_launcher(WeightLayout layout);
FewLauncher few_gptq_launcher(WeightLayout layout);

}  // namespace quire::cuda
