#include "engine/compute_device.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/printable.h"
#include "kernels/cpu_device.h"

namespace quire {
namespace {

constexpr std::string_view kCuda = "cuda";

ComputeDevice processor() {
  return {.gpu = std::nullopt,
          .memory = read_memory_limits(),
          .host = std::nullopt,
          .make = [](IsaLevel level, int num_threads) -> Result<std::unique_ptr<Device>> {
            return make_processor(level, num_threads);
          }};
}

ComputeDevice graphics_processor(const CudaDeviceInfo& gpu) {
  return {.gpu = gpu,
          .memory = {.total = gpu.total_bytes, .available = gpu.free_bytes, .gpu = gpu.name},
          .host = read_memory_limits(),
          .make = [gpu](IsaLevel level, int num_threads) -> Result<std::unique_ptr<Device>> {
            return make_cuda_device(gpu, num_threads, op_table(level));
          }};
}

// Of "cuda" and "cuda:N"; nullopt of everything else.
std::optional<int> gpu_index(std::string_view name) {
  if (!name.starts_with(kCuda)) return std::nullopt;
  name.remove_prefix(kCuda.size());
  if (name.empty()) return 0;
  if (name.front() != ':') return std::nullopt;
  name.remove_prefix(1);
  int index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && index >= 0 ? std::optional(index) : std::nullopt;
}

}  // namespace

StreamMemory ComputeDevice::stream_memory(const StreamLimits& limits, int num_threads) const {
  return gpu ? cuda_stream_memory(limits, gpu->multiprocessors, num_threads)
             : cpu_stream_memory(limits, num_threads);
}

std::string ComputeDevice::level_name(IsaLevel level) const {
  return gpu ? fmt::format("cuda sm_{}a", kCudaComputeCapability)
             : std::string(isa_level_name(level));
}

void log_gpu_memory(const ComputeDevice& device, std::uint64_t planned_bytes) {
  if (!device.gpu) return;
  const auto gpus = cuda_devices();
  if (!gpus.ok()) return;
  const std::uint64_t free_now = (*gpus)[static_cast<std::size_t>(device.gpu->index)].free_bytes;
  const auto mebibytes = [](std::uint64_t bytes) {
    return static_cast<double>(bytes) / (std::uint64_t{1} << 20);
  };
  log_info("{}: {:.1f} MiB of its memory planned, {:.1f} MiB taken", device.gpu->name,
           mebibytes(planned_bytes), mebibytes(device.gpu->free_bytes - free_now));
}

Status check_device_name(std::string_view name) {
  if (name == "auto" || name == "cpu" || gpu_index(name)) return {};
  return Status::invalid_argument(fmt::format("--device {}: no such device", printable(name)),
                                  "use auto, cpu, cuda or cuda:N");
}

std::unique_ptr<Device> make_processor(IsaLevel level, int num_threads) {
  return std::make_unique<CpuDevice>(num_threads, op_table(level));
}

Result<ComputeDevice> choose_device(std::string_view name,
                                    std::optional<std::int32_t> n_gpu_layers) {
  QUIRE_RETURN_IF_ERROR(check_device_name(name));
  if (name == "cpu" || n_gpu_layers == 0 || (name == "auto" && !has_cuda_kernels()))
    return processor();
  if (name != "auto") {
    QUIRE_ASSIGN_OR_RETURN(const CudaDeviceInfo gpu, find_cuda_device(*gpu_index(name)));
    return graphics_processor(gpu);
  }
  const auto gpus = cuda_devices();
  if (!gpus.ok()) return processor();
  for (const CudaDeviceInfo& gpu : *gpus) {
    if (gpu.compute_capability == kCudaComputeCapability) return graphics_processor(gpu);
  }
  return processor();
}

}  // namespace quire
