#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "sim/fleet_test_support.h"

namespace quire {
namespace {

// What is known of costs, and how preemption uses it.
struct Preempting {
  const char* name;
  bool measured;         // what steps take
  Duration block_fetch;  // of a tier, of which is known what that takes; zero: there is no tier
  bool swaps;
};

class Oversubscribed : public testing::TestWithParam<Preempting> {};

// 64 requests run where there are blocks, of which a quarter as many are there as they need in the
// end. Preemptions cost no more than 15% beside a server that never runs more than fit, and each
// token that is computed takes what it takes where as many run without pressure.
TEST_P(Oversubscribed, AQuarterOfTheBlocksThatAreNeededCostsNoThrashing) {
  TrafficConfig some = some_traffic(1000, 0);
  some.input_len = 256;
  some.output_len = 192;
  const Traffic traffic = make_traffic(some);
  FleetConfig config = small_fleet();
  config.step_time = [](const SchedulerOutput& plan, std::size_t /*stage*/) {
    return std::chrono::milliseconds(5) +
           std::chrono::microseconds(50 * plan.total_num_scheduled_tokens);
  };
  if (GetParam().measured) {
    config.pace.cost = {.step = 5'000'000, .row = 50'000, .prompt_token = 50'000};
  }
  if (GetParam().block_fetch > Duration::zero()) {
    config.pace.block_fetch = GetParam().block_fetch;
    config.tier = {.max_blocks = 1 << 16, .block_time = GetParam().block_fetch};
  }
  const auto computed_per_s = [](const FleetResult& result) {
    const std::int64_t tokens =
        result.prompt_tokens_computed + result.tokens_recomputed + result.output_tokens;
    return static_cast<double>(tokens) / to_seconds(result.duration);
  };
  const auto run = [&](std::int32_t max_num_seqs, std::int32_t num_blocks) {
    config.scheduler.max_num_seqs = max_num_seqs;
    config.scheduler.num_blocks = num_blocks;
    return run_fleet(config, traffic);
  };
  constexpr std::int32_t kBlocksOfOne = (256 + 192) / 16;
  constexpr std::int32_t kAllBlocks = 64 * kBlocksOfOne;
  const FleetResult pressed = run(64, kAllBlocks / 4);
  EXPECT_GT(pressed.num_preemptions, 200);
  // All but those of requests that have hardly begun.
  EXPECT_GT(pressed.num_preemptions_by_swap,
            GetParam().swaps ? pressed.num_preemptions * 95 / 100 : -1);
  EXPECT_LE(pressed.num_preemptions_by_swap, GetParam().swaps ? pressed.num_preemptions : 0);
  EXPECT_EQ(pressed.requests.size(), 1000U);
  const FleetResult as_fit = run(16, kAllBlocks);
  EXPECT_EQ(as_fit.num_preemptions, 0);
  const auto tokens_per_s = [](const FleetResult& result) {
    return static_cast<double>(result.output_tokens) / to_seconds(result.duration);
  };
  EXPECT_GT(tokens_per_s(pressed), 0.85 * tokens_per_s(as_fit));
  const FleetResult as_many =
      run(static_cast<std::int32_t>(std::lround(pressed.running)), kAllBlocks);
  EXPECT_EQ(as_many.num_preemptions, 0);
  EXPECT_NEAR(computed_per_s(pressed) / computed_per_s(as_many), 1, 0.15);
  RecordProperty("tokens_per_s", std::to_string(tokens_per_s(pressed)));
  RecordProperty("tokens_per_s_as_fit", std::to_string(tokens_per_s(as_fit)));
  RecordProperty("computed_per_s", std::to_string(computed_per_s(pressed)));
  RecordProperty("computed_per_s_as_many", std::to_string(computed_per_s(as_many)));
  RecordProperty("preemptions", std::to_string(pressed.num_preemptions));
  RecordProperty("recomputed", std::to_string(pressed.tokens_recomputed));
}

INSTANTIATE_TEST_SUITE_P(
    Costs, Oversubscribed,
    testing::Values(Preempting{"Unmeasured", false, Duration::zero(), false},
                    Preempting{"Measured", true, Duration::zero(), false},
                    Preempting{"FastTier", true, std::chrono::microseconds(40), true},
                    Preempting{"SlowTier", true, std::chrono::microseconds(1200), false}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace quire
