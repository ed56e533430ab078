// Models of which one device computes some layers and the processor others: with a device whose
// memory the host cannot read and whose kernels are the processor's (support/remote_device.h), all
// gives the bits of the processor alone.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/assembly.h"
#include "kernels/level_test_support.h"
#include "support/many_requests.h"
#include "support/remote_device.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

using ::testing::HasSubstr;

Result<std::unique_ptr<Engine>> split_engine(const EngineArgs& args) {
  return create_engine(args, {}, remote_beside_processor());
}

std::string refusal(const EngineArgs& args, const ComputeDevice& device) {
  const auto engine = create_engine(args, {}, device);
  EXPECT_FALSE(engine.ok());
  return engine.ok() ? "" : engine.status().to_string();
}

// What is there is what was planned, in both memories together; factors of rotary positions, which
// some files have as tensors, are a part of the plan.
void check_plan(const EngineInfo& info) {
  constexpr std::uint64_t kFactors = 200;
  const MemoryPlan& plan = info.plan;
  const std::uint64_t weights = plan.weight_bytes + plan.host_part.weight_bytes;
  EXPECT_GE(weights, info.weight_bytes);
  EXPECT_LE(weights, info.weight_bytes + kFactors);
  EXPECT_EQ(plan.kv_cache_bytes + plan.host_part.kv_cache_bytes, info.kv_cache_bytes);
}

void expect_like(const Results& cpu, const EngineArgs& args) {
  auto made = split_engine(args);
  if (!made.ok() && made.status().code() == StatusCode::kUnimplemented) {
    EXPECT_THAT(made.status().message(), HasSubstr("reads the keys and values of layer"));
    return;
  }
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  check_plan((*made)->info());
  EXPECT_EQ(args.n_gpu_layers.value_or(100) <= (*made)->info().model.num_layers,
            (*made)->info().plan.host_part.kv_cache_bytes > 0);
  EXPECT_TRUE(run_requests(std::move(made)) == cpu)
      << "layers " << args.n_gpu_layers.value_or(-1) << ", experts " << args.n_cpu_moe;
}

// The output alone, one layer and the output, all but the first layer; all. Experts of the first
// layer, of all.
TEST(LayerSplit, EveryFamilyGivesTheSameBits) {
  for (const std::string_view family : kFamilies) {
    for (const std::string& file : family_files(family)) {
      EngineArgs args = args_of(family_model(family, file));
      SCOPED_TRACE(args.model);
      auto alone = Engine::create(args, {});
      ASSERT_TRUE(alone.ok()) << alone.status().to_string();
      const auto layers = static_cast<std::int32_t>((*alone)->info().model.num_layers);
      const bool experts = (*alone)->info().model.num_experts > 0;
      const Results cpu = run_requests(std::move(alone));
      for (const std::int32_t on_gpu : {1, 2, layers, layers + 1}) {
        args.n_gpu_layers = on_gpu;
        expect_like(cpu, args);
      }
      args.n_gpu_layers.reset();
      for (const std::int32_t count : {layers / 2 + 1, 1000}) {
        args.n_cpu_moe = count;
        if (experts) expect_like(cpu, args);
      }
    }
  }
}

TEST(LayerSplit, EverySettingGivesTheSameBits) {
  EngineArgs args = args_of(tiny_llama("tiny_llama_q4_0.gguf"));
  args.max_num_batched_tokens = 16;
  args.block_size = 4;
  args.max_steps_in_flight = 2;
  const Results cpu = run_requests(Engine::create(args, {}));
  args.n_gpu_layers = 2;
  expect_like(cpu, args);
  const testing::TempFolder kept;
  args.packed_weights_cache = kept.path();
  expect_like(cpu, args);  // packed
  expect_like(cpu, args);  // mapped
  args.n_gpu_layers = 1;
  expect_like(cpu, args);  // packed otherwise
}

TEST(LayerSplit, PreemptionGivesTheSameBits) {
  EngineArgs args = args_of(tiny_llama("tiny_llama_bf16.gguf"));
  args.block_size = 4;
  EngineArgs probe = args;
  probe.max_num_seqs = 1;
  const auto engine = Engine::create(probe, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  args.kv_cache_memory_bytes = (*engine)->info().kv_bytes_per_token * 96 * 9 / 8;
  const Results cpu = run_requests(Engine::create(args, {}), true);
  args.n_gpu_layers = 2;
  EXPECT_TRUE(run_requests(split_engine(args), true) == cpu);
}

// Other kernels round otherwise, but the same for every batch, chunk and block size.
TEST(LayerSplit, AGpuAndTheProcessorGiveTheSameBitsInEveryBatch) {
  const auto device = choose_device("auto");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  if (!device->gpu) GTEST_SKIP() << "there is no GPU";
  struct Case {
    std::string_view family;
    std::optional<std::int32_t> n_gpu_layers;
    std::int32_t n_cpu_moe = 0;
  };
  for (const Case& each : {Case{"llama", 2}, Case{"llama", 1}, Case{"gemma3", 2}, Case{"lfm2", 2},
                           Case{"qwen3_moe", {}, 1}, Case{"deepseek_v3", 2, 9}}) {
    SCOPED_TRACE(each.family);
    EngineArgs args = args_of(family_model(each.family, "hf"));
    args.n_gpu_layers = each.n_gpu_layers;
    args.n_cpu_moe = each.n_cpu_moe;
    auto batch = create_engine(args, {}, *device);
    ASSERT_TRUE(batch.ok()) << batch.status().to_string();
    check_plan((*batch)->info());
    EXPECT_GT((*batch)->info().plan.host_part.weight_bytes, 0U);
    const Results together = run_requests(std::move(batch));
    args.max_num_seqs = 3;
    args.max_num_batched_tokens = 16;
    args.block_size = 4;
    EXPECT_TRUE(run_requests(create_engine(args, {}, *device)) == together);
  }
}

TEST(LayerSplit, NoLayerIsTheProcessorAlone) {
  EngineArgs args = args_of(tiny_llama("tiny_llama_bf16.gguf"));
  args.device = "auto";
  args.n_gpu_layers = 0;
  const auto engine = Engine::create(args, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  EXPECT_EQ((*engine)->info().device, "cpu");
}

TEST(LayerSplit, WhatCannotBeIsRefused) {
  EngineArgs args = args_of(tiny_llama("tiny_llama_bf16.gguf"));
  const auto processor = choose_device("cpu");
  ASSERT_TRUE(processor.ok());
  args.n_gpu_layers = 2;
  EXPECT_THAT(refusal(args, *processor), HasSubstr("--n-gpu-layers 2: the processor computes"));
  args.n_gpu_layers = -1;
  EXPECT_THAT(refusal(args, *processor), HasSubstr("--n-gpu-layers -1: expected 0 to"));
  args.n_gpu_layers.reset();
  args.n_cpu_moe = 2;
  EXPECT_THAT(refusal(args, *processor), HasSubstr("--n-cpu-moe 2: the processor computes"));
  EXPECT_THAT(refusal(args, remote_beside_processor()), HasSubstr("has no experts"));
  args = args_of(family_model("llama", "hf"));
  args.n_gpu_layers = 2;
  args.speculation = SpeculativeConfig::parse(R"({"method": "eagle", "model": "m",
      "num_speculative_tokens": 2})")
                         .value();
  args.speculation->model = family_model("llama_eagle", "hf");
  EXPECT_THAT(refusal(args, remote_beside_processor()), HasSubstr("would lie in two memories"));
}

TEST(LayerSplit, WhatDoesNotFitTheMachineIsRefused) {
  EngineArgs args = args_of(tiny_llama("tiny_llama_bf16.gguf"));
  args.n_gpu_layers = 2;
  ComputeDevice device = remote_beside_processor();
  device.host->total = device.host->available = 1000;
  EXPECT_THAT(refusal(args, device), HasSubstr("what the processor computes takes"));
}

}  // namespace
}  // namespace quire::test
