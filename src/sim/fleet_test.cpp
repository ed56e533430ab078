#include "sim/fleet.h"

#include <cmath>
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
  config.step_time = [](const SchedulerOutput& plan, std::size_t /*stage*/) {
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
    return milliseconds(5) + std::chrono::microseconds(50 * plan.total_num_scheduled_tokens);
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

TEST(FleetTest, DraftsThatAreRightAreTokensOfTheSameStep) {
  Traffic traffic;
  traffic.arrivals.resize(1);
  traffic.arrivals[0].input_len = 10;
  traffic.arrivals[0].output_len = 41;
  FleetConfig config = small_fleet();
  config.drafts.acceptance = {1, 1, 1};
  FleetResult result = run_fleet(config, traffic);
  EXPECT_EQ(result.num_steps, 11);  // the first token, then four a step
  EXPECT_EQ(result.draft_tokens_accepted, 30);
  config.drafts.time = milliseconds(2);  // of each of three places
  EXPECT_EQ(run_fleet(config, traffic).duration, result.duration + 10 * 3 * milliseconds(2));
  config.drafts.acceptance = {0, 1, 1};
  result = run_fleet(config, traffic);
  EXPECT_EQ(result.num_steps, 41);
  EXPECT_EQ(result.draft_tokens_accepted, 0);
}

// A log's request of 40 tokens: a step at each fourth place had three drafts, all or none right.
TEST(FleetTest, RecordedDraftsAreRightWhereTheyWere) {
  Traffic traffic;
  traffic.arrivals.resize(1);
  traffic.arrivals[0].input_len = 10;
  traffic.arrivals[0].output_len = 41;
  FleetConfig config = small_fleet();
  config.drafts.acceptance = {0, 0, 0};
  std::vector<DraftedStep> steps;
  for (std::int32_t place = 11; place < 51; place += 4) {
    steps.push_back({.place = place, .num_drafts = 3, .num_right = 3});
  }
  config.drafts.recorded =
      std::make_shared<const RecordedDrafts>(std::vector<std::vector<DraftedStep>>{steps});
  FleetResult result = run_fleet(config, traffic);
  EXPECT_EQ(result.num_steps, 11);
  EXPECT_EQ(result.draft_tokens_accepted, 30);
  // With one draft a step: those that were right are; at other places the request's rate says it.
  config.drafts.acceptance = {0};
  result = run_fleet(config, traffic);
  EXPECT_EQ(result.num_steps, 21);
  EXPECT_EQ(result.draft_tokens_accepted, 20);
  // Where the first guess was wrong, the step gave one token, and the next began behind it.
  config.drafts.acceptance = {0, 0, 0};
  steps.clear();
  for (std::int32_t place = 11; place < 51; ++place) {
    steps.push_back({.place = place, .num_drafts = place % 2 == 0 ? 3 : 0, .num_right = 0});
  }
  config.drafts.recorded =
      std::make_shared<const RecordedDrafts>(std::vector<std::vector<DraftedStep>>{steps});
  result = run_fleet(config, traffic);
  EXPECT_EQ(result.num_steps, 41);
  EXPECT_EQ(result.draft_tokens_accepted, 0);
  EXPECT_GT(result.draft_tokens, 50);
}

TEST(RecordedDraftsTest, AnswersFromThePlaceElseByARate) {
  std::vector<DraftedStep> often;
  for (std::int32_t place = 100; place < 200; place += 5) {
    often.push_back({.place = place, .num_drafts = 4, .num_right = 3});  // then a wrong one
  }
  const RecordedDrafts drafts(
      {often, {{.place = 7, .num_drafts = 2, .num_right = 2}, {.place = 10}}});
  EXPECT_EQ(drafts.most(), 4U);
  EXPECT_EQ(drafts.chance(0, 102), 1);
  EXPECT_EQ(drafts.chance(0, 103), 0);
  EXPECT_DOUBLE_EQ(drafts.chance(0, 104), 0.75);     // behind the wrong one: its own rate
  EXPECT_DOUBLE_EQ(drafts.chance(1, 9), 62.0 / 82);  // too few of its own: that of all
  EXPECT_EQ(drafts.count(0, 100, 4), 4U);
  EXPECT_EQ(drafts.count(0, 100, 8), 8U);  // it had as many as there were at most
  EXPECT_EQ(drafts.count(0, 100, 2), 2U);
  EXPECT_EQ(drafts.count(1, 7, 8), 2U);
  EXPECT_EQ(drafts.count(1, 10, 8), 0U);
  std::size_t some = 0;
  for (std::int64_t place = 11; place < 1011; ++place) some += drafts.count(1, place, 1);
  EXPECT_NEAR(static_cast<double>(some), 500, 60);  // half of its steps had drafts
}

// Leviathan et al. 2023: (1 - a^(n+1)) / (1 - a) tokens a step.
TEST(FleetTest, TokensOfAStepFollowFromTheAcceptance) {
  TrafficConfig wanted = some_traffic(20, 0);
  wanted.output_len = 900;
  wanted.spread = LengthSpread::kFixed;
  const Traffic traffic = make_traffic(wanted);
  FleetConfig config = small_fleet();
  config.scheduler.max_num_seqs = 1;
  config.drafts.acceptance = {0.8, 0.8, 0.8, 0.8};
  const FleetResult result = run_fleet(config, traffic);
  EXPECT_EQ(result.output_tokens, output_tokens(traffic));
  const double tokens_of_step =
      static_cast<double>(result.output_tokens) / static_cast<double>(result.num_steps);
  EXPECT_NEAR(tokens_of_step, (1 - std::pow(0.8, 5)) / 0.2, 0.08);
}

TEST(FleetTest, StagesComputeDifferentStepsAtATime) {
  Traffic traffic;
  traffic.arrivals.resize(2);
  for (Arrival& arrival : traffic.arrivals) {
    arrival.input_len = 10;
    arrival.output_len = 100;
  }
  FleetConfig config = small_fleet();
  config.scheduler.max_num_seqs = 1;
  const auto takes = [](int first, int second) {
    return [=](const SchedulerOutput& /*plan*/, std::size_t stage) {
      return milliseconds(stage == 0 ? first : second);
    };
  };
  config.step_time = takes(2, 0);
  EXPECT_EQ(run_fleet(config, traffic).duration, milliseconds(400));
  config.pipeline_stages = 2;
  config.step_time = takes(1, 1);
  const FleetResult staged = run_fleet(config, traffic);
  EXPECT_EQ(staged.duration, milliseconds(201));  // the second begins a stage later
  EXPECT_EQ(staged.busy, milliseconds(400));
  EXPECT_EQ(staged.server_requests, (std::vector<std::int64_t>{2}));
  // Steps wait for the slower stage, whichever it is.
  for (const auto& [first, second] : {std::pair(2, 1), std::pair(1, 2)}) {
    config.step_time = takes(first, second);
    const FleetResult uneven = run_fleet(config, traffic);
    EXPECT_EQ(uneven.duration, milliseconds(401)) << first;
    EXPECT_EQ(uneven.busy, milliseconds(600));
  }
}

TEST(FleetTest, APromptIsHandedOverWithItsKeysAndValues) {
  Traffic traffic;
  traffic.arrivals.resize(2);
  traffic.arrivals[0].input_len = 300;  // two steps: 256 and 44
  traffic.arrivals[0].output_len = 3;
  traffic.arrivals[1].time = milliseconds(100);
  traffic.arrivals[1].input_len = 10;
  traffic.arrivals[1].output_len = 1;  // which the first server gives
  FleetConfig config = small_fleet();
  config.num_servers = 2;
  config.num_prefill_servers = 1;
  std::int64_t moved = 0;
  config.transfer_time = [&moved](std::int64_t num_tokens) {
    moved += num_tokens;
    return milliseconds(5);
  };
  const FleetResult result = run_fleet(config, traffic);
  ASSERT_EQ(result.requests.size(), 2U);
  EXPECT_EQ(moved, 300);
  EXPECT_DOUBLE_EQ(result.requests[0].ttft_s(), 2e-3 + 300e-6);
  EXPECT_DOUBLE_EQ(2 * result.requests[0].tpot_s(), 5e-3 + 2 * (1e-3 + 1e-6));
  EXPECT_EQ(result.requests[0].input_len, 300);
  EXPECT_EQ(result.server_requests, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(result.prompt_tokens_computed, 310);
}

TEST(FleetTest, PromptsOfOthersDoNotDisturbWhereOthersComputeThem) {
  TrafficConfig wanted = some_traffic(300, 100);
  wanted.input_len = 600;
  const Traffic traffic = make_traffic(wanted);
  FleetConfig config = small_fleet();
  config.num_servers = 2;
  config.router = RouterPolicy::kLeastLoaded;
  config.scheduler.max_num_batched_tokens = 1024;
  config.step_time = [](const SchedulerOutput& plan, std::size_t /*stage*/) {
    return milliseconds(1) + std::chrono::microseconds(20 * plan.total_num_scheduled_tokens);
  };
  config.transfer_time = [](std::int64_t num_tokens) {
    return std::chrono::microseconds(num_tokens);
  };
  const FleetResult together = run_fleet(config, traffic);
  config.num_prefill_servers = 1;
  const FleetResult apart = run_fleet(config, traffic);
  EXPECT_EQ(apart.requests.size(), 300U);
  EXPECT_EQ(apart.output_tokens, output_tokens(traffic));
  EXPECT_LT(10 * apart.longest_step, together.longest_step);
}

TEST(FleetTest, WhatContradictsItselfIsRefused) {
  FleetConfig config = small_fleet();
  config.num_prefill_servers = 1;
  EXPECT_EQ(simulate_fleet(config, {}).status().code(), StatusCode::kInvalidArgument);
  config = small_fleet();
  config.drafts.acceptance = {0.5};
  config.scheduler.batching = Batching::kStatic;
  EXPECT_EQ(simulate_fleet(config, {}).status().code(), StatusCode::kInvalidArgument);
}

// Two turns of a conversation: the second prompt begins with the first one and its answer.
TEST(FleetTest, AnAnswerThatIsKnownIsFoundInTheNextPrompt) {
  Traffic traffic;
  traffic.arrivals.resize(2);
  for (int i = 0; i < 2; ++i) {
    Arrival& arrival = traffic.arrivals[static_cast<std::size_t>(i)];
    arrival.time = std::chrono::seconds(i);
    arrival.input_len = i == 0 ? 100 : 160;
    arrival.output_len = 60;
    arrival.token_ids.resize(static_cast<std::size_t>(arrival.input_len + arrival.output_len));
    std::iota(arrival.token_ids.begin(), arrival.token_ids.end(), 5);
  }
  const FleetResult result = run_fleet(small_fleet(), traffic);
  ASSERT_EQ(result.requests.size(), 2U);
  // All but the last one, whose logits are needed.
  EXPECT_EQ(result.requests[1].num_cached_tokens, 159);
}

// A pacer is told of every step, and its limit cuts prompts while others get their output.
TEST(FleetTest, APacerLimitsTheStepsThatOthersWaitFor) {
  const Traffic traffic = make_traffic(some_traffic(100, 40));
  FleetConfig config = small_fleet();
  const FleetResult free = run_fleet(config, traffic);
  std::int64_t num_told = 0;
  config.make_pacer = [&num_told] {
    return [&num_told](const StepWork& work, Duration time,
                       std::span<const TierReport::Fetched> /*fetches*/) {
      ++num_told;
      EXPECT_GT(work.num_rows + work.prompt_tokens, 0);
      EXPECT_GE(time, milliseconds(1));
      StepPace pace;
      pace.max_step = milliseconds(1) + std::chrono::microseconds(50);
      pace.max_prompt_tokens = 1 << 20;
      pace.cost = {.step = 1'000'000, .row = 1000, .prompt_token = 1000};
      return pace;
    };
  };
  const FleetResult paced = run_fleet(config, traffic);
  EXPECT_EQ(num_told, paced.num_steps);
  EXPECT_GT(free.longest_step, milliseconds(1) + std::chrono::microseconds(200));
  EXPECT_LE(paced.longest_step, milliseconds(1) + std::chrono::microseconds(70));
  EXPECT_EQ(paced.output_tokens, free.output_tokens);
}

}  // namespace
}  // namespace quire
