// An NVIDIA GPU as a device. Its kernels are an optional part of a build (QUIRE_CUDA=ON, kernels/
// cuda/); where they are not, what is here says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/device.h"
#include "kernels/op_table.h"
#include "kernels/sizing.h"

namespace quire {

struct CudaDeviceInfo {
  int index = 0;
  std::string name;
  int multiprocessors = 0;
  int compute_capability = 0;     // 90: 9.0
  std::uint64_t total_bytes = 0;  // of its memory
  std::uint64_t free_bytes = 0;   // of that, when it was asked
};

// What the kernels are compiled for: 9.0, Hopper.
inline constexpr int kCudaComputeCapability = 90;

// Whether this build has the kernels.
bool has_cuda_kernels();

// The GPUs that CUDA sees, whether the kernels run on them or not. kUnimplemented: this build has
// no kernels for them; kUnavailable: there is no driver, with what CUDA says of it.
Result<std::vector<CudaDeviceInfo>> cuda_devices();
// GPU `index`, on which the kernels run. Errors of cuda_devices(); kUnavailable: there is no such
// GPU; kUnimplemented: it has another compute capability.
Result<CudaDeviceInfo> find_cuda_device(int index);

// What a GPU can do at most, measured: medians, but for one.
struct CudaLimits {
  double best_read_bandwidth = 0;  // bytes a second from its memory
  double median_read_bandwidth = 0;
  double copy_bandwidth = 0;   // bytes that are read and written
  double bf16_flop_per_s = 0;  // of tensor cores, from registers and shared memory
  double launch_seconds = 0;   // from one kernel in a stream to the next
};
// `gpu`: of find_cuda_device(). Takes 2 GiB of its memory meanwhile. kResourceExhausted.
Result<CudaLimits> measure_cuda_limits(const CudaDeviceInfo& gpu);

// What a stream of such a device needs for itself.
StreamMemory cuda_stream_memory(const StreamLimits& limits, int multiprocessors,
                                int num_host_threads);

// `gpu`, of find_cuda_device(), with `num_host_threads` threads of the host that prepare data for
// it, and the kernels of `table` for what the host does to logits.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceInfo& gpu, int num_host_threads,
                                         const OpTable& table);

}  // namespace quire
