// Where the memory of a device comes from. The ops that run on it are in kernels/device.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace quire {

class Buffer;

// Addresses in a device's memory are for its ops alone: whoever is not the device computes with
// them and never reads or writes through them, also where a device's memory happens to be the
// host's. Must outlive its buffers.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Zeros, aligned to at least 4096 bytes. kResourceExhausted where the device has no room.
  virtual Result<Buffer> allocate(std::uint64_t bytes) = 0;

 private:
  friend class Buffer;
  // Takes back what allocate() gave.
  virtual void release(std::byte* data, std::uint64_t bytes) = 0;
};

}  // namespace quire
