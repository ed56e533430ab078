#include "sim/fleet.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;

FleetConfig small_fleet() {
  FleetConfig config;
  config.scheduler.max_num_seqs = 8;
  config.scheduler.max_num_batched_tokens = 256;
  config.scheduler.max_model_len = 1024;
  config.scheduler.num_blocks = 8 * 1024 / 16;
  config.scheduler.max_queued = 100'000;
  // A millisecond a step and a microsecond a token.
  config.step_time = [](const SchedulerOutput& plan) {
    return milliseconds(1) + std::chrono::microseconds(plan.total_num_scheduled_tokens);
  };
  return config;
}

TrafficConfig some_traffic(std::int64_t num_requests, double qps) {
  TrafficConfig config;
  config.num_requests = num_requests;
  config.qps = qps;
  config.input_len = 100;
  config.output_len = 50;
  config.max_len = 1024;
  return config;
}

FleetResult run_fleet(const FleetConfig& config, const Traffic& traffic) {
  auto result = simulate_fleet(config, traffic);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? std::move(*result) : FleetResult();
}

std::int64_t output_tokens(const Traffic& traffic) {
  std::int64_t tokens = 0;
  for (const Arrival& arrival : traffic.arrivals) tokens += arrival.output_len;
  return tokens;
}

TEST(FleetTest, OneRequestTakesItsSteps) {
  Traffic traffic;
  traffic.arrivals.resize(1);
  traffic.arrivals[0].time = milliseconds(5);
  traffic.arrivals[0].input_len = 300;  // two steps: 256 and 44
  traffic.arrivals[0].output_len = 3;
  const FleetResult result = run_fleet(small_fleet(), traffic);
  ASSERT_EQ(result.requests.size(), 1U);
  EXPECT_EQ(result.num_steps, 4);
  EXPECT_DOUBLE_EQ(result.requests[0].ttft_s(), 2e-3 + 300e-6);
  EXPECT_DOUBLE_EQ(result.requests[0].tpot_s(), 1e-3 + 1e-6);
  EXPECT_EQ(result.duration, milliseconds(9) + std::chrono::microseconds(302));
  EXPECT_EQ(result.busy, milliseconds(4) + std::chrono::microseconds(302));
}

TEST(FleetTest, EveryRequestEndsWithItsTokensAndTimesAddUp) {
  for (const int servers : {1, 3}) {
    for (const RouterPolicy router :
         {RouterPolicy::kRoundRobin, RouterPolicy::kLeastLoaded, RouterPolicy::kPrefix}) {
      FleetConfig config = small_fleet();
      config.num_servers = servers;
      config.router = router;
      config.scheduler.num_blocks = 80;  // some are preempted
      const Traffic traffic = make_traffic(some_traffic(400, 200));
      const FleetResult result = run_fleet(config, traffic);
      EXPECT_EQ(result.requests.size(), 400U);
      EXPECT_EQ(result.output_tokens, output_tokens(traffic));
      EXPECT_EQ(result.num_preemptions > 0, servers == 1);
      EXPECT_LE(result.busy, result.duration * servers);
      EXPECT_EQ(std::accumulate(result.server_requests.begin(), result.server_requests.end(),
                                std::int64_t{0}),
                400);
      for (const SimulatedRequest& each : result.requests) {
        EXPECT_LT(each.arrival, each.first_token);
        EXPECT_LE(each.first_token, each.end);
      }
      // The same again.
      const FleetResult again = run_fleet(config, traffic);
      EXPECT_EQ(again.duration, result.duration);
      EXPECT_EQ(again.num_steps, result.num_steps);
    }
  }
}

TEST(FleetTest, WhatNeverFitsIsRejectedByItsCause) {
  Traffic traffic = make_traffic(some_traffic(10, 100));
  traffic.arrivals[4].input_len = 2000;
  const FleetResult result = run_fleet(small_fleet(), traffic);
  EXPECT_EQ(result.requests.size(), 9U);
  EXPECT_EQ(result.num_rejected[static_cast<std::size_t>(RejectCause::kPromptTooLong)], 1);
}

TEST(FleetTest, ContinuousBatchingPaysWithLengthsThatVary) {
  TrafficConfig wanted = some_traffic(300, 0);
  wanted.spread = LengthSpread::kGeometric;
  const Traffic traffic = make_traffic(wanted);
  FleetConfig config = small_fleet();
  const FleetResult continuous = run_fleet(config, traffic);
  config.scheduler.batching = Batching::kStatic;
  const FleetResult fixed = run_fleet(config, traffic);
  EXPECT_GT(to_seconds(fixed.duration) / to_seconds(continuous.duration), 1.8);
  EXPECT_GT(fixed.tokens_discarded, 0);
  EXPECT_EQ(continuous.tokens_discarded, 0);
}

TEST(FleetTest, ReservedMemoryIsMostlyEmptyAndPagesAreNot) {
  TrafficConfig wanted = some_traffic(200, 0);
  wanted.input_len = 160;
  wanted.output_len = 200;
  const Traffic traffic = make_traffic(wanted);
  FleetConfig paged = small_fleet();
  EXPECT_LT(run_fleet(paged, traffic).kv_waste, 0.04);
  FleetConfig reserved = small_fleet();
  reserved.scheduler.block_size = reserved.scheduler.max_model_len;
  reserved.scheduler.num_blocks = 8;
  const double waste = run_fleet(reserved, traffic).kv_waste;
  EXPECT_GT(waste, 0.6);
  EXPECT_LT(waste, 0.8);
}

TEST(FleetTest, ARouterThatKnowsPrefixesFindsMoreOfThem) {
  TrafficConfig wanted = some_traffic(600, 60);
  wanted.num_prefixes = 24;
  wanted.prefix_len = 320;
  wanted.input_len = 32;
  wanted.output_len = 16;
  const Traffic traffic = make_traffic(wanted);
  FleetConfig config = small_fleet();
  config.num_servers = 4;
  config.scheduler.num_blocks = 220;  // of a server: not all beginnings at once
  config.router = RouterPolicy::kRoundRobin;
  const FleetResult blind = run_fleet(config, traffic);
  config.router = RouterPolicy::kPrefix;
  const FleetResult aware = run_fleet(config, traffic);
  const auto rate = [](const FleetResult& result) {
    return static_cast<double>(result.prefix_cache_hits) /
           static_cast<double>(result.prefix_cache_queries);
  };
  EXPECT_GT(rate(aware), 1.2 * rate(blind));
  EXPECT_GT(rate(aware), 0.7);
}

TEST(FleetTest, ChunksBoundWhatOthersWaitFor) {
  Traffic traffic;
  traffic.arrivals.resize(2);
  traffic.arrivals[0].input_len = 10;
  traffic.arrivals[0].output_len = 100;
  traffic.arrivals[1].time = milliseconds(20);
  traffic.arrivals[1].input_len = 1000;
  traffic.arrivals[1].output_len = 1;
  FleetConfig config = small_fleet();
  const Duration chunked = run_fleet(config, traffic).longest_step;
  config.scheduler.enable_chunked_prefill = false;
  config.scheduler.max_num_batched_tokens = 1024;
  const Duration whole = run_fleet(config, traffic).longest_step;
  EXPECT_LE(chunked, milliseconds(1) + std::chrono::microseconds(256));
  EXPECT_GE(whole, milliseconds(2));
}

}  // namespace
}  // namespace quire
