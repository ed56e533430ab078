#include "sim/simulated_executor.h"

#include <memory>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using enum RowUse;

constexpr std::int32_t kVocabSize = 50;

struct New {
  RequestId id = 0;
  std::vector<TokenId> token_ids;
  std::vector<BlockId> block_ids = {};  // that hold computed tokens already
  SamplingParams params = {};
  std::int32_t sample_index = 0;
  Pooling pooling = Pooling::kNone;
};

struct Share {
  RequestId id = 0;
  std::int32_t num_computed_tokens = 0;
  std::int32_t num_scheduled_tokens = 0;
  RowUse use = RowUse::kNothing;
  std::vector<BlockId> new_block_ids = {};
};

// A plan and the tokens that it points to.
struct Plan : SchedulerOutput {
  Plan(StepId id, std::vector<New> news, const std::vector<Share>& shares)
      : requests(std::move(news)) {
    step_id = id;
    for (const New& each : requests) {
      const auto num_tokens = static_cast<std::int32_t>(each.token_ids.size());
      new_requests.push_back(
          {.request_id = each.id,
           .first_token = static_cast<std::int32_t>(new_token_ids.size()),
           .num_tokens = num_tokens,
           .num_prompt_tokens = num_tokens,
           .sample_index = each.sample_index,
           .pooling = each.pooling,
           .sampling_params = std::make_shared<const SamplingParams>(each.params)});
      new_token_ids.insert(new_token_ids.end(), each.token_ids.begin(), each.token_ids.end());
      std::tie(new_requests.back().first_block, new_requests.back().num_blocks) =
          append(each.block_ids);
    }
    for (const Share& each : shares) {
      scheduled.push_back({.request_id = each.id,
                           .num_computed_tokens = each.num_computed_tokens,
                           .num_scheduled_tokens = each.num_scheduled_tokens,
                           .use = each.use});
      std::tie(scheduled.back().first_new_block, scheduled.back().num_new_blocks) =
          append(each.new_block_ids);
      total_num_scheduled_tokens += each.num_scheduled_tokens;
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  std::pair<std::int32_t, std::int32_t> append(const std::vector<BlockId>& block_ids) {
    const auto first = static_cast<std::int32_t>(new_block_ids.size());
    new_block_ids.insert(new_block_ids.end(), block_ids.begin(), block_ids.end());
    return {first, static_cast<std::int32_t>(block_ids.size())};
  }

  std::vector<New> requests;
};

std::uint64_t history_of(const std::vector<TokenId>& token_ids) {
  std::uint64_t history = 0;
  for (const TokenId id : token_ids) history = extend_history(history, id);
  return history;
}

class SimulatedExecutorTest : public testing::Test {
 protected:
  const ModelRunnerOutput& run(const SchedulerOutput& plan) {
    const Status status = executor_.execute(plan, result_);
    EXPECT_TRUE(status.ok()) << status.message();
    return result_;
  }
  void run(StepId step_id, std::vector<New> news, const std::vector<Share>& shares) {
    run(Plan(step_id, std::move(news), shares));
  }
  void expect_broken(const SchedulerOutput& plan, const std::string& message) {
    const Status status = executor_.execute(plan, result_);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
  void expect_broken(StepId step_id, std::vector<New> news, const std::vector<Share>& shares,
                     const std::string& message) {
    expect_broken(Plan(step_id, std::move(news), shares), message);
  }

  VirtualClock clock_;
  SimulatedExecutor executor_{{.block_size = 2,
                               .num_blocks = 4,
                               .vocab_size = kVocabSize,
                               .step_time = 100us,
                               .token_time = 10us},
                              clock_};
  ModelRunnerOutput result_;
};

TEST_F(SimulatedExecutorTest, TheNextTokenDependsOnTheTokensAlone) {
  const TokenId expected = simulated_token(history_of({5, 6, 7}), 0, kVocabSize);
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0, 1}}});
  ASSERT_EQ(result_.sampled.size(), 1U);
  EXPECT_EQ(result_.sampled[0].token_id, expected);
  EXPECT_LT(result_.sampled[0].logprob, 0.0F);
  run(2, {{2, {5, 6, 7}}}, {{2, 0, 1, kNothing, {2}}});
  EXPECT_THAT(result_.sampled, IsEmpty());
  run(3, {}, {{2, 1, 2, kTokens, {3}}});
  ASSERT_EQ(result_.sampled.size(), 1U);
  EXPECT_EQ(result_.sampled[0].token_id, expected);
}

TEST_F(SimulatedExecutorTest, OutputsOfOnePromptDrawWithTheirOwnSeeds) {
  SamplingParams params;
  params.seed = 100;
  EXPECT_EQ(simulated_stream(params, 3), 103U);
  run(1, {{1, {5}, {}, params, 0}, {2, {5}, {}, params, 3}},
      {{1, 0, 1, kTokens, {0}}, {2, 0, 1, kTokens, {1}}});
  EXPECT_EQ(result_.sampled.at(0).token_id, simulated_token(history_of({5}), 100, kVocabSize));
  EXPECT_EQ(result_.sampled.at(1).token_id, simulated_token(history_of({5}), 103, kVocabSize));
  params.temperature = 0;
  EXPECT_EQ(simulated_stream(params, 3), simulated_stream(params, 0));
}

TEST_F(SimulatedExecutorTest, TellsHowProbableThePromptWas) {
  SamplingParams params;
  params.prompt_logprobs = 0;
  const auto expect_reported = [&](std::size_t i, std::int32_t position, TokenId token,
                                   const std::vector<TokenId>& before) {
    const PromptToken& reported = result_.prompt_tokens.at(i);
    EXPECT_EQ(reported.request_id, 1U);
    EXPECT_EQ(reported.position, position);
    EXPECT_EQ(reported.token.token_id, token);
    EXPECT_EQ(reported.token.logprob, simulated_logprob(history_of(before), token));
  };
  run(1, {{1, {5, 6, 7}, {}, params}, {2, {5}}},
      {{1, 0, 1, kNothing, {0}}, {2, 0, 1, kTokens, {2}}});
  ASSERT_EQ(result_.prompt_tokens.size(), 1U);
  expect_reported(0, 1, 6, {5});
  run(2, {}, {{1, 1, 2, kTokens, {1}}});
  ASSERT_EQ(result_.prompt_tokens.size(), 1U);
  expect_reported(0, 2, 7, {5, 6});
  run(3, {}, {{1, 3, 1, kTokens}});
  EXPECT_THAT(result_.prompt_tokens, IsEmpty());
}

TEST_F(SimulatedExecutorTest, AStepTakesTimeByItsTokens) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0, 1}}});
  EXPECT_EQ(clock_.now(), 130us);
  clock_.advance_to(50us);  // time does not go back
  EXPECT_EQ(clock_.now(), 130us);
}

TEST_F(SimulatedExecutorTest, ForgetsRemovedRequests) {
  run(1, {{1, {5}}}, {{1, 0, 1, kTokens, {0}}});
  Plan plan(2, {{2, {8}}}, {{2, 0, 1, kTokens, {0}}});
  plan.removed_request_ids = {1};
  run(plan);  // block 0 belongs to request 2 now
  EXPECT_EQ(executor_.num_requests(), 1U);
  EXPECT_EQ(executor_.find_block_ids(1), nullptr);
}

TEST_F(SimulatedExecutorTest, ANewRequestMaySharePartOfAnothersBlocks) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0, 1}}});
  run(2, {{2, {5, 6, 9}, {0}}}, {{2, 2, 1, kTokens, {2}}});
  EXPECT_EQ(result_.sampled.at(0).token_id, simulated_token(history_of({5, 6, 9}), 0, kVocabSize));
  EXPECT_THAT(*executor_.find_block_ids(2), ElementsAre(0, 2));
}

TEST_F(SimulatedExecutorTest, ABlockKeepsItsContentWhenNobodyHoldsIt) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0, 1}}});
  Plan plan(2, {}, {});
  plan.removed_request_ids = {1};
  run(plan);
  run(3, {{2, {5, 6, 9}, {0}}}, {{2, 2, 1, kTokens, {2}}});
}

// A fork: the child enters with its parent's blocks, and copies the one that it is about to write.
TEST_F(SimulatedExecutorTest, FollowsAFork) {
  run(1, {{1, {5, 6, 7, 8}}}, {{1, 0, 3, kNothing, {0, 1}}});
  Plan plan(2, {{2, {5, 6, 7, 4}, {0, 1}}}, {{1, 3, 1, kTokens}, {2, 3, 1, kTokens}});
  plan.replaced_blocks = {{2, 1, 2}};
  plan.block_copies = {{1, 2}};
  run(plan);
  EXPECT_THAT(*executor_.find_block_ids(1), ElementsAre(0, 1));
  EXPECT_THAT(*executor_.find_block_ids(2), ElementsAre(0, 2));
  run(3, {}, {{1, 4, 1, kTokens, {3}}});  // the child's write left the parent's block alone
}

TEST_F(SimulatedExecutorTest, RejectsAForkWithoutItsCopy) {
  run(1, {{1, {5, 6, 7, 8}}}, {{1, 0, 3, kNothing, {0, 1}}});
  expect_broken(2, {{2, {5, 6, 7, 4}, {0}}}, {{2, 3, 1, kTokens, {2}}},
                "request 2: block 2 does not hold what token 2 has left");
}

TEST_F(SimulatedExecutorTest, CopiesBlocksBeforeItComputes) {
  run(1, {{1, {5, 6, 7, 8}}}, {{1, 0, 3, kNothing, {0, 1}}});
  Plan plan(2, {}, {{1, 3, 1, kTokens}});
  plan.replaced_blocks = {{1, 1, 2}};
  plan.block_copies = {{1, 2}};
  run(plan);
  EXPECT_THAT(*executor_.find_block_ids(1), ElementsAre(0, 2));
}

TEST_F(SimulatedExecutorTest, RejectsAWriteIntoASharedBlock) {
  run(1, {{1, {5, 6, 7, 8}}}, {{1, 0, 3, kNothing, {0, 1}}});
  expect_broken(2, {{2, {5, 6, 7, 9}, {0, 1}}}, {{2, 3, 1, kTokens}},
                "request 2 writes token 3 into block 1, which 2 tables hold");
}

TEST_F(SimulatedExecutorTest, RejectsBlocksWithOtherContent) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0, 1}}});
  expect_broken(2, {{2, {5, 4, 7}, {0}}}, {{2, 2, 1, kTokens, {2}}},
                "request 2: block 0 does not hold what token 1 has left");
}

// Tokens are not enough: keys and values depend on everything before them.
TEST_F(SimulatedExecutorTest, RejectsTheSameTokensAfterOthers) {
  run(1, {{1, {5, 6, 7, 8, 9}}}, {{1, 0, 5, kTokens, {0, 1, 2}}});
  expect_broken(2, {{2, {7, 8, 9}, {1}}}, {{2, 2, 1, kTokens, {3}}},
                "request 2: block 1 does not hold what token 0 has left");
}

TEST_F(SimulatedExecutorTest, RejectsBlocksThatAreNotComputedYet) {
  run(1, {{1, {5, 6, 7, 8}}}, {{1, 0, 3, kNothing, {0, 1}}});
  expect_broken(2, {{2, {5, 6, 7, 8, 9}, {0, 1}}}, {{2, 4, 1, kTokens, {2}}},
                "request 2: block 1 does not hold what token 3 has left");
}

TEST_F(SimulatedExecutorTest, RejectsStepsOutOfOrder) {
  run(2, {}, {});
  expect_broken(2, {}, {}, "step 2 comes after step 2");
}

TEST_F(SimulatedExecutorTest, RejectsUnknownRequests) {
  expect_broken(1, {}, {{7, 0, 1, kTokens, {0}}}, "request 7 is scheduled, but unknown");
  Plan plan(2, {}, {});
  plan.removed_request_ids = {7};
  expect_broken(plan, "request 7 is removed, but unknown");
}

TEST_F(SimulatedExecutorTest, RejectsARequestThatIsNewTwice) {
  expect_broken(1, {{1, {5}}, {1, {5}}}, {}, "request 1 is new, but known");
  expect_broken(2, {{2, {}}}, {}, "new request 2 has 0 tokens");
}

TEST_F(SimulatedExecutorTest, RejectsARequestScheduledTwice) {
  expect_broken(1, {{1, {5, 6}}}, {{1, 0, 1, kNothing, {0}}, {1, 1, 1, kTokens}},
                "request 1 is scheduled twice");
}

TEST_F(SimulatedExecutorTest, RejectsAWrongNumberOfComputedTokens) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 1, kNothing, {0}}});
  expect_broken(2, {}, {{1, 2, 1, kTokens, {1}}}, "1 tokens are computed, the plan says 2");
}

TEST_F(SimulatedExecutorTest, RejectsSharesThatDoNotExist) {
  expect_broken(1, {{1, {5}}}, {{1, 0, 2, kTokens, {0}}}, "tokens [0, 2) of 1 are scheduled");
  expect_broken(2, {{2, {5}}}, {{2, 0, 0, kNothing, {1}}}, "tokens [0, 0) of 1 are scheduled");
}

TEST_F(SimulatedExecutorTest, RejectsAWrongUseOfRows) {
  expect_broken(1, {{1, {5, 6}}}, {{1, 0, 1, kTokens, {0}}},
                "1 of 2 tokens will be computed for tokens");
  expect_broken(2, {{2, {5, 6}}}, {{2, 0, 2, kNothing, {1}}},
                "2 of 2 tokens will be computed for nothing");
}

TEST_F(SimulatedExecutorTest, TheHiddenStateDependsOnThePromptAlone) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 2, kNothing, {0}}});
  EXPECT_THAT(result_.pooled, IsEmpty());
  run(2, {{2, {8}}}, {{1, 2, 1, kState, {1}}, {2, 0, 1, kState, {2}}});
  EXPECT_THAT(result_.sampled, IsEmpty());
  ASSERT_EQ(result_.pooled.size(), 2U);
  EXPECT_EQ(result_.pooled[0].request_id, 1U);
  EXPECT_EQ(result_.pooled[1].request_id, 2U);
  EXPECT_EQ(result_.pooled[1].first, result_.pooled[0].size);
  for (std::size_t i = 0; i < result_.pooled[0].size; ++i) {
    EXPECT_EQ(result_.hidden_states.at(i), simulated_state(history_of({5, 6, 7}), i));
    EXPECT_EQ(result_.hidden_states.at(result_.pooled[1].first + i),
              simulated_state(history_of({8}), i));
  }
}

TEST_F(SimulatedExecutorTest, RejectsARequestThatIsPooledWhereItMayNotBe) {
  expect_broken(1, {{1, {5, 6}}}, {{1, 0, 1, kState, {0}}},
                "1 of 2 tokens will be computed for state");
  run(3, {{3, {5}}}, {{3, 0, 1, kTokens, {2}}});
  expect_broken(4, {}, {{3, 1, 1, kState}}, "request 3: pooled after 1 output tokens");
}

TEST_F(SimulatedExecutorTest, RejectsAPromptThatIsPooledWithoutItsFirstToken) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0, 1}}});
  const auto found = [](RequestId id, Pooling pooling) {
    return New{.id = id, .token_ids = {5, 6, 7}, .block_ids = {0}, .pooling = pooling};
  };
  run(2, {found(2, Pooling::kLast)}, {{2, 2, 1, kState, {2}}});
  expect_broken(3, {found(3, Pooling::kMean)}, {{3, 2, 1, kState, {3}}},
                "request 3: the state of its first token, which is pooled, is not computed");
}

TEST_F(SimulatedExecutorTest, RejectsMissingAndUnknownBlocks) {
  expect_broken(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0}}}, "1 blocks do not hold 3 tokens");
  expect_broken(2, {{2, {5}}}, {{2, 0, 1, kTokens, {4}}}, "block 4, which does not exist");
  expect_broken(3, {{3, {5, 6, 7}, {-1}}}, {{3, 2, 1, kTokens, {0}}}, "block -1, which does not");
  Plan plan(4, {{4, {5}}}, {{4, 0, 1, kTokens, {0}}});
  plan.scheduled[0].num_new_blocks = 2;
  expect_broken(plan, "request 4 is given blocks [0, 2) of 1");
}

TEST_F(SimulatedExecutorTest, RejectsABlockThatTwoRequestsWrite) {
  expect_broken(1, {{1, {5}}, {2, {8}}}, {{1, 0, 1, kTokens, {0}}, {2, 0, 1, kTokens, {0}}},
                "writes token 0 into block 0, which 2 tables hold");
}

TEST_F(SimulatedExecutorTest, RejectsAWrongTotal) {
  Plan plan(1, {{1, {5}}}, {{1, 0, 1, kTokens, {0}}});
  plan.total_num_scheduled_tokens = 2;
  expect_broken(plan, "announces 2 tokens and schedules 1");
}

TEST_F(SimulatedExecutorTest, RejectsReplacementsThatAreNoCopies) {
  run(1, {{1, {5, 6, 7}}}, {{1, 0, 3, kTokens, {0, 1}}});
  Plan plan(2, {}, {});
  plan.replaced_blocks = {{1, 1, 2}};
  expect_broken(plan, "request 1: block 2 at 1 is no copy of what was there");
  plan.step_id = 3;
  plan.block_copies = {{0, 2}};
  expect_broken(plan, "request 1: block 2 at 1 is no copy of what was there");
  plan.step_id = 4;
  plan.replaced_blocks = {};
  plan.block_copies = {{0, 4}};
  expect_broken(plan, "block 0 is copied to 4, and one of them does not exist");
}

}  // namespace
}  // namespace quire
