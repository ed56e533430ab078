// The seam between a model and the device that it runs on: with a device whose memory the host
// cannot read and whose ops run later, on another thread (support/remote_device.h), everything
// gives the same bits as on the CPU.
#include "support/remote_device.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/assembly.h"
#include "models/decoder_model.h"
#include "support/many_requests.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

std::unique_ptr<Device> remote_device() {
  return RemoteDevice::create(2, op_table(available_levels().back())).value();
}

Results run(const EngineArgs& args, bool remote, bool preempts = false) {
  return run_requests(
      remote ? create_engine(args, {}, remote_compute_device()) : Engine::create(args, {}),
      preempts);
}

void check(const EngineArgs& args, bool preempts = false) {
  SCOPED_TRACE(args.model);
  const Results cpu = run(args, false, preempts);
  ASSERT_FALSE(cpu.outputs.empty());
  EXPECT_TRUE(run(args, true, preempts) == cpu);
}

TEST(RemoteDevice, EveryFamilyGivesTheSameBits) {
  for (const std::string_view family : kFamilies) {
    for (const std::string& file : family_files(family)) check(args_of(family_model(family, file)));
  }
}

TEST(RemoteDevice, EveryWayOfQuantizingGivesTheSameBits) {
  for (const std::string_view kind : kQuantizedKinds) check(args_of(quantized_model(kind)));
}

TEST(RemoteDevice, EveryLevelAndLayoutGivesTheSameBits) {
  for (const IsaLevel level : available_levels()) {
    const ForceIsa force(level);
    for (const char* file :
         {"tiny_llama_q4_0.gguf", "tiny_llama_bf16.gguf", "tiny_llama_f32.gguf"}) {
      check(args_of(tiny_llama(file)));
    }
    check(args_of(tiny_encodings("tiny_compact")));
  }
}

// How tokens are cut into steps, blocks that are copied, and steps planned ahead.
TEST(RemoteDevice, EverySettingGivesTheSameBits) {
  const std::string model = tiny_llama("tiny_llama_q4_0.gguf");
  EngineArgs args = args_of(model);
  args.max_num_batched_tokens = 16;
  args.block_size = 4;
  check(args);
  args.max_steps_in_flight = 2;
  check(args);
  args = args_of(model);
  args.max_num_seqs = 3;  // fewer than the rows of a prompt whose log probabilities are asked for
  args.threads = 1;
  args.enable_prefix_caching = false;
  check(args);
  for (const char* dtype : {"float32", "bfloat16", "fp8", "int8"}) {
    args = args_of(model);
    args.kv_cache_dtype = dtype;
    check(args);
  }
}

TEST(RemoteDevice, PreemptionGivesTheSameBits) {
  EngineArgs args = args_of(tiny_llama("tiny_llama_bf16.gguf"));
  args.block_size = 4;
  EngineArgs probe = args;
  probe.max_num_seqs = 1;
  const auto engine = Engine::create(probe, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  args.kv_cache_memory_bytes = (*engine)->info().kv_bytes_per_token * 96 * 9 / 8;
  check(args, true);
}

TEST(RemoteDevice, QuantizedAtLoadAndKept) {
  for (const char* quantization : {"int8", "int4"}) {
    const testing::TempFolder kept;
    EngineArgs args = args_of(family_model("llama", "hf"));
    args.quantization = quantization;
    const Results cpu = run(args, false);
    args.packed_weights_cache = kept.path();
    EXPECT_TRUE(run(args, true) == cpu) << "packed";
    EXPECT_TRUE(run(args, true) == cpu) << "mapped";
  }
}

// What makes the tests above worth something: the device catches what is wrong.
using RemoteDeviceDeathTest = ::testing::Test;

TEST(RemoteDeviceDeathTest, TheHostCannotReadItsMemory) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto device = remote_device();
  const Buffer buffer = device->allocate(64).value();
  EXPECT_EQ(buffer.device(), device.get());
  EXPECT_DEATH(std::memset(buffer.data(), 1, 64), "");
  const DeviceFloats floats = device->upload({1.0F, 2.0F}).value();
  EXPECT_DEATH((void)*static_cast<const volatile float*>(floats.data()), "");
}

TEST(RemoteDeviceDeathTest, ItsOpsRefuseTheHostsMemory) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto double_of_the_hosts = [] {
    const auto device = remote_device();
    const auto ops = device->make_stream({}).value();
    std::vector<float> host = {1.0F, 2.0F};
    ops->scale_in_place(2.0F, 2, host.data());
    (void)ops->synchronize();
  };
  EXPECT_DEATH(double_of_the_hosts(), "no address of its memory");
}

TEST(RemoteDevice, ItsOpsRunWhenItIsSynchronized) {
  const auto device = remote_device();
  const auto ops = device->make_stream({}).value();
  const Buffer buffer = device->allocate(8).value();
  auto* const values = reinterpret_cast<float*>(buffer.data());
  std::vector<float> host = {1.0F, 2.0F};
  ops->begin_step();
  const float* staged = ops->stage(std::span<const float>(host));
  ops->scale_and_add(staged, 3.0F, 2, values);
  ops->scale_in_place(2.0F, 2, values);
  std::vector<float> back(2);
  ops->download(values, 2, back.data());
  host[0] = 10.0F;  // too early: the device sees it
  EXPECT_TRUE(back[0] != back[0]) << "not there yet";
  EXPECT_EQ(device->progress(), 0U);
  ASSERT_TRUE(ops->synchronize().ok());
  EXPECT_EQ(back, (std::vector<float>{60.0F, 12.0F}));
  EXPECT_EQ(device->progress(), 4U);
}

// Memory of a buffer that is given back is gone, and its address is not used again.
TEST(RemoteDevice, BuffersGoBackToTheirDevice) {
  const auto device = remote_device();
  std::byte* first = nullptr;
  {
    Buffer buffer = device->allocate(100).value();
    first = buffer.data();
    Buffer moved;
    moved = std::move(buffer);
    EXPECT_EQ(moved.device(), device.get());
    EXPECT_EQ(moved.data(), first);
  }
  EXPECT_NE(device->allocate(100).value().data(), first);
  EXPECT_FALSE(device->allocate(std::uint64_t{1} << 40).ok());
}

}  // namespace
}  // namespace quire::test
