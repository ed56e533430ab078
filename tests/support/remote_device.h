// A device that is as unlike the CPU as one without hardware of its own can be: its memory cannot
// be read or written at the addresses that it hands out, and its ops run on a thread of its own,
// not before the stream is synchronized. What it computes is what the CPU does. So whatever forgets
// that memory is the device's ends in a segmentation fault, whatever hands the host's memory to an
// op ends the program with a message, and whatever looks at results, or changes what was staged,
// too early gets wrong results.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/compute_device.h"
#include "kernels/cpu_device.h"
#include "kernels/device.h"

namespace quire::test {

// One reservation, mapped twice: without any rights at the far addresses, which are handed out, and
// with all at the near ones, which only ops compute with.
class RemoteMemory {
 public:
  static Result<std::unique_ptr<RemoteMemory>> create();
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  // A far address of so many zeros, nullptr where the reservation is used up. Addresses are never
  // used again.
  std::byte* take(std::uint64_t bytes);
  void give_back(std::byte* far, std::uint64_t bytes);

  // Where a far address can be used; nullptr of nullptr. Ends the program for any other.
  template <typename T>
  T* near(T* far) const {
    if (far == nullptr) return nullptr;
    const auto at = reinterpret_cast<std::uintptr_t>(far);
    check(at);
    return reinterpret_cast<T*>(at - reinterpret_cast<std::uintptr_t>(far_) +
                                reinterpret_cast<std::uintptr_t>(near_));
  }

 private:
  RemoteMemory(std::byte* far, std::byte* near) : far_(far), near_(near) {}
  void check(std::uintptr_t address) const;

  std::byte* far_;
  std::byte* near_;
  std::mutex mutex_;
  std::uint64_t used_ = 0;
};

class RemoteDevice final : public Device {
 public:
  // `num_threads` and `table` of the CPU that computes.
  static Result<std::unique_ptr<Device>> create(int num_threads, const OpTable& table);

  std::string_view kind() const override { return "remote"; }
  Result<Buffer> allocate(std::uint64_t bytes) override;
  StreamMemory stream_memory(const StreamLimits& limits) const override {
    return home_.stream_memory(limits);
  }
  Result<std::unique_ptr<OpStream>> make_stream(const StreamLimits& limits) override;
  Result<PackedWeight> pack(std::span<const EncodedMatrix> parts,
                            const PackOptions& options) override {
    return home_.pack(parts, options);
  }
  Result<PackedWeight> adopt(PackedWeight packed) override;
  Result<DeviceFloats> upload(std::vector<float> values) override;
  void prefault(const Buffer& /*buffer*/) override {}
  ThreadPool& host_threads() override { return home_.host_threads(); }
  std::uint64_t progress() const override { return num_ops_; }

 private:
  RemoteDevice(std::unique_ptr<RemoteMemory> memory, int num_threads, const OpTable& table)
      : memory_(std::move(memory)), home_(num_threads, table) {}
  void release(std::byte* data, std::uint64_t bytes) override { memory_->give_back(data, bytes); }
  // The same bytes in this device's memory.
  Result<std::shared_ptr<const Buffer>> moved_in(std::span<const std::byte> bytes);

  std::unique_ptr<RemoteMemory> memory_;
  CpuDevice home_;
  std::atomic<std::uint64_t> num_ops_ = 0;
};

// One for an engine, whose plan is of this machine's memory.
inline ComputeDevice remote_compute_device() {
  return {.gpu = std::nullopt,
          .memory = read_memory_limits(),
          .host = std::nullopt,
          .make = [](IsaLevel level, int threads) {
            return RemoteDevice::create(threads, op_table(level));
          }};
}

// The same with a plan that tells its memory from the machine's, whose processor may have a part of
// the model.
inline ComputeDevice remote_beside_processor() {
  ComputeDevice device = remote_compute_device();
  device.host = device.memory;
  device.memory.gpu = "a remote device";
  return device;
}

}  // namespace quire::test
