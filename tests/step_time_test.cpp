// A burst of requests in virtual time: the real scheduler and the engine's pacer over an executor
// whose steps take what a small model's take on two cores.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "engine/step_pacer.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"

namespace quire::test {
namespace {

using namespace std::chrono_literals;

constexpr std::int32_t kTimedRequests = 16;
constexpr std::int32_t kPromptTokens = 128;
constexpr std::int64_t kMaxTokens = 128;
constexpr Duration kStepTime = 4ms;
constexpr Duration kTokenTime = 1400us;
// What the prompts alone take, one after the other.
constexpr Duration kPromptTime = kTimedRequests * kPromptTokens * kTokenTime;

struct Burst {
  std::vector<Duration> first_token;  // by request
  std::vector<Duration> gaps;         // between the tokens of a request, sorted
  std::map<RequestId, std::vector<TokenId>> token_ids;
  Duration total{};

  Duration gap(double quantile) const {
    return gaps[static_cast<std::size_t>(quantile * static_cast<double>(gaps.size() - 1))];
  }
  Duration median_first_token() const {
    const std::size_t half = first_token.size() / 2;
    return (first_token[half - 1] + first_token[half]) / 2;
  }
};

// `warm`: the server has answered requests before. `pacer` may be none.
Burst run(std::optional<StepPacer> pacer, bool warm) {
  SchedulerConfig config;
  config.max_num_seqs = kTimedRequests;
  config.max_num_batched_tokens = 512;
  config.num_blocks = 1024;
  config.enable_prefix_caching = false;
  Scheduler scheduler(config);
  VirtualClock clock;
  SimulatedExecutor executor({.block_size = config.block_size,
                              .num_blocks = config.num_blocks,
                              .vocab_size = 1000,
                              .step_time = kStepTime,
                              .token_time = kTokenTime},
                             clock);
  Burst burst;
  std::map<RequestId, Instant> last_token;
  SchedulerOutput plan;
  ModelRunnerOutput result;
  std::vector<RequestStepOutput> outputs;
  RequestId next_id = 1;
  const auto add = [&](std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i) {
      SamplingParams params;
      params.max_tokens = kMaxTokens;
      const TokenId token = static_cast<TokenId>(next_id);
      EXPECT_TRUE(scheduler
                      .add({next_id++, std::vector<TokenId>(kPromptTokens, token),
                            std::make_shared<const SamplingParams>(params)},
                           clock.now())
                      .ok());
    }
  };
  const auto drain = [&](Instant start) {
    while (scheduler.has_work()) {
      if (pacer) scheduler.set_pace(pacer->pace());
      const Instant begin = clock.now();
      ASSERT_TRUE(scheduler.schedule(begin, plan).ok());
      ASSERT_TRUE(executor.execute(plan, result).ok());
      if (pacer) pacer->measured(work_of(plan), clock.now() - begin);
      ASSERT_TRUE(scheduler.update(result, clock.now(), outputs).ok());
      for (const RequestStepOutput& output : outputs) {
        const auto before = last_token.find(output.request_id);
        if (before == last_token.end()) {
          burst.first_token.push_back(clock.now() - start);
        } else {
          burst.gaps.push_back(clock.now() - before->second);
        }
        last_token[output.request_id] = clock.now();
        burst.token_ids[output.request_id].push_back(
            result.sampled[static_cast<std::size_t>(output.first_sampled)].token_id);
      }
    }
  };
  if (warm) {
    add(3);
    drain(clock.now());
    burst = {};
  }
  next_id = 100;
  const Instant start = clock.now();
  add(kTimedRequests);
  drain(start);
  burst.total = clock.now() - start;
  std::ranges::sort(burst.first_token);
  std::ranges::sort(burst.gaps);
  return burst;
}

double share(Duration part, Duration whole) {
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

TEST(StepTime, WithoutALimitTokensWaitForPrompts) {
  const Burst burst = run(std::nullopt, true);
  ASSERT_EQ(std::ssize(burst.first_token), kTimedRequests);
  EXPECT_GT(burst.gap(1.0), 500ms);
}

TEST(StepTime, TheLimitIsKept) {
  const Burst unlimited = run(std::nullopt, true);
  for (const Duration limit : {40ms, 60ms, 100ms, 300ms}) {
    const Burst burst = run(StepPacer(limit), true);
    EXPECT_LE(burst.gap(0.99), limit);
    EXPECT_LE(burst.gap(1.0), limit + limit / 5) << limit.count();
    EXPECT_EQ(burst.token_ids, unlimited.token_ids);
  }
}

// Cold: what steps cost is learned on the way.
TEST(StepTime, InABurstTheMedianFirstTokenComesAtHalfOfTheTimeOfThePrompts) {
  const Burst unlimited = run(std::nullopt, true);
  for (const bool warm : {true, false}) {
    const Burst burst = run(StepPacer(std::nullopt), warm);
    ASSERT_EQ(std::ssize(burst.first_token), kTimedRequests);
    EXPECT_LE(share(burst.median_first_token(), kPromptTime), 0.65);
    EXPECT_LE(share(burst.median_first_token(), burst.first_token.back()), 0.55);
    EXPECT_LE(burst.gap(0.99), warm ? 110ms : 150ms);
    EXPECT_EQ(burst.token_ids, unlimited.token_ids);
    RecordProperty("total_ms", static_cast<int>(burst.total / 1ms));
    RecordProperty("unlimited_ms", static_cast<int>(unlimited.total / 1ms));
    RecordProperty("median_ms", static_cast<int>(burst.median_first_token() / 1ms));
    RecordProperty("last_ms", static_cast<int>(burst.first_token.back() / 1ms));
    RecordProperty("gap99_ms", static_cast<int>(burst.gap(0.99) / 1ms));
    // What the shorter steps cost in all.
    EXPECT_LE(share(burst.total, unlimited.total), 1.1);
  }
}

// One after the other: each first token comes about as long after the one before it.
TEST(StepTime, PromptsAreComputedOneAfterTheOther) {
  const Burst burst = run(StepPacer(std::nullopt), true);
  for (std::size_t i = 1; i < burst.first_token.size(); ++i) {
    EXPECT_GE(burst.first_token[i] - burst.first_token[i - 1], kPromptTokens * kTokenTime / 2) << i;
  }
}

}  // namespace
}  // namespace quire::test
