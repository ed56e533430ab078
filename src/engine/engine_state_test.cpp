#include "engine/engine_state.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "core/scheduler.h"

namespace quire {
namespace engine_state_test {

// A scheduler with an executor that samples token 1 for ever.
class Harness {
 public:
  explicit Harness(SchedulerConfig config) : scheduler_(std::move(config)) {}

  void add(RequestId id, std::vector<TokenId> prompt, std::int64_t max_tokens, std::int64_t n = 1) {
    SamplingParams params;
    params.max_tokens = max_tokens;
    params.n = n;
    params.ignore_eos = true;
    const Status added =
        scheduler_.add({.request_id = id,
                        .prompt_token_ids = std::move(prompt),
                        .sampling_params = std::make_shared<const SamplingParams>(params),
                        .external_id = "req-" + std::to_string(id)},
                       now_);
    EXPECT_TRUE(added.ok()) << added.to_string();
  }
  void step() {
    now_ += std::chrono::milliseconds(10);
    ASSERT_TRUE(scheduler_.schedule(now_, plan_).ok());
    if (plan_.empty()) return;
    result_.clear();
    result_.step_id = plan_.step_id;
    for (const ScheduledRequest& each : plan_.scheduled) {
      if (each.use == RowUse::kTokens)
        result_.sampled.push_back({.request_id = each.request_id, .token_id = 1});
    }
    ASSERT_TRUE(scheduler_.update(result_, now_, outputs_).ok());
  }
  EngineState state() const { return EngineState(scheduler_); }
  Scheduler& scheduler() { return scheduler_; }
  Instant now() const { return now_; }

 private:
  Scheduler scheduler_;
  Instant now_{};
  SchedulerOutput plan_;
  ModelRunnerOutput result_;
  std::vector<RequestStepOutput> outputs_;
};

SchedulerConfig config_of(std::int32_t num_blocks, std::int32_t max_num_seqs) {
  SchedulerConfig config;
  config.max_num_seqs = max_num_seqs;
  config.max_num_batched_tokens = 64;
  config.max_model_len = 128;
  config.block_size = 4;
  config.num_blocks = num_blocks;
  return config;
}

std::vector<TokenId> prompt_of(std::size_t size, TokenId first) {
  std::vector<TokenId> prompt(size);
  for (std::size_t i = 0; i < size; ++i) prompt[i] = first + static_cast<TokenId>(i);
  return prompt;
}

std::map<BlockUse, std::int64_t> counts(const std::vector<BlockUse>& uses) {
  std::map<BlockUse, std::int64_t> result;
  for (const BlockUse use : uses) ++result[use];
  return result;
}

// The map must say what the scheduler's own counters say.
void expect_adds_up(const EngineState& state) {
  std::vector<BlockUse> uses;
  state.read_block_uses(uses);
  const EngineStats stats = state.stats();
  ASSERT_EQ(std::ssize(uses), stats.blocks_total);
  std::int64_t used = 0;
  std::int64_t shared = 0;
  std::set<RequestId> holders;
  for (const BlockUse use : uses) {
    used += use >= kBlockRetained ? 1 : 0;
    shared += use > kBlockRetained && use % 2 == 1 ? 1 : 0;
    if (use > kBlockRetained) holders.insert((use - 4) / 2);
  }
  auto by_use = counts(uses);
  EXPECT_EQ(by_use[kBlockFree], stats.blocks_free - stats.blocks_cached);
  EXPECT_EQ(by_use[kBlockCached], stats.blocks_cached);
  EXPECT_EQ(used, stats.blocks_used);
  EXPECT_EQ(shared, stats.blocks_shared);
  EXPECT_EQ(by_use[kBlockRetained], 0);
  for (const RequestId id : holders) EXPECT_TRUE(state.find(id, Instant{}));
}

TEST(EngineState, TellsPinnedBlocksThatNobodyUses) {
  SchedulerConfig config = config_of(32, 8);
  config.max_pinned_blocks = 8;
  Harness harness(config);
  SamplingParams params;
  params.max_tokens = 1;
  ASSERT_TRUE(harness.scheduler()
                  .add({.request_id = 1,
                        .prompt_token_ids = prompt_of(9, 10),
                        .sampling_params = std::make_shared<const SamplingParams>(params),
                        .pin = 5},
                       harness.now())
                  .ok());
  harness.step();
  ASSERT_EQ(harness.state().pins().size(), 1U);
  EXPECT_EQ(harness.state().pins()[0].id, 5U);
  std::vector<BlockUse> uses;
  harness.state().read_block_uses(uses);
  EXPECT_EQ(counts(uses)[kBlockPinned], 2);
  harness.add(2, prompt_of(9, 10), 20);
  harness.step();
  harness.state().read_block_uses(uses);
  EXPECT_EQ(counts(uses)[kBlockPinned], 0);
  EXPECT_EQ(counts(uses)[block_held(2, true)], 2);
  EXPECT_EQ(harness.state().stats().blocks_pinned, 2);
}

TEST(EngineState, TellsBlocksFreeCachedHeldAndShared) {
  Harness harness(config_of(32, 8));
  expect_adds_up(harness.state());
  harness.add(1, prompt_of(9, 10), 20);
  harness.step();
  std::vector<BlockUse> uses;
  harness.state().read_block_uses(uses);
  EXPECT_EQ(counts(uses)[block_held(1, false)], 3);
  EXPECT_EQ(counts(uses)[kBlockFree], 29);

  harness.add(2, prompt_of(9, 10), 20);  // the first two blocks are the same
  harness.step();
  harness.state().read_block_uses(uses);
  EXPECT_EQ(counts(uses)[block_held(1, true)], 2);
  EXPECT_EQ(counts(uses)[block_held(1, false)], 1);
  EXPECT_EQ(counts(uses)[block_held(2, false)], 1);
  expect_adds_up(harness.state());

  (void)harness.scheduler().abort(1, harness.now());
  (void)harness.scheduler().abort(2, harness.now());
  harness.state().read_block_uses(uses);
  EXPECT_EQ(counts(uses)[kBlockCached], 3);  // the end of the first, too
  EXPECT_EQ(counts(uses)[kBlockFree], 29);
  expect_adds_up(harness.state());
}

TEST(EngineState, SaysWhenAnEndedOutputsRowHoldsBlocks) {
  SchedulerConfig config = config_of(64, 2);
  config.batching = Batching::kStatic;
  Harness harness(std::move(config));
  harness.add(1, prompt_of(5, 10), 2);
  harness.add(2, prompt_of(5, 50), 30);
  for (int i = 0; i < 6; ++i) harness.step();
  std::vector<BlockUse> uses;
  harness.state().read_block_uses(uses);
  EXPECT_GT(counts(uses)[kBlockRetained], 0);
  EXPECT_GT(counts(uses)[block_held(2, false)], 0);
}

TEST(EngineState, BlocksAddUpUnderRandomTraffic) {
  Harness harness(config_of(40, 6));  // too few blocks: requests are preempted
  RequestId next = 1;
  for (std::uint64_t round = 0; round < 400; ++round) {
    const std::uint64_t bits = random_bits(5, round);
    if (bits % 3 == 0) {
      const std::int64_t n = bits % 7 == 0 ? 3 : 1;
      harness.add(next, prompt_of(1 + bits / 8 % 30, static_cast<TokenId>(bits / 1024 % 3)),
                  static_cast<std::int64_t>(1 + bits / 4096 % 30), n);
      next += static_cast<RequestId>(n);
    }
    if (bits % 11 == 0) (void)harness.scheduler().abort(1 + bits / 64 % next, harness.now());
    harness.step();
    ASSERT_NO_FATAL_FAILURE(expect_adds_up(harness.state()));
  }
  EXPECT_GT(harness.state().stats().num_preemptions, 0);
  EXPECT_GT(harness.state().stats().prompt_tokens_cached, 0);
}

TEST(EngineState, ListsWhoRunsAndWhoWaitsWithTheCause) {
  Harness harness(config_of(64, 2));
  for (RequestId id = 1; id <= 4; ++id) harness.add(id, prompt_of(6, 10), 10);
  harness.step();
  harness.step();
  const auto running = harness.state().running(9, harness.now());
  const auto waiting = harness.state().waiting(9, harness.now());
  ASSERT_EQ(running.size(), 2U);
  ASSERT_EQ(waiting.size(), 2U);
  EXPECT_EQ(running[0].id, 1U);
  EXPECT_EQ(running[0].external_id, "req-1");
  EXPECT_EQ(running[0].num_prompt_tokens, 6);
  EXPECT_EQ(running[0].max_num_tokens, 16);
  EXPECT_EQ(running[0].num_blocks, 2);
  EXPECT_EQ(harness.now() - running[0].arrival, std::chrono::milliseconds(20));
  EXPECT_EQ(waiting[0].id, 3U);
  EXPECT_EQ(waiting[0].wait, WaitCause::kMaxNumSeqs);
  EXPECT_EQ(waiting[1].wait, WaitCause::kQueueOrder);
  EXPECT_GT(waiting[0].waited, Duration::zero());
  EXPECT_EQ(harness.state().stats().num_waiting, 2);
}

TEST(EngineState, ListsABoundedNumber) {
  Harness harness(config_of(64, 2));
  for (RequestId id = 1; id <= 300; ++id) harness.add(id, prompt_of(6, 10), 10);
  harness.step();
  const auto waiting = harness.state().waiting(128, harness.now());
  EXPECT_EQ(waiting.size(), 128U);
  EXPECT_EQ(waiting.front().id, 3U);
  EXPECT_EQ(harness.state().stats().num_waiting, 298);
}

}  // namespace engine_state_test
}  // namespace quire
