#include "plan/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1U << 20;

MemoryPlanInput small_input() {
  MemoryPlanInput input;
  input.weight_bytes = 100 * kMiB;
  input.kv_page_bytes = 64 * 1024;
  input.activation_bytes = 10 * kMiB;
  input.workspace_bytes = 2 * kMiB;
  input.table_bytes = 3 * kMiB;
  input.block_table_bytes = 100;
  input.kv_groups = {{.window = 0, .num_layers = 2, .pages_per_block = 1}};
  input.prompt_pages = 1024 / 16;
  input.sequence_pages = 1024 / 16;
  input.all_pages = 8 * 1024 / 16;
  input.block_size = 16;
  input.max_model_len = 1024;
  return input;
}

MemoryLimits limits_of(std::uint64_t total, std::uint64_t available) {
  return {.total = total, .available = available, .cgroup = false};
}

TEST(MemoryPlan, GivesEverySequenceRoomWhereThereIsEnough) {
  const auto plan = make_memory_plan(small_input(), limits_of(4096 * kMiB, 4000 * kMiB));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->num_blocks, 8 * 1024 / 16);
  EXPECT_EQ(plan->kv_tokens(), 8 * 1024);
  EXPECT_DOUBLE_EQ(plan->full_sequences(), 8.0);
  EXPECT_EQ(plan->kv_cache_bytes, 512U * 64 * 1024);
  EXPECT_EQ(plan->table_bytes, 3 * kMiB + 512 * 100);
  EXPECT_EQ(plan->total(), (100 + 10 + 2 + 3 + 32) * kMiB + 512 * 100);
  EXPECT_EQ(plan->budget, 4096 * kMiB * 9 / 10);
}

TEST(MemoryPlan, NamesTheNumaNodesAndTheCgroup) {
  MemoryLimits limits = limits_of(4096 * kMiB, 4000 * kMiB);
  limits.cgroup = true;
  limits.numa_nodes = {{.id = 0, .cpus = "0-1", .bytes = 2048 * kMiB},
                       {.id = 1, .cpus = "", .bytes = 2048 * kMiB}};
  const auto plan = make_memory_plan(small_input(), limits);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_THAT(plan->to_text(), HasSubstr("NUMA node 0     2048.0 MiB  CPUs 0-1\n"));
  EXPECT_THAT(plan->to_text(), HasSubstr("NUMA node 1     2048.0 MiB  no CPUs\n"));
  EXPECT_THAT(plan->to_text(), HasSubstr("by the limit of its cgroup"));
  const auto nodes = plan->to_json().at("numa_nodes").as_array();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].at("cpus").as_string(), "0-1");
}

TEST(MemoryPlan, ThePoolTakesAtMostAQuarterOfWhatIsLeft) {
  MemoryPlanInput input = small_input();
  input.all_pages = 256 * 1024 / 16;
  // 1000 MiB at 90%, less 115 MiB, over four.
  const auto plan = make_memory_plan(input, limits_of(1000 * kMiB, 1000 * kMiB));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->num_blocks, static_cast<std::int64_t>((900 - 115) * kMiB / 4 / (64 * 1024)));
}

// What the host needs is not of a GPU's memory, whose pool takes all that is left.
TEST(MemoryPlan, OfAGpuIsOfItsMemoryAlone) {
  MemoryPlanInput input = small_input();
  input.all_pages = 256 * 1024 / 16;
  input.table_bytes = 0;
  input.host_bytes = 5 * kMiB;
  MemoryLimits limits = limits_of(1000 * kMiB, 1000 * kMiB);
  limits.gpu = "NVIDIA H100";
  const auto plan = make_memory_plan(input, limits);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->num_blocks, static_cast<std::int64_t>((900 - 112) * kMiB / (64 * 1024)));
  EXPECT_EQ(plan->total(), 112 * kMiB + plan->kv_cache_bytes);
  EXPECT_EQ(plan->host_bytes,
            5 * kMiB + static_cast<std::uint64_t>(plan->num_blocks) * input.block_table_bytes);
  EXPECT_THAT(plan->to_text(), HasSubstr("of the memory of NVIDIA H100"));
  EXPECT_EQ(plan->to_json().at("memory_limit").as_string(), "gpu");
}

// Two layers that keep all tokens and four that keep 64 of them.
TEST(MemoryPlan, WindowsTakeThePagesThatTheyNeed) {
  MemoryPlanInput input = small_input();
  input.kv_groups.push_back({.window = 64, .num_layers = 4, .pages_per_block = 2});
  input.prompt_pages = 64 + 2 * 37;
  input.sequence_pages = 64 + 2 * 5;
  input.all_pages = 8 * (64 + 2 * 6) + 2 * 32;
  const auto plan = make_memory_plan(input, limits_of(4096 * kMiB, 4000 * kMiB));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->num_blocks, input.all_pages);
  EXPECT_EQ(plan->kv_cache_bytes, 672U * 64 * 1024);
  EXPECT_EQ(plan->kv_tokens(), 672 * 1024 / 74);
  EXPECT_THAT(plan->to_text(), HasSubstr("672 pages, 3 for each block of 16 tokens"));
  EXPECT_THAT(plan->to_text(), HasSubstr("2 layers keep all tokens\n"));
  EXPECT_THAT(plan->to_text(), HasSubstr("4 layers keep the last 64 tokens\n"));
  EXPECT_EQ(plan->to_json().at("kv_groups").as_array().size(), 2U);

  input.kv_cache_memory_bytes = 137 * 64 * 1024;
  const auto small = make_memory_plan(input, limits_of(4096 * kMiB, 4000 * kMiB));
  ASSERT_FALSE(small.ok());
  EXPECT_THAT(small.status().message(), HasSubstr("needs 138 pages, 8.6 MiB"));
}

TEST(MemoryPlan, OffloadingTakesMemoryForItsBuffersAndNoneForItsFiles) {
  MemoryPlanInput input = small_input();
  const auto without = make_memory_plan(input, limits_of(4096 * kMiB, 4000 * kMiB));
  input.offload_bytes = 70 * kMiB;
  input.offload_disk_bytes = 9000 * kMiB;
  input.offload_blocks = 1000;
  const auto plan = make_memory_plan(input, limits_of(4096 * kMiB, 4000 * kMiB));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->total(), without->total() + 70 * kMiB);
  EXPECT_THAT(plan->to_text(), HasSubstr("for 1000 blocks in files: 16000 tokens, 9000.0 MiB"));
  EXPECT_THAT(plan->to_line(), HasSubstr("offloading 70.0 MiB (16000 tokens in files of"));
}

TEST(MemoryPlan, PinsLeaveRoomForTheLongestSequence) {
  EXPECT_EQ(max_pinned_pages(100, 40, 0.25), 25);
  EXPECT_EQ(max_pinned_pages(50, 40, 0.25), 10);
  EXPECT_EQ(max_pinned_pages(40, 40, 0.9), 0);
  EXPECT_EQ(max_pinned_pages(30, 40, 0.9), 0);
  EXPECT_EQ(max_pinned_pages(100, 40, 0), 0);
  MemoryPlanInput input = small_input();
  input.max_pinned_share = 0.5;
  const auto plan = make_memory_plan(input, limits_of(4096 * kMiB, 4000 * kMiB));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->max_pinned_blocks, 256);
  EXPECT_THAT(plan->to_text(), HasSubstr("of these, prefixes may be pinned in 256\n"));
}

TEST(MemoryPlan, TheFlagSetsThePool) {
  MemoryPlanInput input = small_input();
  input.kv_cache_memory_bytes = 8 * kMiB;
  const auto plan = make_memory_plan(input, limits_of(1000 * kMiB, 1000 * kMiB));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->num_blocks, 128);
}

TEST(MemoryPlan, WeightsThatDoNotFitAreRefusedWithNumbers) {
  const auto plan = make_memory_plan(small_input(), limits_of(4096 * kMiB, 90 * kMiB));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(), HasSubstr("100.0 MiB"));
  EXPECT_THAT(plan.status().message(), HasSubstr("90.0 MiB are free"));
  EXPECT_THAT(plan.status().remedy(), HasSubstr("--gpu-memory-utilization"));
}

TEST(MemoryPlan, ActivationsThatDoNotFitNameTheirFlags) {
  MemoryPlanInput input = small_input();
  input.activation_bytes = 900 * kMiB;
  const auto plan = make_memory_plan(input, limits_of(1000 * kMiB, 1000 * kMiB));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().remedy(), HasSubstr("--max-num-batched-tokens"));
}

TEST(MemoryPlan, APoolTooSmallForOneSequenceIsRefused) {
  MemoryPlanInput input = small_input();
  input.kv_cache_memory_bytes = 2 * kMiB;
  const auto plan = make_memory_plan(input, limits_of(1000 * kMiB, 1000 * kMiB));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().message(), HasSubstr("--max-model-len 1024 needs 64 blocks"));
  EXPECT_THAT(plan.status().remedy(), HasSubstr("--kv-cache-memory-bytes"));
}

TEST(MemoryPlan, APoolOverTheBudgetIsRefused) {
  MemoryPlanInput input = small_input();
  input.all_pages = 4096 * 64;
  input.kv_cache_memory_bytes = 2000 * kMiB;
  const auto plan = make_memory_plan(input, limits_of(1000 * kMiB, 1000 * kMiB));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().remedy(), HasSubstr("--kv-cache-memory-bytes"));
}

TEST(MemoryPlan, UtilizationLimitsTheBudgetAndHasARange) {
  MemoryPlanInput input = small_input();
  input.gpu_memory_utilization = 0.25;
  const auto plan = make_memory_plan(input, limits_of(1000 * kMiB, 1000 * kMiB));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->budget, 250 * kMiB);
  for (const double wrong : {0.0, -1.0, 1.01}) {
    input.gpu_memory_utilization = wrong;
    const auto refused = make_memory_plan(input, limits_of(1000 * kMiB, 1000 * kMiB));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(MemoryPlan, TextAndJsonHaveTheSameNumbers) {
  const auto plan = make_memory_plan(small_input(), limits_of(4096 * kMiB, 4000 * kMiB)).value();
  EXPECT_THAT(plan.to_text(), HasSubstr("512 blocks of 16 tokens: 8192 tokens, 8.0 sequences"));
  EXPECT_EQ(plan.to_json().at("total_bytes").to_number<std::uint64_t>(), plan.total());
}

// A page has its part in both memories, and the smaller room decides.
TEST(MemoryPlan, TwoMemoriesHaveOneNumberOfPages) {
  MemoryPlanInput input = small_input();
  input.table_bytes = 0;
  input.host_bytes = 5 * kMiB;
  input.host_part = {.num_layers = 1,
                     .num_expert_layers = 2,
                     .weight_bytes = 200 * kMiB,
                     .activation_bytes = 3 * kMiB,
                     .workspace_bytes = kMiB};
  input.host_page_bytes = 32 * 1024;
  input.host_limits = limits_of(1000 * kMiB, 1000 * kMiB);
  MemoryLimits gpu = limits_of(1000 * kMiB, 1000 * kMiB);
  gpu.gpu = "GPU";
  const auto plan = make_memory_plan(input, gpu);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->num_blocks, 512);
  EXPECT_EQ(plan->kv_cache_bytes, 512U * 64 * 1024);
  EXPECT_EQ(plan->host_part.kv_cache_bytes, 512U * 32 * 1024);
  EXPECT_EQ(plan->total(), (100 + 10 + 2 + 32) * kMiB);
  EXPECT_EQ(plan->host_part.total(), (200 + 3 + 1 + 16) * kMiB);
  EXPECT_EQ(plan->host_budget, 900 * kMiB);
  EXPECT_THAT(plan->to_text(), HasSubstr("what the processor computes, in the machine's memory"));
  EXPECT_THAT(plan->to_text(),
              HasSubstr("200.0 MiB  embeddings and 1 layer, the experts of 2 layers\n"));
  EXPECT_THAT(plan->to_line(), HasSubstr("the processor's part: 220.0 MiB"));
  EXPECT_EQ(plan->to_json().at("host_part").at("weight_bytes").as_uint64(), 200 * kMiB);

  // A quarter of what the machine has left: 900 MiB less 209.
  input.all_pages = 1 << 20;
  gpu.total = gpu.available = 100'000 * kMiB;
  const auto limited = make_memory_plan(input, gpu);
  ASSERT_TRUE(limited.ok()) << limited.status().to_string();
  EXPECT_EQ(limited->num_blocks, static_cast<std::int64_t>((900 - 209) * kMiB / 4 / (32 * 1024)));
  // What is asked for is of both together.
  input.kv_cache_memory_bytes = 96 * kMiB;
  EXPECT_EQ(make_memory_plan(input, gpu)->num_blocks, 1024);

  input.host_limits = limits_of(210 * kMiB, 210 * kMiB);
  const auto refused = make_memory_plan(input, gpu);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("what the processor computes takes 209.0 MiB"));
}

}  // namespace
}  // namespace quire
