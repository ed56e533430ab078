// The real scheduler against random traffic in virtual time. Every trace is a function of its seed:
// QUIRE_SIM_SEED=n replays trace n alone.
#include "sim/scheduler_simulation.h"

#include <cstdlib>
#include <tuple>

#include <gtest/gtest.h>

namespace quire {
namespace scheduler_simulation_test {

constexpr std::uint64_t kNumShards =
    2;  // tests that may run side by side, each of which meets everything
constexpr std::uint64_t kTracesPerShard = 2500;

void expect_trace_passes(std::uint64_t seed, std::int32_t in_flight, bool groups,
                         Coverage& coverage) {
  const std::string error = Simulation(seed, in_flight, groups, coverage).run();
  ASSERT_EQ(error, "") << "replay with QUIRE_SIM_SEED=" << seed << ", " << in_flight
                       << " steps in flight" << (groups ? ", several KV groups" : "");
}

// Which traces, with how many steps in flight.
class SchedulerSimulation : public testing::TestWithParam<std::tuple<std::uint64_t, std::int32_t>> {
 protected:
  void run_traces(bool groups, Coverage& coverage) {
    const auto [shard, in_flight] = GetParam();
    const std::uint64_t first = shard * kTracesPerShard + 1;
    if (const char* seed = std::getenv("QUIRE_SIM_SEED")) {
      if (shard == 0) {
        expect_trace_passes(std::strtoull(seed, nullptr, 10), in_flight, groups, coverage);
      }
      GTEST_SKIP() << "one trace alone covers nothing";
    }
    for (std::uint64_t i = 0; i < kTracesPerShard && !HasFatalFailure(); ++i) {
      expect_trace_passes(first + i, in_flight, groups, coverage);
    }
  }
};

TEST_P(SchedulerSimulation, RandomTraces) {
  Coverage coverage;
  const bool ahead = std::get<1>(GetParam()) > 1;
  run_traces(/*groups=*/false, coverage);
  if (IsSkipped()) return;
  if (HasFatalFailure()) return;
  // About half of what the seeds gave when this was written.
  EXPECT_GT(coverage.steps, 110'000);
  EXPECT_GT(coverage.preemptions, 2700);
  EXPECT_GT(coverage.recomputed, 20'000);
  EXPECT_GT(coverage.finished_stop, 2600);
  EXPECT_GT(coverage.finished_length, 14'000);
  EXPECT_GT(coverage.forks, 4000);
  EXPECT_GT(coverage.copied_blocks, 4000);
  EXPECT_GT(coverage.cached, 95'000);
  EXPECT_GT(coverage.partial_hits, 700);
  EXPECT_GT(coverage.discarded, 12'500);
  EXPECT_GT(coverage.prompt_logprobs, 1200);
  EXPECT_GT(coverage.beams, 1);
  EXPECT_GT(coverage.searches, 1);
  EXPECT_GT(coverage.searches_preempted, 1);
  EXPECT_GT(coverage.pooled, 1000);
  EXPECT_GT(coverage.pooled_preempted, 0);
  // With another step in flight a request that has a token to come takes no drafts, and there is
  // seldom a moment without a step.
  EXPECT_GT(coverage.drafts, ahead ? 240 : 2000);
  EXPECT_GT(coverage.drafts_right, ahead ? 110 : 1000);
  EXPECT_GT(coverage.truncated_tables, ahead ? 18 : 100);
  EXPECT_GT(coverage.branched, ahead ? 10 : 1000);
  EXPECT_GT(coverage.adopted_blocks, ahead ? 1 : 50);
  for (const std::int64_t count : coverage.rejected) EXPECT_GT(count, 20);
  for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    const bool rare = cause == WaitCause::kPrefixInFlight || cause == WaitCause::kKvFetch ||
                      cause == WaitCause::kAdmissionPace;
    EXPECT_GT(coverage.waited[i], rare ? 25 : 1500) << "cause " << i;
  }
  EXPECT_GT(coverage.swapped, 30);
  EXPECT_GT(coverage.offloaded_blocks, 1000);
  EXPECT_GT(coverage.fetched_blocks, 350);
  EXPECT_GT(coverage.lost_blocks, 20);
  EXPECT_GT(coverage.pinned, 300);
  EXPECT_GT(coverage.pin_hits, 40);
  // Of who had the same computed beside another, and the other's blocks are gone.
  EXPECT_LT(20 * coverage.pins_missed, coverage.pinned) << coverage.pins_missed;
  for (const auto& [between_steps, during_step] : coverage.aborted) {
    EXPECT_GT(during_step, 65);
    if (!ahead) {
      EXPECT_GT(between_steps, 65);
    }
  }
}

TEST_P(SchedulerSimulation, RandomTracesOfSeveralKvGroups) {
  Coverage coverage;
  run_traces(/*groups=*/true, coverage);
  if (IsSkipped() || HasFatalFailure()) return;
  // About half of what the seeds gave when this was written.
  const bool ahead = std::get<1>(GetParam()) > 1;
  EXPECT_GT(coverage.steps, 100'000);
  EXPECT_GT(coverage.preemptions, 1100);
  EXPECT_GT(coverage.forks, 2200);
  EXPECT_GT(coverage.copied_blocks, 12'000);
  EXPECT_GT(coverage.cached, 72'000);
  EXPECT_GT(coverage.partial_hits, 500);
  EXPECT_GT(coverage.discarded, 17'000);
  EXPECT_GT(coverage.drafts_right, ahead ? 70 : 12'000);
  EXPECT_GT(coverage.truncated_tables, ahead ? 12 : 1400);
  EXPECT_GT(coverage.branched, ahead ? 10 : 1000);
  EXPECT_GT(coverage.adopted_blocks, ahead ? 0 : 50);
  EXPECT_GT(coverage.passed_pages, 2'500'000);
  EXPECT_GT(coverage.chunks_over_end, 9000);
  EXPECT_GT(coverage.pinned, 100);
  EXPECT_GT(coverage.pin_hits, 50);
}

INSTANTIATE_TEST_SUITE_P(Shards, SchedulerSimulation,
                         testing::Combine(testing::Range(std::uint64_t{0}, kNumShards),
                                          testing::Values(1, 2)));

TEST(SchedulerReplay, TheSameTraceGivesTheSamePlans) {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto in_flight = static_cast<std::int32_t>(1 + seed % 2);
    const bool groups = seed % 4 < 2;
    Simulation first(seed, in_flight, groups, coverage);
    Simulation second(seed, in_flight, groups, coverage);
    ASSERT_EQ(first.run(), "");
    ASSERT_EQ(second.run(), "");
    ASSERT_EQ(first.plans_hash(), second.plans_hash()) << "seed " << seed;
  }
}

}  // namespace scheduler_simulation_test
}  // namespace quire
