// Launches of the kernels of products_few.h.
#pragma once

#include "kernels/cuda/dynamic_shared.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/few_args.h"
#include "kernels/cuda/products/few_kernel.cuh"
#include "kernels/cuda/products/few_launchers.h"

namespace quire::cuda {

template <WeightLayout kLayout, int kTiles, int kPanels>
void launch_few_panels(const Launch& launch, const FewArgs& args) {
  const FewPlan& plan = args.plan;
  const auto kernel = few_kernel<kLayout, kTiles, kPanels>;
  const int blocks = plan.items < launch.multiprocessors ? plan.items : launch.multiprocessors;
  static_cast<void>(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.shared_bytes));
  launch_dependent(kernel, dim3(static_cast<unsigned>(blocks)), dim3(32 * (few_warps(kTiles) + 1)),
                   static_cast<std::size_t>(plan.shared_bytes), launch.stream, args);
}

template <WeightLayout kLayout, int kTiles>
void launch_few_tiles(const Launch& launch, const FewArgs& args) {
  if (args.plan.item_panels == 2) return launch_few_panels<kLayout, kTiles, 2>(launch, args);
  launch_few_panels<kLayout, kTiles, 1>(launch, args);
}

template <WeightLayout kLayout>
void launch_few(const Launch& launch, const FewArgs& args) {
  switch (args.tiles) {
    case 1:
      return launch_few_tiles<kLayout, 1>(launch, args);
    case 2:
      return launch_few_tiles<kLayout, 2>(launch, args);
    default:
      return launch_few_tiles<kLayout, 4>(launch, args);
  }
}

}  // namespace quire::cuda
