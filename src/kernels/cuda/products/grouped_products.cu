#include "kernels/cuda/products/grouped_kernel.cuh"
#include "kernels/cuda/products/grouped_products.h"

namespace quire::cuda {
namespace {

void launch_tiles(const Launch& launch, WeightLayout layout, const GroupedKernelArgs& args) {
  if (args.product.tile_rows == kWideTileRows) {
    launch_grouped_wide(launch, layout, args);
  } else {
    launch_grouped_few(launch, layout, args);
  }
}

}  // namespace

void grouped_product(const Launch& launch, WeightLayout layout, const GroupedArgs& args,
                     const GroupedInputs& inputs) {
  launch_tiles(launch, layout, {.product = args, .inputs = inputs});
}

void grouped_gated_product(const Launch& launch, WeightLayout layout, const GroupedArgs& args,
                           const GroupedInputs& inputs, const GateFunction& function,
                           const RoundedOutputs& outputs) {
  launch_tiles(launch, layout,
               {.product = args,
                .inputs = inputs,
                .is_gated = true,
                .function = function,
                .rounded = outputs});
}

}  // namespace quire::cuda
