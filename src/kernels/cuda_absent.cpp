// What a build without CUDA kernels says of GPUs.
#include "kernels/cuda_device.h"

namespace quire {
namespace {

Status absent() {
  return Status::unimplemented("this build has no CUDA kernels",
                               "build with -DQUIRE_CUDA=ON (docs/cuda.md), or use --device cpu");
}

}  // namespace

bool has_cuda_kernels() { return false; }

Result<CudaDeviceInfo> find_cuda_device(int /*index*/) { return absent(); }

Result<std::vector<CudaDeviceInfo>> cuda_devices() { return absent(); }

Result<CudaLimits> measure_cuda_limits(const CudaDeviceInfo& /*gpu*/) { return absent(); }

StreamMemory cuda_stream_memory(const StreamLimits& /*limits*/, int /*multiprocessors*/,
                                int /*num_host_threads*/) {
  return {};
}

// There is no such GPU that it could be called with.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceInfo& /*gpu*/, int /*num_host_threads*/,
                                         const OpTable& /*table*/) {
  return nullptr;
}

}  // namespace quire
