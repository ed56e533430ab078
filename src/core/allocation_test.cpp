// A step that takes in no request and ends none allocates nothing, whatever else happens in it:
// chunks of prompts, decoding, admissions from the queue, preemptions, forks, prefix hits.
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "core/scheduler.h"

namespace {

std::int64_t num_allocations = 0;

void* counted(std::size_t size) {
  ++num_allocations;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace quire {
namespace {

TEST(Allocation, OnlyStepsThatEndRequestsAllocate) {
  SchedulerConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 24;
  config.max_model_len = 256;
  config.block_size = 4;
  config.num_blocks = 44;  // for a part of what runs at once: preemptions
  ASSERT_TRUE(config.validate().ok());
  Scheduler scheduler(config);
  Instant now{};
  for (RequestId id = 0; id < 24; ++id) {
    auto params = std::make_shared<SamplingParams>();
    params->max_tokens = 20 + static_cast<std::int64_t>(id * 7 % 30);
    params->n = id % 4 == 0 ? 3 : 1;
    AddRequest request = {.request_id = id * 10, .prompt_token_ids = {}, .sampling_params = params};
    for (TokenId token = 0; token < 30; ++token) {
      request.prompt_token_ids.push_back(id % 3 == 0 ? token : token + static_cast<TokenId>(id));
    }
    ASSERT_TRUE(scheduler.add(request, now).ok());
  }

  SchedulerOutput plan;
  ModelRunnerOutput result;
  std::vector<RequestStepOutput> outputs;
  plan.new_requests.reserve(8);
  plan.scheduled.reserve(8);
  plan.removed_request_ids.reserve(24);
  plan.replaced_blocks.reserve(16);
  plan.block_copies.reserve(16);
  plan.new_block_ids.reserve(1024);
  plan.new_token_ids.reserve(8 * 256);
  result.sampled.reserve(8);
  outputs.reserve(8);
  std::int64_t num_quiet_steps = 0;
  std::int64_t num_admissions = 0;
  while (scheduler.has_work()) {
    now += std::chrono::milliseconds(1);
    const std::int64_t before = num_allocations;
    ASSERT_TRUE(scheduler.schedule(now, plan).ok());
    result.clear();
    result.step_id = plan.step_id;
    for (const ScheduledRequest& each : plan.scheduled) {
      if (each.use != RowUse::kTokens) continue;
      // Outputs of one prompt go different ways.
      const auto token = static_cast<TokenId>(each.request_id % 7 + plan.step_id % 5);
      result.sampled.push_back({.request_id = each.request_id, .token_id = token});
    }
    if (plan.step_id == 0) continue;
    ASSERT_TRUE(scheduler.update(result, now, outputs).ok());
    const std::int64_t allocated = num_allocations - before;
    bool ended = false;
    for (const RequestStepOutput& output : outputs) ended |= output.finished != nullptr;
    ASSERT_TRUE(scheduler.check_invariants().ok());
    if (ended) continue;
    EXPECT_EQ(allocated, 0) << "step " << plan.step_id;
    ++num_quiet_steps;
    num_admissions += std::ssize(plan.new_requests);
  }
  const SchedulerStats stats = scheduler.stats();
  EXPECT_GT(num_quiet_steps, 100);
  EXPECT_GT(num_admissions, 0);
  EXPECT_GT(stats.num_preemptions, 0);
  EXPECT_GT(stats.num_forks, 0);
  EXPECT_GT(stats.prompt_tokens_cached, 0);
  EXPECT_EQ(stats.num_finished, stats.num_added);
}

}  // namespace
}  // namespace quire
