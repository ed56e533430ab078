#include "kernels/cuda/errors.h"

#include <fmt/format.h>

namespace quire::cuda {

Status to_status(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return {};
  const std::string message = fmt::format("CUDA cannot {}: {} ({})", doing,
                                          cudaGetErrorString(error), cudaGetErrorName(error));
  switch (error) {
    case cudaErrorMemoryAllocation:
      return Status::resource_exhausted(
          message, "lower --gpu-memory-utilization, --kv-cache-memory-bytes or --max-num-seqs");
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
      return Status::unavailable(message, "check `nvidia-smi`, or use --device cpu");
    default:
      return Status::internal(message);
  }
}

}  // namespace quire::cuda
