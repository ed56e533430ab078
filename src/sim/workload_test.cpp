#include "sim/workload.h"

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
  config.vocab_size = 30;
  return config;
}

TEST(Workload, StaysWithinItsConfig) {
  const auto workload = make_workload(config_of(1));
  ASSERT_EQ(workload.size(), 2000U);
  Instant previous{};
  Duration time_to_abort{};
  int num_aborts = 0;
  RequestId id = 0;
  for (const WorkloadRequest& each : workload) {
    EXPECT_EQ(each.request.request_id, ++id);
    EXPECT_GE(each.arrival, previous);
    previous = each.arrival;
    EXPECT_GE(each.request.prompt_token_ids.size(), 3U);
    EXPECT_LE(each.request.prompt_token_ids.size(), 9U);
    for (const TokenId token : each.request.prompt_token_ids) {
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 30);
    }
    EXPECT_TRUE(each.request.sampling_params->validate(30).ok());
    EXPECT_LE(each.request.sampling_params->max_tokens, 4);
    if (!each.abort) continue;
    ++num_aborts;
    time_to_abort += *each.abort - each.arrival;
  }
  // Means within about four standard errors.
  EXPECT_NEAR(to_seconds(previous) / 2000, 1e-3, 0.1e-3);
  EXPECT_NEAR(num_aborts, 500, 80);
  EXPECT_NEAR(to_seconds(time_to_abort) / num_aborts, 5e-3, 1e-3);
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
