// The memory plan against the memory that the process really takes.
#include <algorithm>
#include <malloc.h>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "plan/memory_limits.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

// "Within 1% or 16 MiB", whichever is more.
void expect_close(std::uint64_t planned, std::uint64_t resident) {
  const double tolerance = std::max(0.01 * static_cast<double>(planned), 16.0 * (1U << 20));
  EXPECT_NEAR(static_cast<double>(resident), static_cast<double>(planned), tolerance);
}

// Starts with everything touched, compares, then works at the limits and compares again.
void check_plan(EngineArgs args, std::size_t num_requests, std::int64_t prompt_len,
                std::int64_t max_tokens, EngineInfo* info = nullptr) {
  args.prefault = true;
  ::malloc_trim(0);  // what earlier tests have freed
  const std::uint64_t before = resident_anonymous_bytes();
  auto engine = Engine::create(args, {});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  const MemoryPlan& plan = (*engine)->info().plan;
  if (info != nullptr) *info = (*engine)->info();
  expect_close(plan.total(), resident_anonymous_bytes() - before);

  Collector collector(num_requests);
  for (std::size_t i = 0; i < num_requests; ++i) {
    GenerateRequest request;
    for (std::int64_t p = 0; p < prompt_len; ++p) {
      request.prompt_token_ids.push_back(static_cast<TokenId>((p * 31 + p * p * 7 + 11) % 300));
    }
    request.prompt_token_ids[0] = static_cast<TokenId>(i);
    request.params.max_tokens = max_tokens;
    request.params.ignore_eos = true;
    request.params.logprobs = 5;
    ASSERT_TRUE((*engine)->submit(std::move(request), collector.sink(i)).ok());
  }
  collector.wait_for(num_requests);
  expect_close(plan.total(), resident_anonymous_bytes() - before);
}

TEST(MemoryPlanOfTinyLlama, IsWhatTheProcessTakes) {
  EngineArgs args;
  args.model = tiny_llama("hf");
  args.threads = 2;
  args.max_num_seqs = 512;  // a pool that is large beside the rest
  check_plan(args, 8, 200, 40);
}

TEST(MemoryPlanOfSmolLm2, IsWhatTheProcessTakes) {
  QUIRE_REQUIRE_FILE(smollm2());
  EngineArgs args;
  args.model = smollm2();
  args.threads = 2;
  args.max_num_seqs = 8;
  args.max_model_len = 4096;
  check_plan(args, 8, 300, 8);
}

// Two KV groups: 3 of its 18 layers keep all tokens, 15 the last 512. The pool holds what these
// need: for 4 sequences of 8,192 tokens 24% of what they take where every layer keeps all.
TEST(MemoryPlanOfGemma3, IsWhatItsWindowsNeedAndWhatTheProcessTakes) {
  QUIRE_REQUIRE_FILE(gemma3_270m());
  EngineArgs args;
  args.model = gemma3_270m();
  args.threads = 2;
  args.max_num_seqs = 4;
  args.max_model_len = 8192;
  args.kv_cache_dtype = "float32";  // so that the pool is large beside the rest
  args.kv_cache_memory_bytes = std::uint64_t{512} << 20;  // more than it needs
  EngineInfo info;
  check_plan(args, 5, 700, 8, &info);  // one waits
  ASSERT_EQ(info.plan.kv_groups.size(), 2U);
  EXPECT_EQ(info.plan.kv_groups[0].num_layers, 3);
  EXPECT_EQ(info.plan.kv_groups[1].num_layers, 15);
  EXPECT_EQ(info.plan.kv_groups[1].window, 512);
  // Pages of three layers: one of a block that is kept, five of one within a window. A window of
  // 512 touches 33 blocks, the tokens of a step one more of each sequence and all that they fill.
  EXPECT_EQ(info.num_blocks, 4 * 8192 / 16 + 5 * (4 * 34 + info.max_num_batched_tokens / 16));
  EXPECT_LT(info.kv_cache_bytes, 24 * 4 * 8192 * info.kv_bytes_per_token / 100);
}

}  // namespace
}  // namespace quire::test
