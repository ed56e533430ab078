// The GPU as a device, and what the host knows of GPUs.
#include <atomic>
#include <cuda_runtime_api.h>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/errors.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/piece_graphs.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda_device.h"
#include "kernels/sampling/sample_rows.h"
#include "tensor/thread_pool.h"

namespace quire {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaDeviceInfo& info, int num_host_threads, const OpTable& table)
      : info_(info), memory_(info.index), pool_(num_host_threads), table_(table) {}

  std::string_view kind() const override { return "cuda"; }

  Result<Buffer> allocate(std::uint64_t bytes) override {
    if (bytes == 0) return Buffer();
    QUIRE_ASSIGN_OR_RETURN(std::byte* const data, memory_.take(bytes));
    return Buffer(*this, data, bytes);
  }

  StreamMemory stream_memory(const StreamLimits& limits) const override {
    return cuda_stream_memory(limits, info_.multiprocessors, pool_.num_threads());
  }
  Result<std::unique_ptr<OpStream>> make_stream(const StreamLimits& limits) override {
    return cuda::make_stream({.device_index = info_.index,
                              .multiprocessors = info_.multiprocessors,
                              .threads = &pool_,
                              .table = &table_,
                              .progress = &num_ops_},
                             *this, limits);
  }

  Result<PackedWeight> pack(std::span<const EncodedMatrix> parts,
                            const PackOptions& options) override {
    return PackedWeight::pack(pool_, parts.data(), static_cast<int>(parts.size()), options);
  }
  Result<PackedWeight> adopt(PackedWeight packed) override {
    QUIRE_ASSIGN_OR_RETURN(auto buffer, moved_in(std::as_bytes(packed.bytes())));
    const auto* const data = reinterpret_cast<const std::uint8_t*>(buffer->data());
    return PackedWeight::view(packed.layout(), packed.outputs(), packed.inputs(),
                              {data, packed.bytes().size()}, buffer);
  }
  Result<DeviceFloats> upload(std::vector<float> values) override {
    if (values.empty()) return DeviceFloats();
    QUIRE_ASSIGN_OR_RETURN(auto buffer, moved_in(std::as_bytes(std::span(values))));
    return DeviceFloats(reinterpret_cast<const float*>(buffer->data()), std::ssize(values), buffer);
  }

  void prefault(const Buffer& /*buffer*/) override {}  // allocated memory is there
  ThreadPool& host_threads() override { return pool_; }
  std::uint64_t progress() const override { return num_ops_; }

 private:
  void release(std::byte* data, std::uint64_t /*bytes*/) override { memory_.give_back(data); }

  // The same bytes in the GPU's memory.
  Result<std::shared_ptr<const Buffer>> moved_in(std::span<const std::byte> bytes) {
    QUIRE_ASSIGN_OR_RETURN(Buffer buffer, allocate(bytes.size()));
    QUIRE_RETURN_IF_ERROR(cuda::to_status(
        cudaMemcpy(buffer.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
        "copy weights to the GPU"));
    return std::make_shared<const Buffer>(std::move(buffer));
  }

  CudaDeviceInfo info_;
  cuda::Memory memory_;
  ThreadPool pool_;
  const OpTable& table_;
  std::atomic<std::uint64_t> num_ops_ = 0;
};

Result<CudaDeviceInfo> read_info(int index) {
  cudaDeviceProp properties;
  QUIRE_RETURN_IF_ERROR(
      cuda::to_status(cudaGetDeviceProperties(&properties, index), "look at the GPU"));
  CudaDeviceInfo info = {.index = index,
                         .name = properties.name,
                         .multiprocessors = properties.multiProcessorCount,
                         .compute_capability = 10 * properties.major + properties.minor};
  QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaSetDevice(index), "use the GPU"));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  QUIRE_RETURN_IF_ERROR(
      cuda::to_status(cudaMemGetInfo(&free_bytes, &total_bytes), "look at the GPU's memory"));
  info.total_bytes = total_bytes;
  info.free_bytes = free_bytes;
  return info;
}

}  // namespace

bool has_cuda_kernels() { return true; }

Result<std::vector<CudaDeviceInfo>> cuda_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) return std::vector<CudaDeviceInfo>();
  QUIRE_RETURN_IF_ERROR(cuda::to_status(error, "look for GPUs"));
  std::vector<CudaDeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(devices.emplace_back(), read_info(i));
  }
  return devices;
}

Result<CudaDeviceInfo> find_cuda_device(int index) {
  QUIRE_ASSIGN_OR_RETURN(const auto devices, cuda_devices());
  if (index < 0 || index >= std::ssize(devices)) {
    return Status::unavailable(
        fmt::format("there is no GPU {}: CUDA sees {}", index, devices.size()),
        "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use --device cpu");
  }
  const CudaDeviceInfo& gpu = devices[static_cast<std::size_t>(index)];
  if (gpu.compute_capability != kCudaComputeCapability) {
    return Status::unimplemented(
        fmt::format("{} has compute capability {}.{}; the kernels are for 9.0", gpu.name,
                    gpu.compute_capability / 10, gpu.compute_capability % 10),
        "use --device cpu");
  }
  return gpu;
}

StreamMemory cuda_stream_memory(const StreamLimits& limits, int multiprocessors,
                                int num_host_threads) {
  return {.workspace = cuda::workspace_bytes(limits, multiprocessors) + cuda::staged_bytes(limits) +
                       cuda::PieceGraphs::bytes(),
          .sampling =
              SamplingScratch::bytes(limits.vocab_size, limits.max_sampled_rows, num_host_threads),
          .downloads = limits.downloaded_bytes};
}

std::unique_ptr<Device> make_cuda_device(const CudaDeviceInfo& gpu, int num_host_threads,
                                         const OpTable& table) {
  return std::make_unique<CudaDevice>(gpu, num_host_threads, table);
}

}  // namespace quire
