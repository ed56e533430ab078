#include "exec/pooler.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;

class PoolerTest : public testing::Test {
 protected:
  void begin(RequestId id, Pooling pooling = Pooling::kMean, std::vector<RequestId> removed = {}) {
    SchedulerOutput plan;
    plan.removed_request_ids = std::move(removed);
    plan.new_requests.push_back({.request_id = id, .pooling = pooling, .sampling_params = nullptr});
    pooler_.prepare(plan);
  }
  void add(RequestId id, float a, float b, std::size_t row = 0) {
    pooler_.states().at(2 * row) = a;
    pooler_.states().at(2 * row + 1) = b;
    pooler_.add(id, row);
  }
  Status give(const std::vector<RequestId>& ids) {
    SchedulerOutput plan;
    plan.scheduled.push_back({.request_id = 99});  // one that is for nothing
    for (const RequestId id : ids) {
      plan.scheduled.push_back({.request_id = id, .use = RowUse::kState});
    }
    result_.clear();
    return pooler_.give(plan, result_);
  }

  Pooler pooler_{2, 2};
  ModelRunnerOutput result_;
};

TEST_F(PoolerTest, TheMeanOfWhatWasAdded) {
  begin(7);
  begin(8);
  add(7, 1, 2);
  add(8, 10, -20);
  add(7, 3, 4, 1);
  add(7, 2, 12);
  ASSERT_TRUE(give({7, 8}).ok());
  EXPECT_THAT(result_.hidden_states, ElementsAre(2.0F, 6.0F, 10.0F, -20.0F));
  ASSERT_EQ(result_.pooled.size(), 2U);
  EXPECT_EQ(result_.pooled[0].request_id, 7U);
  EXPECT_EQ(result_.pooled[1].first, 2U);
  EXPECT_EQ(result_.pooled[1].size, 2U);
}

TEST_F(PoolerTest, ASingleStateKeepsItsBits) {
  begin(1, Pooling::kLast);
  add(1, -0.0F, 0.1F);
  ASSERT_TRUE(give({1}).ok());
  EXPECT_TRUE(std::signbit(result_.hidden_states.at(0)));
  EXPECT_EQ(result_.hidden_states.at(1), 0.1F);
}

TEST_F(PoolerTest, AddsInDoublePrecision) {
  begin(1);
  add(1, 16777216.0F, 3e38F);
  for (int i = 0; i < 3; ++i) add(1, 1, 3e38F);
  ASSERT_TRUE(give({1}).ok());
  EXPECT_EQ(result_.hidden_states.at(0), 4194304.75F);  // in single precision 4194304
  EXPECT_EQ(result_.hidden_states.at(1), 3e38F);        // and infinity
}

// A request that was preempted comes again, from its first token; others take its place.
TEST_F(PoolerTest, WhatIsRemovedIsForgotten) {
  begin(1);
  begin(2);
  add(1, 5, 5);
  begin(1, Pooling::kMean, {1});
  add(1, 1, 2);
  begin(3, Pooling::kMean, {2, 44});
  add(3, 6, 6);
  ASSERT_TRUE(give({1, 3}).ok());
  EXPECT_THAT(result_.hidden_states, ElementsAre(1.0F, 2.0F, 6.0F, 6.0F));
}

TEST_F(PoolerTest, AResultThatCannotBe) {
  EXPECT_EQ(give({1}).code(), StatusCode::kInternal);
  begin(1, Pooling::kNone);
  EXPECT_EQ(give({1}).code(), StatusCode::kInternal);
  begin(2);
  EXPECT_EQ(give({2}).code(), StatusCode::kInternal);
  add(2, 1, std::numeric_limits<float>::quiet_NaN());
  add(2, 1, 1);
  EXPECT_EQ(give({2}).code(), StatusCode::kBadModel);
}

}  // namespace
}  // namespace quire
