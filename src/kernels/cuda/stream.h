// The ops of a GPU, in the order of a CUDA stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/device.h"
#include "kernels/op_table.h"
#include "tensor/thread_pool.h"

namespace quire::cuda {

// What a stream borrows of its device.
struct StreamHost {
  int device_index = 0;
  int multiprocessors = 1;
  ThreadPool* threads = nullptr;  // of the host, for logits that it looks at
  const OpTable* table = nullptr;
  std::atomic<std::uint64_t>* progress = nullptr;  // counts ops
};

// Scratch of the ops of a step, and what its first piece of staged inputs takes; both in the GPU's
// memory.
std::uint64_t workspace_bytes(const StreamLimits& limits, int multiprocessors);
std::uint64_t staged_bytes(const StreamLimits& limits);

// `memory`: of the GPU. kResourceExhausted.
Result<std::unique_ptr<OpStream>> make_stream(const StreamHost& host, DeviceMemory& memory,
                                              const StreamLimits& limits);

}  // namespace quire::cuda
