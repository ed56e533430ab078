// What launchers of CUDA kernels have in common. Their headers name no type of CUDA's, so that code
// without its headers may include them; launchers are defined in *.cu files beside them.
//
// A launcher enqueues kernels and returns; it checks no errors: whoever synchronizes the stream
// sees them. Its pointers are into the device's memory where they are not said to be the host's.
// Kernels have no atomics on floats and no order that depends on what else runs: an op's results
// depend on its arguments alone, and a row's on that row alone, whatever the number of rows.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace quire::cuda {

struct Launch {
  CUstream_st* stream = nullptr;
  int multiprocessors = 1;
  // Scratch of the op, aligned to 256: free again when its last kernel is done, which the order of
  // the stream ensures.
  std::byte* workspace = nullptr;
  std::uint64_t workspace_bytes = 0;
};

}  // namespace quire::cuda
