// Programmatic dependent launch (CUDA C++ Programming Guide): the blocks of a kernel may start
// while the kernel before it in the stream still runs, which hides the cost of launching it.
//
// A kernel launched so calls wait_for_previous() before it touches anything that kernels before it
// write, or reads what it will overwrite for them; what never changes, such as weights, may be
// fetched earlier. Every thread that touches such memory calls it. As each kernel waits for the one
// before it to be done, all earlier ones are done as well.
#pragma once

#include <cstddef>
#include <cuda_runtime.h>
#include <type_traits>

namespace quire::cuda {

template <typename... Args>
void launch_dependent(void (*kernel)(Args...), dim3 grid, dim3 block, std::size_t shared,
                      CUstream_st* stream, std::type_identity_t<Args>... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  // An error stays until whoever synchronizes the stream asks for it.
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, args...));
}

// The same with clusters of `cluster` blocks along x, which divide the grid.
template <typename... Args>
void launch_dependent_clusters(void (*kernel)(Args...), dim3 grid, dim3 block, unsigned cluster,
                               std::size_t shared, CUstream_st* stream,
                               std::type_identity_t<Args>... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, args...));
}

// Until the kernels before this one are done and what they wrote is seen.
__device__ inline void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The next kernel's blocks may start, once all blocks of this one have called it or ended. They
// take no room that a block of this one still needs, so that it is best called first of all.
__device__ inline void let_next_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace quire::cuda
