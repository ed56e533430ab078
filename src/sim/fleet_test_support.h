// A small fleet and its traffic, for tests.
#pragma once

#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "sim/fleet.h"

namespace quire {

inline FleetConfig small_fleet() {
  FleetConfig config;
  config.scheduler.max_num_seqs = 8;
  config.scheduler.max_num_batched_tokens = 256;
  config.scheduler.max_model_len = 1024;
  config.scheduler.num_blocks = 8 * 1024 / 16;
  config.scheduler.max_queued = 100'000;
  // A millisecond a step and a microsecond a token.
  config.step_time = [](const SchedulerOutput& plan, std::size_t /*stage*/) {
    return std::chrono::milliseconds(1) +
           std::chrono::microseconds(plan.total_num_scheduled_tokens);
  };
  return config;
}

inline TrafficConfig some_traffic(std::int64_t num_requests, double qps) {
  TrafficConfig config;
  config.num_requests = num_requests;
  config.qps = qps;
  config.input_len = 100;
  config.output_len = 50;
  config.max_len = 1024;
  return config;
}

inline FleetResult run_fleet(const FleetConfig& config, const Traffic& traffic) {
  auto result = simulate_fleet(config, traffic);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? std::move(*result) : FleetResult();
}

inline std::int64_t output_tokens(const Traffic& traffic) {
  std::int64_t tokens = 0;
  for (const Arrival& arrival : traffic.arrivals) tokens += arrival.output_len;
  return tokens;
}

}  // namespace quire
