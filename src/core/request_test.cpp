#include "core/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr TokenId kEosToken = 2;
constexpr TokenId kEndOfTurn = 7;

Request make_request(SamplingParams params, std::int32_t max_model_len = 100) {
  const std::vector<TokenId> eos = {kEndOfTurn, kEosToken};
  const AddRequest added = {
      1, {10, 11, 12}, std::make_shared<const SamplingParams>(std::move(params)), 0};
  return Request(added, {.id = 1}, eos, max_model_len, 5ns);
}

SamplingParams with_max_tokens(std::int64_t max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return params;
}

// Computes all that is pending and appends a sampled token.
void step(Request& request, TokenId token, Instant now) {
  const std::int32_t n = request.num_pending_tokens();
  request.schedule(n, {}, now);
  request.complete(n);
  request.append_output(token, now);
}

TEST(Request, LivesFromWaitingToFinished) {
  Request request = make_request(with_max_tokens(2));
  EXPECT_EQ(request.state(), RequestState::kWaiting);
  EXPECT_EQ(request.arrival(), 5ns);
  EXPECT_EQ(request.num_pending_tokens(), 3);
  request.start(0, 6ns);
  EXPECT_EQ(request.state(), RequestState::kRunning);
  step(request, 20, 7ns);
  EXPECT_EQ(request.num_computed_tokens(), 3);
  EXPECT_EQ(request.num_pending_tokens(), 1);
  step(request, 21, 8ns);
  EXPECT_TRUE(request.finished());
  EXPECT_EQ(request.finish_reason(), FinishReason::kLength);
  EXPECT_EQ(request.stop_token_id(), std::nullopt);
  EXPECT_EQ(request.first_scheduled(), 6ns);
  EXPECT_EQ(request.first_token(), 7ns);
  EXPECT_EQ(request.finish_time(), 8ns);
  EXPECT_THAT(request.prompt_token_ids(), ElementsAre(10, 11, 12));
  EXPECT_THAT(request.output_token_ids(), ElementsAre(20, 21));
}

TEST(Request, EveryEndOfSequenceIdEndsIt) {
  for (const TokenId id : {kEosToken, kEndOfTurn}) {
    Request request = make_request({});
    request.start(0, 6ns);
    step(request, id, 7ns);
    EXPECT_EQ(request.finish_reason(), FinishReason::kStop);
    EXPECT_EQ(request.stop_token_id(), id);
  }
}

TEST(Request, IgnoreEosLeavesStopTokenIds) {
  SamplingParams params;
  params.ignore_eos = true;
  params.stop_token_ids = {33};
  Request request = make_request(params);
  request.start(0, 6ns);
  step(request, kEosToken, 7ns);
  EXPECT_FALSE(request.finished());
  step(request, 33, 8ns);
  EXPECT_EQ(request.finish_reason(), FinishReason::kStop);
  EXPECT_EQ(request.stop_token_id(), 33);
}

TEST(Request, AStopIdAsTheLastAllowedTokenIsAStop) {
  Request request = make_request(with_max_tokens(1));
  request.start(0, 6ns);
  step(request, kEosToken, 7ns);
  EXPECT_EQ(request.finish_reason(), FinishReason::kStop);
}

TEST(Request, MaxModelLenEndsIt) {
  Request request = make_request(with_max_tokens(1'000'000'000'000), 5);
  EXPECT_EQ(request.max_output_tokens(), 2);
  EXPECT_EQ(request.max_computed_tokens(), 4);
  request.start(0, 6ns);
  step(request, 20, 7ns);
  step(request, 21, 8ns);
  EXPECT_EQ(request.finish_reason(), FinishReason::kLength);
  EXPECT_EQ(request.num_tokens(), 5);
}

TEST(Request, PreemptionKeepsTokensAndCountsWhatIsComputedAgain) {
  Request request = make_request({});
  request.start(0, 6ns);
  step(request, 20, 7ns);
  step(request, 21, 8ns);  // 4 of 5 tokens computed
  request.preempt({}, 9ns);
  EXPECT_EQ(request.state(), RequestState::kPreempted);
  EXPECT_EQ(request.num_computed_tokens(), 0);
  EXPECT_EQ(request.num_pending_tokens(), 5);
  EXPECT_THAT(request.output_token_ids(), ElementsAre(20, 21));
  request.wait(WaitCause::kNoFreeBlocks, 10ns);
  EXPECT_EQ(request.timeline().current(), WaitCause::kPreempted);

  request.start(0, 12ns);
  request.schedule(2, {}, 12ns);
  EXPECT_EQ(request.timeline().total(WaitCause::kPreempted, 20ns), 3ns);
  Request::Computed computed = request.complete(2);
  EXPECT_EQ(computed.num_again, 2);
  EXPECT_EQ(computed.num_first_prompt + computed.num_first_output, 0);
  request.schedule(3, {}, 13ns);
  computed = request.complete(3);
  EXPECT_EQ(computed.num_again, 2);
  EXPECT_EQ(computed.num_first_output, 1);
  EXPECT_EQ(request.num_recomputed_tokens(), 4);
  EXPECT_EQ(request.num_preemptions(), 1);
  EXPECT_EQ(request.first_scheduled(), 6ns);
}

TEST(Request, ChunksCountEachPromptTokenOnce) {
  Request request = make_request({});
  request.start(0, 6ns);
  request.schedule(2, {}, 6ns);
  EXPECT_EQ(request.num_in_flight_tokens(), 2);
  EXPECT_EQ(request.num_pending_tokens(), 1);
  EXPECT_EQ(request.complete(2).num_first_prompt, 2);
  EXPECT_EQ(request.num_uncomputed_prompt_tokens(), 1);
  request.schedule(1, {}, 7ns);
  EXPECT_EQ(request.complete(1).num_first_prompt, 1);
  EXPECT_EQ(request.num_uncomputed_prompt_tokens(), 0);
}

TEST(Request, EachOutputOfAPromptHasAnIdentityOfItsOwn) {
  const AddRequest added = {7, {10, 11}, std::make_shared<const SamplingParams>(), -3};
  const Request third(added, {.id = 9, .sample_index = 2, .group_id = 38, .arrival_index = 40}, {},
                      100, 5ns);
  EXPECT_EQ(third.id(), 9U);
  EXPECT_EQ(third.group_id(), 38U);
  EXPECT_EQ(third.arrival_index(), 40U);
  EXPECT_EQ(third.sample_index(), 2);
  EXPECT_EQ(third.priority(), -3);
  EXPECT_THAT(third.token_ids(), ElementsAre(10, 11));
}

TEST(Request, WhatOthersComputedIsCached) {
  Request request = make_request({});
  EXPECT_EQ(request.start(2, 6ns), 2);
  EXPECT_EQ(request.num_cached_tokens(), 2);
  EXPECT_EQ(request.num_computed_tokens(), 2);
  EXPECT_EQ(request.num_pending_tokens(), 1);
  EXPECT_EQ(request.num_uncomputed_prompt_tokens(), 1);
  request.schedule(1, {}, 6ns);
  const Request::Computed computed = request.complete(1);
  EXPECT_EQ(computed.num_first_prompt, 1);
  EXPECT_EQ(computed.num_again, 0);
}

// Only prompt tokens that were never there before count, each once.
TEST(Request, WhatIsFoundAfterAPreemptionIsNeitherCachedAgainNorComputedAgain) {
  Request request = make_request({});
  EXPECT_EQ(request.start(1, 6ns), 1);
  request.preempt({}, 7ns);
  EXPECT_EQ(request.start(2, 8ns), 1);
  EXPECT_EQ(request.num_cached_tokens(), 1);  // when it first started
  step(request, 20, 9ns);
  request.preempt({}, 10ns);
  EXPECT_EQ(request.start(3, 11ns), 0);
  step(request, 21, 12ns);
  EXPECT_EQ(request.num_recomputed_tokens(), 0);
  EXPECT_EQ(request.num_uncomputed_prompt_tokens(), 0);
}

TEST(Request, AbortEndsItInAnyState) {
  Request waiting = make_request({});
  waiting.abort(6ns);
  EXPECT_EQ(waiting.finish_reason(), FinishReason::kAbort);
  EXPECT_EQ(waiting.first_scheduled(), std::nullopt);

  Request in_flight = make_request({});
  in_flight.start(0, 6ns);
  in_flight.schedule(3, {}, 6ns);
  in_flight.abort(7ns);
  EXPECT_EQ(in_flight.num_in_flight_tokens(), 0);
  EXPECT_EQ(in_flight.num_uncomputed_prompt_tokens(), 3);

  Request preempted = make_request({});
  preempted.start(0, 6ns);
  step(preempted, 20, 7ns);
  preempted.preempt({}, 8ns);
  preempted.abort(9ns);
  EXPECT_TRUE(preempted.finished());
  EXPECT_EQ(preempted.num_uncomputed_prompt_tokens(), 0);
  EXPECT_EQ(finish_reason_name(*preempted.finish_reason()), "abort");
}

}  // namespace
}  // namespace quire
