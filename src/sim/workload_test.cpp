#include "sim/workload.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;

WorkloadConfig config_of(std::uint64_t seed) {
  WorkloadConfig config;
  config.seed = seed;
  config.num_requests = 2000;
  config.mean_interarrival = 1ms;
  config.prompt_tokens = {3, 9};
  config.max_tokens = {1, 4};
  config.num_stop_token_ids = {0, 2};
  config.ignore_eos_probability = 0.5;
  config.abort_probability = 0.25;
  config.mean_time_to_abort = 5ms;
  config.num_outputs = {1, 3};
  config.priority = {-1, 1};
  config.shared_prefix_probability = 0.5;
  config.prompt_logprobs_probability = 0.2;
  config.greedy_probability = 0.3;
  config.vocab_size = 30;
  return config;
}

TEST(Workload, StaysWithinItsConfig) {
  const auto workload = make_workload(config_of(1));
  ASSERT_EQ(workload.size(), 2000U);
  Instant previous{};
  Duration time_to_abort{};
  int num_aborts = 0;
  int num_prompt_logprobs = 0;
  int num_greedy = 0;
  std::int64_t num_outputs = 0;
  std::int64_t sum_priorities = 0;
  RequestId next_id = 1;
  for (const WorkloadRequest& each : workload) {
    const SamplingParams& params = *each.request.sampling_params;
    EXPECT_EQ(each.request.request_id, next_id);
    next_id += static_cast<RequestId>(params.n);
    EXPECT_GE(each.arrival, previous);
    previous = each.arrival;
    EXPECT_GE(each.request.prompt_token_ids.size(), 3U);
    EXPECT_LE(each.request.prompt_token_ids.size(), 9U);
    for (const TokenId token : each.request.prompt_token_ids) {
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 30);
    }
    EXPECT_TRUE(params.validate(30).ok());
    EXPECT_LE(params.max_tokens, 4);
    EXPECT_NE(params.greedy(), params.seed.has_value());
    num_outputs += params.n;
    sum_priorities += each.request.priority;
    num_prompt_logprobs += params.prompt_logprobs ? 1 : 0;
    num_greedy += params.greedy() ? 1 : 0;
    if (!each.abort) continue;
    ++num_aborts;
    time_to_abort += *each.abort - each.arrival;
  }
  // Means within about four standard errors.
  EXPECT_NEAR(to_seconds(previous) / 2000, 1e-3, 0.1e-3);
  EXPECT_NEAR(num_aborts, 500, 80);
  EXPECT_NEAR(num_prompt_logprobs, 400, 75);
  EXPECT_NEAR(num_greedy, 600, 85);
  EXPECT_NEAR(static_cast<double>(num_outputs), 4000, 150);
  EXPECT_NEAR(static_cast<double>(sum_priorities), 0, 150);
  EXPECT_NEAR(to_seconds(time_to_abort) / num_aborts, 5e-3, 1e-3);
}

TEST(Workload, SomePromptsBeginAsOthersDo) {
  WorkloadConfig config = config_of(1);
  config.num_requests = 300;
  config.vocab_size = 1000;  // hardly any two tokens are equal by chance
  config.max_tokens = {1, 1};
  const auto shared_share = [&](double probability) {
    config.shared_prefix_probability = probability;
    const auto workload = make_workload(config);
    int num_sharing = 0;
    for (std::size_t i = 1; i < workload.size(); ++i) {
      const auto& prompt = workload[i].request.prompt_token_ids;
      const bool shares =
          std::any_of(workload.begin(), workload.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const WorkloadRequest& other) {
                        const auto& earlier = other.request.prompt_token_ids;
                        return std::equal(prompt.begin(), prompt.begin() + 2, earlier.begin());
                      });
      num_sharing += shares ? 1 : 0;
    }
    return num_sharing / 299.0;
  };
  EXPECT_LT(shared_share(0.0), 0.02);
  EXPECT_NEAR(shared_share(0.5), 0.43, 0.12);  // of those that share, some do so by 0 or 1 tokens
}

TEST(Workload, IsAFunctionOfItsSeed) {
  const auto first = make_workload(config_of(1));
  const auto again = make_workload(config_of(1));
  const auto other = make_workload(config_of(2));
  int num_different = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].arrival, again[i].arrival);
    EXPECT_EQ(first[i].abort, again[i].abort);
    EXPECT_EQ(first[i].request.prompt_token_ids, again[i].request.prompt_token_ids);
    num_different += first[i].request.prompt_token_ids != other[i].request.prompt_token_ids ? 1 : 0;
  }
  EXPECT_GT(num_different, 1900);
}

}  // namespace
}  // namespace quire
