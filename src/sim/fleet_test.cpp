#include "sim/fleet.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/fleet_test_support.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

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
