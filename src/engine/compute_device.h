// What an engine computes on, chosen before anything is loaded: --device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/cuda_device.h"
#include "kernels/device.h"
#include "kernels/op_table.h"
#include "kernels/sizing.h"
#include "plan/memory_limits.h"

namespace quire {

// Makes the device that an engine computes on, with kernels of this level where they are the
// processor's.
using MakeDevice = std::function<Result<std::unique_ptr<Device>>(IsaLevel level, int num_threads)>;

struct ComputeDevice {
  std::optional<CudaDeviceInfo> gpu;  // nullopt: the processor
  MemoryLimits memory;                // of what computes
  // Of the machine, whose processor may compute a part of a model beside it; nullopt: it is this
  // processor that computes.
  std::optional<MemoryLimits> host;
  MakeDevice make;

  // What a stream of it needs for itself; `num_threads`: of the host.
  StreamMemory stream_memory(const StreamLimits& limits, int num_threads) const;
  // Whose kernels compute: "avx512", "cuda sm_90a".
  std::string level_name(IsaLevel level) const;
};

// "cpu"; "cuda" or "cuda:N", GPU N; "auto": the first GPU that the build's kernels run on, where
// there is one, else the processor. That as well where no layer is a GPU's (`n_gpu_layers` 0).
// kInvalidArgument for another name; errors of cuda_devices() where a GPU is asked for.
Result<ComputeDevice> choose_device(std::string_view name,
                                    std::optional<std::int32_t> n_gpu_layers = {});

// The processor as a device.
std::unique_ptr<Device> make_processor(IsaLevel level, int num_threads);

// Tells the log what has been taken of a GPU's memory since it was chosen, beside what was planned;
// nothing where the processor computes.
void log_gpu_memory(const ComputeDevice& device, std::uint64_t planned_bytes);

// Whether it is such a name.
Status check_device_name(std::string_view name);

}  // namespace quire
