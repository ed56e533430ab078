#include "engine/speculator.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

// The token of a request at a position, whatever was before it.
using TokenAt = std::function<TokenId(RequestId id, std::int32_t position)>;

TokenId repeated(RequestId /*id*/, std::int32_t position) { return 10 + position % 7; }
TokenId unheard_of(RequestId id, std::int32_t position) {
  return static_cast<TokenId>(random_bits(id, static_cast<std::uint64_t>(position)) % 1'000'000);
}

SpeculativeConfig ngrams(std::int32_t count) {
  return {.method = SpeculativeMethod::kNgram,
          .num_speculative_tokens = count,
          .prompt_lookup_min = 2,
          .prompt_lookup_max = 4};
}

// A scheduler and a speculator, and steps that take what they are said to.
class Loop {
 public:
  explicit Loop(const SpeculativeConfig& config, TokenAt token_at = repeated)
      : token_at_(std::move(token_at)),
        scheduler_(scheduler_config(config)),
        speculator_(make_lookup_drafter(config, 8, 2000), config.num_speculative_tokens, 8,
                    clock_) {}

  std::int64_t step_ns = 1'000'000;
  std::int64_t row_ns = 50'000;  // of a step; a prompt's token takes as much

  void add(RequestId id, std::int64_t max_tokens, DraftCount count = std::nullopt,
           std::int64_t n = 1) {
    SamplingParams params;
    params.max_tokens = max_tokens;
    params.n = n;
    AddRequest request;
    request.request_id = id;
    for (std::int32_t i = 0; i < 40; ++i) request.prompt_token_ids.push_back(token_at_(id, i));
    request.sampling_params = std::make_shared<const SamplingParams>(params);
    ASSERT_TRUE(scheduler_.add(request, now_).ok());
    for (std::int64_t i = 0; i < n; ++i) speculator_.begin(id + static_cast<RequestId>(i), count);
  }

  void step() {
    speculator_.propose(scheduler_, [&](RequestId id, DraftTreeView drafts) {
      scheduler_.propose(id, drafts);
      ++num_proposals[id];
    });
    ASSERT_TRUE(scheduler_.schedule(now_, plan_).ok());
    ModelRunnerOutput result;
    result.step_id = plan_.step_id;
    for (const ScheduledRequest& each : plan_.scheduled) {
      if (each.use != RowUse::kTokens) continue;
      const DraftTreeView drafts = plan_.drafts_of(each);
      drafts_of[each.request_id] += each.num_drafts;
      branched_of[each.request_id] += each.num_branched;
      std::int32_t position = each.end_without_drafts();
      for (std::optional<std::int32_t> node = DraftTreeView::kRoot; node;) {
        const TokenId token = token_at_(each.request_id, position++);
        result.sampled.push_back({.request_id = each.request_id, .token_id = token});
        node = drafts.child(*node, token);
      }
    }
    const Duration time(step_ns + row_ns * plan_.total_num_scheduled_tokens);
    now_ += time;
    std::vector<RequestStepOutput> outputs;
    ASSERT_TRUE(scheduler_.update(result, now_, outputs).ok());
    ASSERT_EQ(scheduler_.check_invariants().message(), "");
    speculator_.took(plan_, result, time);
    for (const RequestStepOutput& output : outputs) {
      if (output.finished == nullptr) continue;
      speculator_.end(output.request_id, output.finished->output_token_ids());
    }
    speculator_.read_ahead(scheduler_);
  }
  // Until nothing runs; returns the time that it took, in milliseconds.
  double run() {
    const Instant start = now_;
    while (scheduler_.has_work()) {
      step();
      if (testing::Test::HasFatalFailure()) break;
    }
    return std::chrono::duration<double, std::milli>(now_ - start).count();
  }

  SchedulerStats stats() const { return scheduler_.stats(); }
  std::map<RequestId, int> num_proposals;
  std::map<RequestId, int> drafts_of;
  std::map<RequestId, int> branched_of;

 private:
  static SchedulerConfig scheduler_config(const SpeculativeConfig& speculation) {
    SchedulerConfig config;
    config.max_draft_paths = speculation.max_draft_paths();
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 256;
    config.max_model_len = 2000;
    config.num_blocks = 1000;
    return config;
  }

  TokenAt token_at_;
  Scheduler scheduler_;
  SteadyClock clock_;
  Speculator speculator_;
  SchedulerOutput plan_;
  Instant now_{};
};

// Every third token is one of three, at random.
TokenId forked(RequestId /*id*/, std::int32_t position) {
  if (position % 3 != 2) return 10 + position % 3;
  return 20 + static_cast<TokenId>(random_bits(7, static_cast<std::uint64_t>(position)) % 3);
}

TEST(Speculator, ATreeIsRightWhereAChainMayBeWrong) {
  SpeculativeConfig config = {.method = SpeculativeMethod::kSuffix,
                              .num_speculative_tokens = 12,
                              .suffix_max_spec_factor = 4};
  Loop chain(config, forked);
  config.suffix_max_tree_width = 4;
  Loop tree(config, forked);
  for (Loop* loop : {&chain, &tree}) {
    loop->row_ns = 10'000;
    loop->add(1, 1500);
  }
  const double chain_time = chain.run();
  const double tree_time = tree.run();
  EXPECT_EQ(chain.branched_of[1], 0);
  EXPECT_GT(tree.branched_of[1], 50);
  EXPECT_LT(tree_time, 0.9 * chain_time);
}

TEST(Speculator, WhatCanBeLookedUpComesFaster) {
  Loop plain(ngrams(8));
  plain.add(1, 400, 0);
  const double plain_time = plain.run();
  EXPECT_EQ(plain.stats().draft_tokens, 0);
  Loop loop(ngrams(8));
  loop.add(1, 400);
  const double time = loop.run();
  // Nine rows take 1.45 ms where one takes 1.05, and give nine tokens.
  EXPECT_LT(time, 0.25 * plain_time);
  const SchedulerStats stats = loop.stats();
  EXPECT_GT(stats.draft_tokens_accepted, 300);
  EXPECT_LT(stats.draft_tokens_rejected, 10);
}

TEST(Speculator, WhereRowsCostAsMuchAsStepsNothingIsGuessedForLong) {
  Loop plain(ngrams(8));
  plain.step_ns = 1000;
  plain.row_ns = 1'000'000;
  plain.add(1, 1900, 0);
  const double plain_time = plain.run();
  Loop loop(ngrams(8));
  loop.step_ns = 1000;
  loop.row_ns = 1'000'000;
  loop.add(1, 1900);
  EXPECT_LT(loop.run(), 1.02 * plain_time);
}

TEST(Speculator, WhatCannotBeLookedUpTakesNoLonger) {
  // Pairs of tokens come again, and what follows them is another each time.
  const auto misleading = [](RequestId id, std::int32_t position) {
    return position % 3 < 2 ? TokenId{10} + position % 3 : unheard_of(id, position);
  };
  for (const std::int64_t row_ns : {20'000, 300'000, 900'000}) {
    Loop plain(ngrams(8), misleading);
    plain.row_ns = row_ns;
    plain.add(1, 1500, 0);
    const double plain_time = plain.run();
    Loop loop(ngrams(8), misleading);
    loop.row_ns = row_ns;
    loop.add(1, 1500);
    EXPECT_LT(loop.run(), 1.02 * plain_time) << row_ns;
  }
}

// Those whose text repeats itself get drafts, the others beside them do not.
TEST(Speculator, EachRequestHasItsOwnDrafts) {
  Loop loop(ngrams(4), [](RequestId id, std::int32_t position) {
    if (id == 1) return repeated(id, position);
    return position % 3 < 2 ? TokenId{10} + position % 3 : unheard_of(id, position);
  });
  loop.row_ns = 300'000;
  loop.add(1, 600);
  loop.add(2, 200);
  loop.run();
  EXPECT_GT(loop.drafts_of[1], 300);
  EXPECT_LT(loop.drafts_of[2], 40);
}

TEST(Speculator, ARequestMayAskForItsNumber) {
  Loop loop(ngrams(8));
  loop.row_ns = 5'000'000;  // whatever it costs
  loop.add(1, 61, 3);
  loop.add(2, 61, 0);
  loop.run();
  EXPECT_EQ(loop.drafts_of[2], 0);
  EXPECT_EQ(loop.num_proposals[2], 0);
  EXPECT_EQ(loop.stats().draft_tokens, loop.drafts_of[1]);
  EXPECT_EQ(loop.stats().draft_tokens_rejected, 0);
  // After the first token four come with each step.
  EXPECT_EQ(loop.drafts_of[1], 45);
}

TEST(Speculator, EachOfTheOutputsIsFollowed) {
  Loop loop(ngrams(8));
  loop.add(1, 60, 4, 3);
  loop.run();
  for (const RequestId id : {1, 2, 3}) EXPECT_GT(loop.drafts_of[id], 20) << id;
}

}  // namespace
}  // namespace quire
