// The CPU as a device: the host's memory, a pool of threads, and the kernels of one instruction-set
// level. Ops have run when their call returns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/op_table.h"
#include "tensor/thread_pool.h"

namespace quire {

class CpuDevice final : public Device {
 public:
  // `num_threads` as ThreadPool has it.
  CpuDevice(int num_threads, const OpTable& table) : pool_(num_threads), table_(table) {}

  std::string_view kind() const override { return "cpu"; }
  Result<Buffer> allocate(std::uint64_t bytes) override { return Buffer::allocate(bytes); }
  StreamMemory stream_memory(const StreamLimits& limits) const override {
    return cpu_stream_memory(limits, pool_.num_threads());
  }
  Result<std::unique_ptr<OpStream>> make_stream(const StreamLimits& limits) override;
  Result<PackedWeight> pack(std::span<const EncodedMatrix> parts,
                            const PackOptions& options) override {
    return PackedWeight::pack(pool_, parts.data(), static_cast<int>(parts.size()), options);
  }
  Result<PackedWeight> adopt(PackedWeight packed) override { return packed; }
  Result<DeviceFloats> upload(std::vector<float> values) override {
    return DeviceFloats::of_host(std::move(values));
  }
  void prefault(const Buffer& buffer) override { quire::prefault(buffer.bytes(), pool_); }
  ThreadPool& host_threads() override { return pool_; }
  std::uint64_t progress() const override { return pool_.num_regions(); }

 private:
  void release(std::byte* /*data*/, std::uint64_t /*bytes*/) override {}  // buffers are the host's

  ThreadPool pool_;
  const OpTable& table_;
};

}  // namespace quire
