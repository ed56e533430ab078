// Requests that start with what others computed: prefix cache and forks.
#include <numeric>

#include "core/scheduler_fixture.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SchedulerConfig sharing_config() {
  SchedulerConfig config = small_config();
  config.max_num_batched_tokens = 64;
  config.enable_prefix_caching = true;
  return config;
}

// Tokens first, first + 1 and so on, n outputs.
AddRequest counting(RequestId id, std::int32_t num_prompt_tokens, std::int64_t max_tokens,
                    TokenId first = 100, std::int64_t n = 1) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  params.n = n;
  std::vector<TokenId> prompt(static_cast<std::size_t>(num_prompt_tokens));
  std::iota(prompt.begin(), prompt.end(), first);
  return {id, std::move(prompt), std::make_shared<const SamplingParams>(params), 0};
}

class SchedulerSharing : public SchedulerTest {};

TEST_F(SchedulerSharing, APromptStartsWithItsCachedBlocks) {
  make(sharing_config());
  add(counting(1, 10, 1));
  step();
  EXPECT_EQ(scheduler_->stats().blocks_cached, 3);
  add(counting(2, 10, 1));
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("2:9+1!"));
  ASSERT_EQ(plan.new_requests.size(), 1U);
  EXPECT_THAT(plan.blocks_of(plan.new_requests[0]), ElementsAre(0, 1, 2));
  ASSERT_EQ(plan.block_copies.size(), 1U);  // the first one's end stays what it is
  EXPECT_EQ(plan.block_copies[0].source, 2);
  EXPECT_EQ(scheduler_->stats().blocks_cached, 1);
  const auto outputs = update(plan);
  EXPECT_EQ(outputs[0].finished->num_cached_tokens(), 9);
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.prefix_cache_queries, 20);
  EXPECT_EQ(stats.prefix_cache_hits, 9);
  EXPECT_EQ(stats.prompt_tokens_cached, 9);
  EXPECT_EQ(stats.prompt_tokens_computed, 11);
}

TEST_F(SchedulerSharing, AScopeFindsItsOwnAlone) {
  make(sharing_config());
  const auto scoped = [](RequestId id, std::uint64_t scope) {
    AddRequest request = counting(id, 10, 2);
    request.cache_scope.low = scope;
    return request;
  };
  add(scoped(1, 1));
  step();
  step();
  add(scoped(2, 2));
  EXPECT_THAT(shares(schedule()), ElementsAre("2:0+10!"));
  scheduler_.reset();
  make(sharing_config());
  add(scoped(1, 1));
  step();
  step();
  add(scoped(3, 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("3:9+1!"));
}

// A conversation: each turn begins with all that was said before, and computes what is new.
TEST_F(SchedulerSharing, ATurnComputesItsNewTokensOnly) {
  make(sharing_config());
  std::vector<TokenId> said = {101, 102, 103};
  for (RequestId turn = 1; turn <= 8; ++turn) {
    AddRequest request = counting(turn, 1, 2);
    request.prompt_token_ids = said;
    add(request);
    const SchedulerOutput plan = schedule();
    const std::int32_t num_new =
        turn == 1 ? 3 : 2;  // the last token of an answer is never computed
    ASSERT_THAT(shares(plan), ElementsAre(std::to_string(turn) + ":" +
                                          std::to_string(std::ssize(said) - num_new) + "+" +
                                          std::to_string(num_new) + "!"));
    update(plan);
    step();
    said.insert(said.end(), {5, 5, static_cast<TokenId>(200 + turn)});
  }
}

// The copy of a block that others may still find takes a page more for a while; where there is none
// its tokens are computed.
TEST_F(SchedulerSharing, APartOfABlockIsComputedWhereThereIsNoRoomForItsCopy) {
  SchedulerConfig config = sharing_config();
  for (const std::int32_t num_blocks : {3, 4}) {
    config.num_blocks = num_blocks;
    make(config);
    add(counting(1, 12, 1));
    step();
    add(counting(2, 11, 2));
    EXPECT_THAT(shares(schedule()), ElementsAre(num_blocks == 3 ? "2:8+3!" : "2:10+1!"));
  }
}

TEST_F(SchedulerSharing, TheLastTokenOfAPromptIsAlwaysComputed) {
  make(sharing_config());
  add(counting(1, 8, 1));
  step();
  add(counting(2, 8, 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("2:7+1!"));
}

TEST_F(SchedulerSharing, WhatIsStillBeingComputedIsNotFound) {
  make(sharing_config());
  add(counting(1, 8, 4));
  const SchedulerOutput plan = schedule();
  add(counting(2, 10, 4));
  update(plan);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:8+1!", "2:8+2!"));
  scheduler_.reset();
  make(sharing_config());
  add(counting(1, 8, 4));
  add(counting(2, 10, 4));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+8!", "2:0+10!"));
}

TEST_F(SchedulerSharing, WithoutPrefixCachingAllIsComputed) {
  SchedulerConfig config = sharing_config();
  config.enable_prefix_caching = false;
  make(config);
  add(counting(1, 10, 1));
  step();
  add(counting(2, 10, 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("2:0+10!"));
  EXPECT_EQ(scheduler_->stats().prefix_cache_queries, 0);
}

// Their log probabilities come from computing them; others may still use what was computed.
TEST_F(SchedulerSharing, PromptLogprobsNeedEveryTokenComputed) {
  make(sharing_config());
  const auto with_logprobs = [](RequestId id) {
    AddRequest request = counting(id, 10, 1);
    SamplingParams params = *request.sampling_params;
    params.prompt_logprobs = 3;
    request.sampling_params = std::make_shared<const SamplingParams>(params);
    return request;
  };
  add(with_logprobs(1));
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+10!"));
  scheduler_.reset();
  make(sharing_config());
  add(with_logprobs(1));
  step();
  add(with_logprobs(2));
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("2:0+10!"));
  update(plan);
  add(counting(3, 10, 1));
  EXPECT_THAT(shares(schedule()), ElementsAre("3:9+1!"));
}

TEST_F(SchedulerSharing, APreemptedRequestResumesThroughTheCacheOutputIncluded) {
  SchedulerConfig config = sharing_config();
  config.num_blocks = 4;
  make(config);
  add(counting(1, 4, 4, 100));
  add(counting(2, 6, 6, 200));
  step();
  step();
  step();  // request 1 has 6 tokens computed, request 2 has 8 and two blocks, both full
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("1:6+1!"));
  EXPECT_THAT(plan.removed_request_ids, ElementsAre(2));
  update(plan);  // the end of request 1
  EXPECT_THAT(shares(schedule()), ElementsAre("2:8+1!"));
  EXPECT_EQ(scheduler_->find(2)->num_recomputed_tokens(), 0);
  EXPECT_EQ(scheduler_->find(2)->num_cached_tokens(), 0);
}

TEST_F(SchedulerSharing, OutputsOfOnePromptForkWhenItIsComputed) {
  make(sharing_config());
  add(counting(1, 10, 2, 100, 3));
  EXPECT_EQ(scheduler_->stats().num_added, 3);
  const SchedulerOutput first = schedule();
  EXPECT_THAT(shares(first), ElementsAre("1:0+10!"));
  EXPECT_EQ(scheduler_->find(2)->timeline().current(), WaitCause::kForkParent);
  update(first);
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), ElementsAre("1:10+1!", "2:9+1!", "3:9+1!"));
  ASSERT_EQ(plan.new_requests.size(), 2U);
  EXPECT_EQ(plan.new_requests[1].sample_index, 2);
  EXPECT_THAT(plan.blocks_of(plan.new_requests[1]), ElementsAre(0, 1, 2));
  ASSERT_EQ(plan.block_copies.size(), 2U);  // each writes its last prompt token into its own copy
  EXPECT_EQ(plan.block_copies[1].source, 2);
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.num_forks, 2);
  EXPECT_EQ(stats.blocks_shared, 2);
  EXPECT_EQ(stats.blocks_saved, 4);
  EXPECT_EQ(stats.blocks_used, 5);  // 2 whole ones for all, and one for each
  EXPECT_EQ(stats.prompt_tokens_cached, 18);
  EXPECT_EQ(update(plan).size(), 3U);
  while (scheduler_->has_work()) step();
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);
  EXPECT_EQ(scheduler_->stats().num_finished, 3);
}

TEST_F(SchedulerSharing, ForksSaveBlocksAgainstRequestsOfTheirOwn) {
  SchedulerConfig config = sharing_config();
  config.enable_prefix_caching = false;
  make(config);
  for (RequestId id = 1; id <= 3; ++id) add(counting(id, 10, 3));
  step();
  EXPECT_EQ(scheduler_->stats().blocks_used, 9);
  make(config);
  add(counting(1, 10, 3, 100, 3));
  step();
  step();
  EXPECT_EQ(scheduler_->stats().blocks_used, 5);
  EXPECT_EQ(scheduler_->stats().prompt_tokens_computed, 12);
}

TEST_F(SchedulerSharing, AnotherOutputLeadsWhenTheFirstIsGone) {
  SchedulerConfig config = sharing_config();
  config.enable_prefix_caching = false;
  make(config);
  add(counting(1, 10, 4, 100, 3));
  const SchedulerOutput plan = schedule();
  abort(1);
  update(plan);
  const SchedulerOutput second = schedule();
  EXPECT_THAT(shares(second), ElementsAre("2:0+10!"));
  update(second);
  EXPECT_THAT(shares(schedule()), ElementsAre("2:10+1!", "3:9+1!"));
}

TEST_F(SchedulerSharing, ThePrefixCacheServesWhenTheFirstIsGone) {
  make(sharing_config());
  add(counting(1, 10, 1, 100, 2));  // the first ends with the step that computes the prompt
  step();
  EXPECT_THAT(shares(schedule()), ElementsAre("2:9+1!"));
}

TEST_F(SchedulerSharing, MoreOutputsThanSlotsRunInTurns) {
  SchedulerConfig config = sharing_config();
  config.max_num_seqs = 2;
  make(config);
  add(counting(1, 10, 3, 100, 7));
  for (int i = 0; i < 100 && scheduler_->has_work(); ++i) step();
  EXPECT_EQ(scheduler_->stats().num_finished, 7);
  EXPECT_FALSE(scheduler_->has_work());
}

TEST_F(SchedulerSharing, AbortEndsOneOutput) {
  make(sharing_config());
  add(counting(1, 10, 4, 100, 3));
  step();
  step();
  ASSERT_NE(abort(2), nullptr);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:11+1!", "3:10+1!"));
}

// Ids may be used again once their request has ended.
TEST_F(SchedulerSharing, AnotherRequestWithTheFirstsIdIsNoSibling) {
  SchedulerConfig config = sharing_config();
  config.policy = SchedulingPolicy::kPriority;
  make(config);
  AddRequest other = counting(1, 12, 4, 500);
  other.priority = -1;
  add(counting(1, 10, 4, 100, 2));
  const SchedulerOutput plan = schedule();
  abort(1);
  add(other);
  update(plan);
  EXPECT_THAT(shares(schedule()), ElementsAre("1:0+12!", "2:0+10!"));
}

}  // namespace
}  // namespace quire
