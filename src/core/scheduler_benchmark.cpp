#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "core/scheduler.h"

namespace quire {
namespace {

constexpr std::int32_t kPromptTokens = 128;
constexpr std::int32_t kMaxModelLen = 4096;

// Requests with unlike prompts, so that the prefix cache is asked in vain.
void add_requests(Scheduler& scheduler, std::int64_t count, RequestId first_id) {
  SamplingParams params;
  params.max_tokens = kMaxModelLen;
  const auto shared = std::make_shared<const SamplingParams>(params);
  for (std::int64_t i = 0; i < count; ++i) {
    const RequestId id = first_id + static_cast<RequestId>(i);
    const Status status = scheduler.add(
        {id, std::vector<TokenId>(kPromptTokens, static_cast<TokenId>(id)), shared, 0}, Instant{});
    if (!status.ok()) std::abort();
  }
}

SchedulerConfig config_of(std::int64_t num_requests) {
  SchedulerConfig config;
  config.max_num_seqs = static_cast<std::int32_t>(num_requests);
  config.max_num_batched_tokens = 1 << 20;
  config.max_model_len = kMaxModelLen;
  config.num_blocks =
      static_cast<std::int32_t>(num_requests) * (kMaxModelLen / config.block_size + 1);
  return config;
}

struct Step {
  SchedulerOutput plan;
  ModelRunnerOutput result;
  std::vector<RequestStepOutput> outputs;

  void run(Scheduler& scheduler) {
    if (!scheduler.schedule(Instant{}, plan).ok()) std::abort();
    result.clear();
    result.step_id = plan.step_id;
    for (const ScheduledRequest& each : plan.scheduled) {
      if (each.use == RowUse::kTokens)
        result.sampled.push_back({.request_id = each.request_id, .token_id = 5});
    }
    if (!scheduler.update(result, Instant{}, outputs).ok()) std::abort();
  }
};

// Every request computes one token. Time per item: of one request in one step.
void BM_DecodeStep(benchmark::State& state) {
  const std::int64_t num_requests = state.range(0);
  Scheduler scheduler(config_of(num_requests));
  Step step;
  std::int64_t num_steps_left = 0;
  RequestId next_id = 1;
  for (auto _ : state) {
    if (num_steps_left-- == 0) {
      state.PauseTiming();
      for (RequestId id = 1; id < next_id; ++id) scheduler.abort(id, Instant{});
      add_requests(scheduler, num_requests, next_id);
      next_id += static_cast<RequestId>(num_requests);
      step.run(scheduler);
      num_steps_left = kMaxModelLen - kPromptTokens - 2;
      state.ResumeTiming();
    }
    step.run(scheduler);
  }
  state.SetItemsProcessed(state.iterations() * num_requests);
}
BENCHMARK(BM_DecodeStep)->RangeMultiplier(4)->Range(1, 256);

// All requests come, compute their prompts in one step and go: what one request costs once.
void BM_AddStartAbort(benchmark::State& state) {
  const std::int64_t num_requests = state.range(0);
  Scheduler scheduler(config_of(num_requests));
  Step step;
  RequestId first_id = 1;
  for (auto _ : state) {
    add_requests(scheduler, num_requests, first_id);
    step.run(scheduler);
    for (std::int64_t i = 0; i < num_requests; ++i) scheduler.abort(first_id++, Instant{});
  }
  state.SetItemsProcessed(state.iterations() * num_requests);
}
BENCHMARK(BM_AddStartAbort)->RangeMultiplier(16)->Range(1, 256);

}  // namespace
}  // namespace quire
