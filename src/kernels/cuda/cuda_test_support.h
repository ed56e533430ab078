// The same op on a GPU and on the CPU by definition, for tests that compare them. Skips a test
// where there is no GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu_device.h"
#include "kernels/cuda_device.h"
#include "kernels/device.h"
#include "kernels/op_table.h"
#include "tensor/buffer.h"

namespace quire {

// An array in a device's memory.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(Device& device, OpStream& ops, std::span<const T> values)
      : buffer_(device.allocate(values.size_bytes() + 1).value()), size_(values.size()) {
    ops.copy(reinterpret_cast<const std::byte*>(ops.stage(values)), values.size_bytes(),
             buffer_.data());
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::vector<T> read(OpStream& ops) const {
    std::vector<T> values(size_);
    ops.download(data(), static_cast<std::int64_t>(size_), values.data());
    const Status status = ops.synchronize();
    EXPECT_TRUE(status.ok()) << status.to_string();
    return values;
  }

 private:
  Buffer buffer_;
  std::size_t size_;
};

// A device with a stream. `array()` copies values there; results are read from it.
struct DeviceUnderTest {
  std::unique_ptr<Device> device;
  std::unique_ptr<OpStream> ops;

  template <typename T>
  DeviceArray<T> array(const std::vector<T>& values) {
    return DeviceArray<T>(*device, *ops, std::span<const T>(values));
  }
  // A matrix of this encoding in the device's memory.
  PackedWeight weight(const EncodedMatrix& matrix, const PackOptions& options = {}) {
    auto packed = device->pack({&matrix, 1}, options);
    EXPECT_TRUE(packed.ok()) << packed.status().to_string();
    return device->adopt(std::move(*packed)).value();
  }
};

// Both devices in every test.
class CudaOps : public ::testing::Test {
 protected:
  // Enough for what tests compute.
  static StreamLimits limits() {
    return {.max_rows = 1024,
            .max_inputs = 16384,
            .attention = {.head_dim = 576,
                          .heads_per_kv_head = 128,
                          .max_seq_len = 8192,
                          .num_kv_heads = 32,
                          .max_num_seqs = 64},
            .vocab_size = 40000,
            .max_sampled_rows = 64,
            .experts = {.num_experts = 128,
                        .experts_per_row = 8,
                        .hidden_size = 2048,
                        .intermediate_size = 1024},
            .head_products = {.num_heads = 128, .max_inputs = 512}};
  }

  void SetUp() override {
    const auto info = find_cuda_device(0);
    const StatusCode code = info.status().code();
    if (code == StatusCode::kUnavailable || code == StatusCode::kUnimplemented) {
      GTEST_SKIP() << info.status().to_string();
    }
    // An error that a test before has left, too.
    ASSERT_TRUE(info.ok()) << info.status().to_string();
    const OpTable& table = op_table(IsaLevel::kRef);
    gpu.device = make_cuda_device(info.value(), 2, table);
    // What tests allocate comes from one mapping: compute-sanitizer takes a read across the seam of
    // two for one out of bounds.
    const Result<Buffer> room = gpu.device->allocate(std::uint64_t{1} << 30);
    keeps_the_mapping_ = gpu.device->allocate(1).value();
    gpu.ops = gpu.device->make_stream(limits()).value();
    gpu.ops->begin_step();
    cpu.device = std::make_unique<CpuDevice>(2, table);
    cpu.ops = cpu.device->make_stream(limits()).value();
  }

  // Normal numbers times `spread`.
  std::vector<float> numbers(std::int64_t count, float spread = 1.0F) {
    std::normal_distribution<float> normal(0.0F, spread);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(generator);
    return values;
  }

  // Calls run(device under test), which returns a vector of floats, for both, and compares.
  template <typename F>
  void expect_alike(const F& run, float relative, float absolute) {
    const std::vector<float> expected = run(cpu);
    const std::vector<float> actual = run(gpu);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], absolute + relative * std::abs(expected[i]))
          << "number " << i;
    }
  }

  DeviceUnderTest gpu;
  DeviceUnderTest cpu;
  std::mt19937 generator{20240607};

 private:
  Buffer keeps_the_mapping_;
};

}  // namespace quire
