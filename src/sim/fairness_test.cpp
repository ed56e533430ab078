// What one user's load does to another, where the policy is to be fair: in virtual time.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"
#include "sim/workload.h"

namespace quire {
namespace fairness_test {

using namespace std::chrono_literals;

constexpr std::int32_t kPromptTokens = 256;
constexpr std::int64_t kMostOutputTokens = 256;  // at least half of them
constexpr std::int32_t kQueued = 1000;
constexpr RequestId kFirstOfFew = 100'000;

struct Machine {
  SchedulingPolicy policy = SchedulingPolicy::kFair;
  std::int32_t max_num_seqs = 64;
  std::int32_t num_blocks = 4096;
  Duration step = 5ms;
  Duration token = 50us;
};

struct Result {
  std::vector<double> few_ttft_s;  // sorted
  double many_tokens_per_s = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t tokens_recomputed = 0;
};

AddRequest request_of(RequestId id, const std::string& user, RandomStream& random) {
  SamplingParams params;
  params.max_tokens = random.between(kMostOutputTokens / 2, kMostOutputTokens);
  params.ignore_eos = true;
  std::vector<TokenId> prompt;
  for (int i = 0; i < kPromptTokens; ++i) {
    prompt.push_back(static_cast<TokenId>(random.between(0, 999)));
  }
  AddRequest request = {id, std::move(prompt), std::make_shared<const SamplingParams>(params), 0};
  request.user = user;
  return request;
}

// The one has `num_queued` requests from the start, the other one a second, at random, for a
// minute.
Result run(const Machine& machine, std::int32_t num_queued) {
  SchedulerConfig config;
  config.policy = machine.policy;
  config.max_num_seqs = machine.max_num_seqs;
  config.max_num_batched_tokens = 512;
  config.max_model_len = 1024;
  config.block_size = 16;
  config.num_blocks = machine.num_blocks;
  config.max_queued = 4096;
  Scheduler scheduler(config);
  VirtualClock clock;
  SimulatedExecutor executor({.block_size = config.block_size,
                              .num_blocks = config.num_blocks,
                              .vocab_size = 1000,
                              .step_time = machine.step,
                              .token_time = machine.token},
                             clock);
  RandomStream random(7);
  for (RequestId id = 1; id <= static_cast<RequestId>(num_queued); ++id) {
    EXPECT_TRUE(scheduler.add(request_of(id, "many", random), clock.now()).ok());
  }
  std::map<RequestId, Instant> few;  // when they came
  Result result;
  Instant next = clock.now();
  SchedulerOutput plan;
  ModelRunnerOutput given;
  std::vector<RequestStepOutput> outputs;
  std::int64_t many_tokens = 0;
  while (few.size() < 60 || result.few_ttft_s.size() < few.size()) {
    if (few.size() < 60 && next <= clock.now()) {
      const RequestId id = kFirstOfFew + few.size();
      EXPECT_TRUE(scheduler.add(request_of(id, "few", random), clock.now()).ok());
      few.emplace(id, next);
      next += Duration(static_cast<std::int64_t>(-std::log(1 - random.uniform()) * 1e9));
      continue;
    }
    EXPECT_TRUE(scheduler.schedule(clock.now(), plan).ok());
    if (plan.empty()) {
      clock.advance_to(next);
      continue;
    }
    EXPECT_TRUE(executor.execute(plan, given).ok());
    EXPECT_TRUE(scheduler.update(given, clock.now(), outputs).ok());
    for (const RequestStepOutput& output : outputs) {
      const Request* request =
          output.finished ? output.finished.get() : scheduler.find(output.request_id);
      if (output.request_id < kFirstOfFew) {
        many_tokens += output.num_sampled;
      } else if (request->output_token_ids().size() == 1) {
        result.few_ttft_s.push_back(to_seconds(clock.now() - few.at(output.request_id)));
      }
    }
  }
  std::ranges::sort(result.few_ttft_s);
  result.many_tokens_per_s = static_cast<double>(many_tokens) / to_seconds(clock.now());
  result.num_preemptions = scheduler.stats().num_preemptions;
  result.tokens_recomputed = scheduler.stats().tokens_recomputed;
  return result;
}

double p99(const Result& result) { return result.few_ttft_s[result.few_ttft_s.size() * 99 / 100]; }

// A machine of half the size and half the speed, with nobody else on it.
Result alone_with_half() {
  Machine half;
  half.max_num_seqs /= 2;
  half.num_blocks /= 2;
  half.step *= 2;
  half.token *= 2;
  return run(half, 0);
}

void expect_fair(const Machine& machine) {
  const double alone = p99(alone_with_half());
  const Result fair = run(machine, kQueued);
  EXPECT_LE(p99(fair), 1.5 * alone)
      << "alone " << alone << " s, beside a queue of " << kQueued << ' ' << p99(fair) << " s";
  Machine plain = machine;
  plain.policy = SchedulingPolicy::kFcfs;
  const Result unfair = run(plain, kQueued);
  EXPECT_GT(p99(unfair), 10 * p99(fair));
  // What it costs the other: a place for each that comes, most of whose work is found again.
  EXPECT_LE(fair.num_preemptions, unfair.num_preemptions + 2 * 60);
  EXPECT_GT(fair.many_tokens_per_s, 0.85 * unfair.many_tokens_per_s);
  testing::Test::RecordProperty("alone_p99_ms", std::to_string(alone * 1e3));
  testing::Test::RecordProperty("fair_p99_ms", std::to_string(p99(fair) * 1e3));
  testing::Test::RecordProperty("fcfs_p99_ms", std::to_string(p99(unfair) * 1e3));
  testing::Test::RecordProperty("preemptions", std::to_string(fair.num_preemptions));
  testing::Test::RecordProperty("tokens_recomputed", std::to_string(fair.tokens_recomputed));
  testing::Test::RecordProperty("many_tokens_per_s", std::to_string(fair.many_tokens_per_s));
  testing::Test::RecordProperty("many_tokens_per_s_fcfs", std::to_string(unfair.many_tokens_per_s));
}

TEST(Fairness, AQueueOfAThousandDelaysAnotherUserNoMoreThanHavingHalfTheMachine) {
  expect_fair({});
}

// There the blocks run out before the places do.
TEST(Fairness, AlsoWhereTheCacheIsFull) { expect_fair({.num_blocks = 1024}); }

}  // namespace fairness_test
}  // namespace quire
