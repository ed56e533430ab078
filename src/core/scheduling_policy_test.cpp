// Who goes first, by each policy.
#include <algorithm>
#include <numeric>

#include "core/scheduler_fixture.h"

namespace quire {
namespace scheduling_policy_test {

using testing::ElementsAre;
using namespace std::chrono_literals;

class Policies : public SchedulerTest {
 protected:
  // One request at a time, so that the order shows.
  void make_with(SchedulingPolicy policy, std::int32_t max_overtaken = 64) {
    SchedulerConfig config = small_config();
    config.policy = policy;
    config.max_num_seqs = 1;
    config.max_queued = 16;
    config.max_num_batched_tokens = 32;
    config.enable_prefix_caching = policy == SchedulingPolicy::kLongestPrefix;
    config.max_overtaken = max_overtaken;
    make(config);
  }
  std::int64_t running_of(const std::string& user) const {
    return std::ranges::count_if(scheduler_->running(),
                                 [&](const Request* request) { return request->user() == user; });
  }
  // Ids in the order in which they start, until nothing is left.
  std::vector<RequestId> order() {
    std::vector<RequestId> ids;
    while (scheduler_->has_work()) {
      const SchedulerOutput plan = schedule();
      for (const NewRequestData& each : plan.new_requests) ids.push_back(each.request_id);
      if (!plan.empty()) update(plan);
    }
    return ids;
  }
};

AddRequest of_user(RequestId id, std::string user, std::int32_t num_prompt_tokens = 4,
                   std::int64_t max_tokens = 2) {
  AddRequest request = request_of(id, num_prompt_tokens, max_tokens);
  request.user = std::move(user);
  return request;
}

TEST_F(Policies, TheShortestGoesFirstAndEachLaterArrivalWeighsAToken) {
  make_with(SchedulingPolicy::kShortest);
  add(request_of(1, 10, 4));
  add(request_of(2, 4, 4));
  add(request_of(3, 12, 1));
  add(request_of(4, 9, 2));  // as many tokens as the first has, and three later
  EXPECT_THAT(order(), ElementsAre(2, 1, 4, 3));
}

TEST_F(Policies, ALongRequestIsOvertakenByAsManyAsItHasTokens) {
  make_with(SchedulingPolicy::kShortest);
  add(request_of(1, 6, 2));  // rank 8
  add(request_of(2, 1, 1));
  std::vector<RequestId> started;
  for (RequestId id = 3; id < 16; ++id) {  // there is always a shorter one
    const SchedulerOutput plan = schedule();
    for (const NewRequestData& each : plan.new_requests) started.push_back(each.request_id);
    add(request_of(id, 1, 1));
    update(plan);
  }
  const auto place = std::find(started.begin(), started.end(), RequestId{1}) - started.begin();
  EXPECT_LT(place, 8);
  EXPECT_GT(place, 3);
}

TEST_F(Policies, TheEarliestDeadlineGoesFirst) {
  make_with(SchedulingPolicy::kDeadline);
  const auto due = [](RequestId id, Duration deadline) {
    AddRequest request = request_of(id, 4, 1);
    request.deadline = deadline;
    return request;
  };
  add(request_of(1, 4, 1));  // none: a minute
  add(due(2, 300ms));
  add(due(3, 100ms));
  add(due(4, 61s));
  now_ += 150ms;
  add(due(5, 100ms));
  EXPECT_THAT(order(), ElementsAre(3, 5, 2, 1, 4));
}

// A user with many requests in the queue delays another by those that run, not by the queue.
TEST_F(Policies, WhoHasHadTheLeastGoesFirst) {
  make_with(SchedulingPolicy::kFair);
  for (RequestId id = 1; id <= 4; ++id) add(of_user(id, "many"));
  step();
  add(of_user(5, "few"));
  add(of_user(6, "few"));
  EXPECT_THAT(order(), ElementsAre(5, 2, 6, 3, 4));
}

// Two who have much to do share the places evenly, whoever came first.
TEST_F(Policies, WhoHasManyRunningGivesWay) {
  SchedulerConfig config = small_config();
  config.policy = SchedulingPolicy::kFair;
  config.max_num_seqs = 4;
  config.max_queued = 16;
  config.max_num_batched_tokens = 64;
  config.num_blocks = 64;
  make(config);
  for (RequestId id = 1; id <= 6; ++id) add(of_user(id, "many", 4, 20));
  step();
  EXPECT_EQ(running_of("many"), 4);
  for (RequestId id = 7; id <= 10; ++id) add(of_user(id, "few", 4, 20));
  step();  // who comes starts where the others are: nobody has had less yet
  const SchedulerOutput plan = schedule();
  EXPECT_EQ(running_of("many"), 3);
  EXPECT_EQ(running_of("few"), 1);
  EXPECT_THAT(plan.removed_request_ids, ElementsAre(4));
  ASSERT_TRUE(scheduler_->find(4)->timeline().open());
  EXPECT_EQ(scheduler_->find(4)->timeline().open()->cause, WaitCause::kPreempted);
  EXPECT_EQ(scheduler_->find(4)->timeline().open()->blockers.ids.front(), 7U);
  update(plan);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(running_of("many"), 2);
  EXPECT_EQ(running_of("few"), 2);
  EXPECT_EQ(scheduler_->stats().num_preemptions, 2);
  for (int i = 0; i < 8; ++i) step();  // and so it stays
  EXPECT_EQ(running_of("few"), 2);
  EXPECT_EQ(scheduler_->stats().num_preemptions, 2);
}

// The one's requests cost four times as much: prompt tokens count once, output tokens twice.
TEST_F(Policies, SharesAreOfTokens) {
  make_with(SchedulingPolicy::kFair);
  for (RequestId id = 1; id <= 3; ++id) add(of_user(id, "large", 28));
  for (RequestId id = 4; id <= 10; ++id) add(of_user(id, "small", 4));
  EXPECT_THAT(order(), ElementsAre(1, 4, 5, 6, 7, 2, 8, 9, 10, 3));
}

TEST_F(Policies, TheLongestPrefixGoesFirstButNotForEver) {
  const auto beginning_with = [](RequestId id, TokenId first) {
    AddRequest request = request_of(id, 10, 1);
    std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(), first);
    return request;
  };
  make_with(SchedulingPolicy::kLongestPrefix, /*max_overtaken=*/2);
  add(beginning_with(1, 100));
  step();
  add(beginning_with(2, 200));
  for (RequestId id = 3; id <= 6; ++id) add(beginning_with(id, 100));
  EXPECT_THAT(order(), ElementsAre(3, 4, 2, 5, 6));
}

}  // namespace scheduling_policy_test
}  // namespace quire
