// Launches of kernels that want more shared memory than every kernel may have.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {

// launch_dependent() with `shared` bytes of dynamic shared memory, up to what a block can have. The
// limit is each device's own, so that it is raised every time; that costs no call to the driver.
template <typename... Args>
void launch_with_shared(void (*kernel)(Args...), dim3 grid, dim3 block, int shared,
                        CUstream_st* stream, std::type_identity_t<Args>... args) {
  static_cast<void>(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  launch_dependent(kernel, grid, block, static_cast<std::size_t>(shared), stream, args...);
}

// launch_dependent_clusters() so.
template <typename... Args>
void launch_clusters_with_shared(void (*kernel)(Args...), dim3 grid, dim3 block, unsigned cluster,
                                 int shared, CUstream_st* stream,
                                 std::type_identity_t<Args>... args) {
  static_cast<void>(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  launch_dependent_clusters(kernel, grid, block, cluster, static_cast<std::size_t>(shared), stream,
                            args...);
}

}  // namespace quire::cuda
