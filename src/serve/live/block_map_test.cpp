#include "serve/live/block_map.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "serve/live/engine_look.h"

namespace quire {
namespace {

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
  const Scheduler& scheduler() const { return scheduler_; }
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
void expect_adds_up(const Scheduler& scheduler) {
  std::vector<BlockUse> uses;
  read_block_uses(scheduler, uses);
  const SchedulerStats stats = scheduler.stats();
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
  for (const RequestId id : holders) EXPECT_NE(scheduler.find(id), nullptr);
}

TEST(BlockMap, TellsFreeCachedHeldAndShared) {
  Harness harness(config_of(32, 8));
  expect_adds_up(harness.scheduler());
  harness.add(1, prompt_of(9, 10), 20);
  harness.step();
  std::vector<BlockUse> uses;
  read_block_uses(harness.scheduler(), uses);
  EXPECT_EQ(counts(uses)[block_held(1, false)], 3);
  EXPECT_EQ(counts(uses)[kBlockFree], 29);

  harness.add(2, prompt_of(9, 10), 20);  // the first two blocks are the same
  harness.step();
  read_block_uses(harness.scheduler(), uses);
  EXPECT_EQ(counts(uses)[block_held(1, true)], 2);
  EXPECT_EQ(counts(uses)[block_held(1, false)], 1);
  EXPECT_EQ(counts(uses)[block_held(2, false)], 1);
  expect_adds_up(harness.scheduler());

  (void)harness.scheduler().abort(1, harness.now());
  (void)harness.scheduler().abort(2, harness.now());
  read_block_uses(harness.scheduler(), uses);
  EXPECT_EQ(counts(uses)[kBlockCached], 2);
  EXPECT_EQ(counts(uses)[kBlockFree], 30);
  expect_adds_up(harness.scheduler());
}

TEST(BlockMap, SaysWhenAnEndedOutputsRowHoldsBlocks) {
  SchedulerConfig config = config_of(64, 2);
  config.batching = Batching::kStatic;
  Harness harness(std::move(config));
  harness.add(1, prompt_of(5, 10), 2);
  harness.add(2, prompt_of(5, 50), 30);
  for (int i = 0; i < 6; ++i) harness.step();
  std::vector<BlockUse> uses;
  read_block_uses(harness.scheduler(), uses);
  EXPECT_GT(counts(uses)[kBlockRetained], 0);
  EXPECT_GT(counts(uses)[block_held(2, false)], 0);
}

TEST(BlockMap, AddsUpUnderRandomTraffic) {
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
    ASSERT_NO_FATAL_FAILURE(expect_adds_up(harness.scheduler()));
  }
  EXPECT_GT(harness.scheduler().stats().num_preemptions, 0);
  EXPECT_GT(harness.scheduler().stats().prompt_tokens_cached, 0);
}

TEST(BlockRuns, TellEachBlockWhereRunsAreFew) {
  const BlockUse a = block_held(3, true);
  const BlockRuns map = gather_blocks(std::vector<BlockUse>{0, 0, 1, a, a, a, 0}, 4);
  EXPECT_EQ(map.blocks_per_cell, 1);
  EXPECT_EQ(map.runs, (std::vector<BlockRun>{{2, kBlockFree}, {1, kBlockCached}, {3, a}, {1, 0}}));
}

TEST(BlockRuns, KeepAFewBlocksOfALargePool) {
  std::vector<BlockUse> uses(1'000'000, kBlockFree);
  for (RequestId id = 0; id < 8; ++id) uses[500'000 + 3 * id] = block_held(id, false);
  const BlockRuns map = gather_blocks(uses, 4096);
  EXPECT_EQ(map.blocks_per_cell, 1);
  ASSERT_EQ(map.runs.size(), 17U);
  EXPECT_EQ(map.runs[0], (BlockRun{500'000, kBlockFree}));
  EXPECT_EQ(map.runs[15], (BlockRun{1, block_held(7, false)}));
}

TEST(BlockRuns, SplitACellBetweenMostOfItAndWhatARequestHolds) {
  const BlockUse a = block_held(1, false);
  const BlockUse b = block_held(2, false);
  // 32 runs leave 9 cells, so 45 blocks are in cells of 5; none is long.
  std::vector<BlockUse> uses = {a, 0, a, b, a,   // two requests; the free one counts as a's
                                0, 1, 1, 0, 0,   // no request: cached beside free
                                0, 1, 0, 1, b};  // a request before cached and free
  while (uses.size() < 45) uses.push_back(uses.size() % 2 == 0 ? a : b);
  const BlockRuns map = gather_blocks(uses, 32);
  ASSERT_EQ(map.blocks_per_cell, 5);
  ASSERT_EQ(map.runs.size(), 18U);
  EXPECT_EQ(std::vector(map.runs.begin(), map.runs.begin() + 6),
            (std::vector<BlockRun>{
                {4, a}, {1, b}, {3, 0}, {2, kBlockCached}, {4, kBlockCached}, {1, b}}));
}

std::int64_t total(const BlockRuns& map) {
  std::int64_t blocks = 0;
  for (const BlockRun& run : map.runs) blocks += run.num_blocks;
  return blocks;
}

// Requests that run together take blocks in turns, so that nearly each block is a run.
TEST(BlockRuns, DrawTheUsedPartOfALargePool) {
  std::vector<BlockUse> uses(1'000'000, kBlockFree);
  for (std::size_t i = 0; i < 6000; ++i) uses[300'000 + i] = block_held(i % 5, false);
  const BlockRuns map = gather_blocks(uses, 4096);
  EXPECT_EQ(map.blocks_per_cell, 5);
  EXPECT_LE(map.runs.size(), 4096U);
  EXPECT_EQ(map.runs.front(), (BlockRun{300'000, kBlockFree}));
  EXPECT_EQ(map.runs.back(), (BlockRun{694'000, kBlockFree}));
  EXPECT_EQ(total(map), 1'000'000);
}

TEST(BlockRuns, AreBoundedWhateverIsMixed) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<BlockUse> uses;
    const std::uint64_t longest = 1 + random_bits(seed, 0) % 400;
    for (std::uint64_t i = 1; uses.size() < 60'000; ++i) {
      const std::uint64_t bits = random_bits(seed, i);
      const BlockUse use = bits % 3 == 0 ? bits / 4 % 2 : block_held(bits / 8 % 9, bits % 2 == 0);
      uses.insert(uses.end(), 1 + bits / 1024 % longest, use);
    }
    for (const std::int64_t max_runs : {32, 100, 4096}) {
      const BlockRuns map = gather_blocks(uses, max_runs);
      ASSERT_LE(std::ssize(map.runs), max_runs) << "seed " << seed;
      ASSERT_EQ(total(map), std::ssize(uses)) << "seed " << seed;
    }
  }
}

TEST(EngineLook, ListsWhoRunsAndWhoWaitsWithTheCause) {
  Harness harness(config_of(64, 2));
  for (RequestId id = 1; id <= 4; ++id) harness.add(id, prompt_of(6, 10), 10);
  harness.step();
  harness.step();
  const EngineLook look = look_at(harness.scheduler(), harness.now());
  ASSERT_EQ(look.running.size(), 2U);
  ASSERT_EQ(look.waiting.size(), 2U);
  EXPECT_EQ(look.running[0].id, 1U);
  EXPECT_EQ(look.running[0].external_id, "req-1");
  EXPECT_EQ(look.running[0].num_prompt_tokens, 6);
  EXPECT_EQ(look.running[0].max_num_tokens, 16);
  EXPECT_EQ(look.running[0].num_blocks, 2);
  EXPECT_EQ(look.running[0].age, std::chrono::milliseconds(20));
  EXPECT_EQ(look.waiting[0].id, 3U);
  EXPECT_EQ(look.waiting[0].wait, WaitCause::kMaxNumSeqs);
  EXPECT_EQ(look.waiting[1].wait, WaitCause::kQueueOrder);
  EXPECT_GT(look.waiting[0].waited, Duration::zero());
  EXPECT_EQ(look.stats.num_waiting, 2);
}

TEST(EngineLook, ListsABoundedNumber) {
  Harness harness(config_of(64, 2));
  for (RequestId id = 1; id <= 300; ++id) harness.add(id, prompt_of(6, 10), 10);
  harness.step();
  const EngineLook look = look_at(harness.scheduler(), harness.now());
  EXPECT_EQ(look.waiting.size(), EngineLook::kMaxWaiting);
  EXPECT_EQ(look.waiting.front().id, 3U);
  EXPECT_EQ(look.stats.num_waiting, 298);
}

}  // namespace
}  // namespace quire
