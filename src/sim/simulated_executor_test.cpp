#include "sim/simulated_executor.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kv_cache_manager.h"

namespace quire {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

NewRequestData new_request(RequestId id, std::vector<TokenId> token_ids) {
  const auto num_tokens = static_cast<std::int32_t>(token_ids.size());
  return {id, std::move(token_ids), num_tokens, std::make_shared<const SamplingParams>()};
}

SchedulerOutput plan_of(StepId step_id, std::vector<NewRequestData> new_requests,
                        std::vector<ScheduledRequest> scheduled) {
  SchedulerOutput plan;
  plan.step_id = step_id;
  plan.new_requests = std::move(new_requests);
  plan.scheduled = std::move(scheduled);
  for (const ScheduledRequest& each : plan.scheduled) {
    plan.total_num_scheduled_tokens += each.num_scheduled_tokens;
  }
  return plan;
}

class SimulatedExecutorTest : public testing::Test {
 protected:
  void run(const SchedulerOutput& plan) {
    const auto result = executor_.execute(plan);
    ASSERT_TRUE(result.ok()) << result.status().message();
  }
  void expect_broken(const SchedulerOutput& plan, const std::string& message) {
    const auto result = executor_.execute(plan);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), StatusCode::kInternal);
    EXPECT_THAT(result.status().message(), HasSubstr(message));
  }

  VirtualClock clock_;
  SimulatedExecutor executor_{
      {.block_size = 2, .num_blocks = 4, .vocab_size = 50, .step_time = 100us, .token_time = 10us},
      clock_};
};

TEST_F(SimulatedExecutorTest, TheNextTokenDependsOnTheTokensAlone) {
  std::uint64_t history = 0;
  for (const TokenId id : {5, 6, 7}) history = extend_history(history, id);
  const TokenId expected = simulated_token(history, 50);

  auto whole =
      executor_.execute(plan_of(1, {new_request(1, {5, 6, 7})}, {{1, 0, 3, true, {0, 1}}}));
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->sampled.at(0).token_id, expected);
  SchedulerOutput chunk = plan_of(2, {new_request(2, {5, 6, 7})}, {{2, 0, 1, false, {2}}});
  run(chunk);
  const auto rest = executor_.execute(plan_of(3, {}, {{2, 1, 2, true, {3}}}));
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->sampled.at(0).token_id, expected);
}

TEST_F(SimulatedExecutorTest, AStepTakesTimeByItsTokens) {
  run(plan_of(1, {new_request(1, {5, 6, 7})}, {{1, 0, 3, true, {0, 1}}}));
  EXPECT_EQ(clock_.now(), 130us);
  clock_.advance_to(50us);  // time does not go back
  EXPECT_EQ(clock_.now(), 130us);
}

TEST_F(SimulatedExecutorTest, ForgetsRemovedRequests) {
  run(plan_of(1, {new_request(1, {5})}, {{1, 0, 1, true, {0}}}));
  SchedulerOutput plan = plan_of(2, {new_request(2, {8})}, {{2, 0, 1, true, {0}}});
  plan.removed_request_ids = {1};
  run(plan);  // block 0 belongs to request 2 now
  EXPECT_EQ(executor_.num_requests(), 1U);
  EXPECT_EQ(executor_.find_block_ids(1), nullptr);
}

// A child enters with its parent's blocks and computed tokens, but for the one it is about to
// write.
TEST_F(SimulatedExecutorTest, FollowsAFork) {
  KvCacheManager kv(2, 4);
  run(plan_of(1, {new_request(1, {5, 6, 7, 8, 9})},
              {{1, 0, 3, false, kv.allocate(1, 0, 3)->new_block_ids}}));
  kv.fork(1, 2);
  const auto child = kv.allocate(2, 3, 1);
  SchedulerOutput plan =
      plan_of(2, {new_request(2, {5, 6, 7, 4})}, {{2, 3, 1, true, kv.find(2)->block_ids()}});
  plan.block_copies = child->block_copies;
  run(plan);
  const auto parent = kv.allocate(1, 3, 1);
  EXPECT_TRUE(parent->block_copies.empty());
  run(plan_of(3, {}, {{1, 3, 1, false, {}}}));  // the child's write left the parent's block alone
  run(plan_of(4, {}, {{1, 4, 1, true, kv.allocate(1, 4, 1)->new_block_ids}}));
}

TEST_F(SimulatedExecutorTest, RejectsAForkWithoutItsCopy) {
  run(plan_of(1, {new_request(1, {5, 6, 7, 8})}, {{1, 0, 3, false, {0, 1}}}));
  expect_broken(plan_of(2, {new_request(2, {5, 6, 7, 4})}, {{2, 3, 1, true, {0, 2}}}),
                "request 2: block 2 does not hold the keys and values of token 2");
}

TEST_F(SimulatedExecutorTest, CopiesBlocksBeforeItComputes) {
  run(plan_of(1, {new_request(1, {5, 6, 7, 8})}, {{1, 0, 3, false, {0, 1}}}));
  SchedulerOutput plan = plan_of(2, {}, {{1, 3, 1, true, {}}});
  plan.replaced_blocks = {{1, 1, 2}};
  plan.block_copies = {{1, 2}};
  run(plan);
  EXPECT_THAT(*executor_.find_block_ids(1), testing::ElementsAre(0, 2));
}

TEST_F(SimulatedExecutorTest, RejectsAWriteIntoASharedBlock) {
  run(plan_of(1, {new_request(1, {5, 6, 7, 8})}, {{1, 0, 3, false, {0, 1}}}));
  expect_broken(plan_of(2, {new_request(2, {5, 6, 7, 9})}, {{2, 3, 1, true, {0, 1}}}),
                "request 2 writes token 3 into block 1, which 2 tables hold");
}

TEST_F(SimulatedExecutorTest, RejectsBlocksWithOtherContent) {
  run(plan_of(1, {new_request(1, {5, 6, 7})}, {{1, 0, 3, true, {0, 1}}}));
  expect_broken(plan_of(2, {new_request(2, {5, 4, 7})}, {{2, 2, 1, true, {0, 2}}}),
                "request 2: block 0 does not hold the keys and values of token 1");
}

TEST_F(SimulatedExecutorTest, RejectsStepsOutOfOrder) {
  run(plan_of(2, {}, {}));
  expect_broken(plan_of(2, {}, {}), "step 2 comes after step 2");
}

TEST_F(SimulatedExecutorTest, RejectsUnknownRequests) {
  expect_broken(plan_of(1, {}, {{7, 0, 1, true, {0}}}), "request 7 is scheduled, but unknown");
  SchedulerOutput plan = plan_of(2, {}, {});
  plan.removed_request_ids = {7};
  expect_broken(plan, "request 7 is removed, but unknown");
}

TEST_F(SimulatedExecutorTest, RejectsARequestThatIsNewTwice) {
  expect_broken(plan_of(1, {new_request(1, {5}), new_request(1, {5})}, {}),
                "request 1 is new, but known");
  expect_broken(plan_of(2, {new_request(2, {})}, {}), "new request 2 has 0 tokens");
}

TEST_F(SimulatedExecutorTest, RejectsARequestScheduledTwice) {
  expect_broken(plan_of(1, {new_request(1, {5, 6})}, {{1, 0, 1, false, {0}}, {1, 1, 1, true, {}}}),
                "request 1 is scheduled twice");
}

TEST_F(SimulatedExecutorTest, RejectsAWrongNumberOfComputedTokens) {
  run(plan_of(1, {new_request(1, {5, 6, 7})}, {{1, 0, 1, false, {0}}}));
  expect_broken(plan_of(2, {}, {{1, 2, 1, true, {1}}}), "1 tokens are computed, the plan says 2");
}

TEST_F(SimulatedExecutorTest, RejectsSharesThatDoNotExist) {
  expect_broken(plan_of(1, {new_request(1, {5})}, {{1, 0, 2, true, {0}}}),
                "tokens [0, 2) of 1 are scheduled");
  expect_broken(plan_of(2, {new_request(2, {5})}, {{2, 0, 0, false, {1}}}),
                "tokens [0, 0) of 1 are scheduled");
}

TEST_F(SimulatedExecutorTest, RejectsAWrongSampleFlag) {
  expect_broken(plan_of(1, {new_request(1, {5, 6})}, {{1, 0, 1, true, {0}}}), "samples is true");
  expect_broken(plan_of(2, {new_request(2, {5, 6})}, {{2, 0, 2, false, {1}}}), "samples is false");
}

TEST_F(SimulatedExecutorTest, RejectsMissingAndUnknownBlocks) {
  expect_broken(plan_of(1, {new_request(1, {5, 6, 7})}, {{1, 0, 3, true, {0}}}),
                "1 blocks do not hold 3 tokens");
  expect_broken(plan_of(2, {new_request(2, {5})}, {{2, 0, 1, true, {4}}}),
                "block 4, which does not exist");
}

TEST_F(SimulatedExecutorTest, RejectsABlockThatTwoRequestsWrite) {
  expect_broken(plan_of(1, {new_request(1, {5}), new_request(2, {8})},
                        {{1, 0, 1, true, {0}}, {2, 0, 1, true, {0}}}),
                "writes token 0 into block 0, which 2 tables hold");
}

TEST_F(SimulatedExecutorTest, RejectsAWrongTotal) {
  SchedulerOutput plan = plan_of(1, {new_request(1, {5})}, {{1, 0, 1, true, {0}}});
  plan.total_num_scheduled_tokens = 2;
  expect_broken(plan, "announces 2 tokens and schedules 1");
}

TEST_F(SimulatedExecutorTest, RejectsReplacementsThatAreNoCopies) {
  run(plan_of(1, {new_request(1, {5, 6, 7})}, {{1, 0, 3, true, {0, 1}}}));
  SchedulerOutput plan = plan_of(2, {}, {});
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
