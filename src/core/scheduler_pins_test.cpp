// Prompts that are pinned: their blocks stay, whoever needs memory, until they are let go.
#include <numeric>

#include "core/scheduler_fixture.h"
#include "core/scheduler_snapshot.h"

namespace quire {
namespace scheduler_pins_test {

using testing::HasSubstr;

// `num_tokens` of them, which no prompt that begins with another token has.
AddRequest prompt_of(RequestId id, TokenId first, std::int32_t num_tokens, PinId pin = 0,
                     std::int64_t max_tokens = 1) {
  AddRequest request = request_of(id, num_tokens, max_tokens);
  std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(), first);
  request.pin = pin;
  return request;
}

SchedulerConfig pinning_config() {
  SchedulerConfig config = small_config();
  config.enable_prefix_caching = true;
  config.max_pinned_blocks = 4;  // of 16, of 4 tokens each
  return config;
}

class SchedulerPins : public SchedulerTest {
 protected:
  // Until nothing is left to do.
  void run() {
    for (int i = 0; scheduler_->has_work() && i < 200; ++i) {
      for (auto& output : step()) {
        if (output.finished != nullptr) ended_ = std::move(output.finished);
      }
    }
  }
  void run(const AddRequest& request) {
    add(request);
    run();
  }
  // Needs all blocks that are not pinned.
  void fill_cache() {
    for (RequestId id = 100; id < 104; ++id) {
      run(prompt_of(id, static_cast<TokenId>(1000 * id), 28, 0, 4));
    }
  }
  std::unique_ptr<const Request> ended_;
};

TEST_F(SchedulerPins, StayWhileOthersNeedMemory) {
  make(pinning_config());
  run(prompt_of(1, 10, 10, /*pin=*/7));
  EXPECT_EQ(scheduler_->stats().num_pins, 1);
  EXPECT_EQ(scheduler_->stats().blocks_pinned, 2);
  EXPECT_EQ(scheduler_->stats().blocks_used, 2);
  run(prompt_of(2, 500, 10));  // the same without a pin
  fill_cache();
  run(prompt_of(3, 500, 12));
  EXPECT_EQ(ended_->num_cached_tokens(), 0);
  EXPECT_EQ(ended_->timeline().prefix_miss()->num_pinned, 0);
  run(prompt_of(4, 10, 12));
  EXPECT_EQ(ended_->num_cached_tokens(), 8);
  EXPECT_EQ(ended_->timeline().prefix_miss()->num_pinned, 8);
  ASSERT_EQ(scheduler_->pinned().all().size(), 1U);
  EXPECT_EQ(scheduler_->pinned().all()[0].num_hits, 1);
}

TEST_F(SchedulerPins, GoWhenTheyAreLetGo) {
  make(pinning_config());
  run(prompt_of(1, 10, 10, /*pin=*/7));
  EXPECT_FALSE(scheduler_->unpin(8));
  EXPECT_TRUE(scheduler_->unpin(7));
  check();
  EXPECT_FALSE(scheduler_->unpin(7));
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);
  run(prompt_of(2, 10, 10));
  EXPECT_EQ(ended_->num_cached_tokens(), 9);  // still there
  fill_cache();
  run(prompt_of(3, 10, 10));
  EXPECT_EQ(ended_->num_cached_tokens(), 0);
}

TEST_F(SchedulerPins, GoWithThePrefixCache) {
  make(pinning_config());
  run(prompt_of(1, 10, 10, /*pin=*/7));
  scheduler_->reset_prefix_cache();
  check();
  EXPECT_EQ(scheduler_->stats().num_pins, 0);
  run(prompt_of(2, 10, 10));
  EXPECT_EQ(ended_->num_cached_tokens(), 0);
}

TEST_F(SchedulerPins, AreNoMoreThanMayBe) {
  make(pinning_config());
  add(prompt_of(1, 10, 12, /*pin=*/7));  // three blocks that are yet to be computed
  const Status status = scheduler_->add(prompt_of(2, 50, 8, /*pin=*/8), now_);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("it would pin 2 blocks of the KV cache; 3 of the 4"));
  run();
  EXPECT_FALSE(scheduler_->add(prompt_of(2, 50, 8, /*pin=*/8), now_).ok());
  run(prompt_of(3, 50, 7, /*pin=*/8));  // one
  EXPECT_EQ(scheduler_->stats().blocks_pinned, 4);
  EXPECT_EQ(scheduler_->stats().num_rejected[static_cast<std::size_t>(RejectCause::kPinnedShare)],
            2);
}

TEST_F(SchedulerPins, WhoEndsOtherwisePinsNothing) {
  make(pinning_config());
  add(prompt_of(1, 10, 12, /*pin=*/7));
  step();
  abort(1);
  EXPECT_EQ(scheduler_->stats().num_pins, 0);
  run(prompt_of(2, 10, 16, /*pin=*/7));  // all four: nothing is counted for the other
  EXPECT_EQ(scheduler_->stats().blocks_pinned, 4);
}

TEST_F(SchedulerPins, WhatCannotBePinnedIsRefused) {
  make(pinning_config());
  run(prompt_of(1, 10, 4, /*pin=*/7));
  const auto refusal = [&](const AddRequest& request) {
    const Status status = scheduler_->add(request, now_);
    return status.ok() ? "" : status.message();
  };
  EXPECT_THAT(refusal(prompt_of(2, 50, 3, 8)), HasSubstr("a prompt of 3 tokens has no block"));
  EXPECT_THAT(refusal(prompt_of(2, 50, 4, 7)), HasSubstr("there is a pin 7"));
  EXPECT_THAT(refusal(prompt_of(2, 50, 4, kMaxPinId + 1)), HasSubstr("or it cannot be"));
  AddRequest two = prompt_of(2, 50, 4, 8);
  SamplingParams params;
  params.n = 2;
  two.sampling_params = std::make_shared<const SamplingParams>(params);
  EXPECT_THAT(refusal(two), HasSubstr("one output"));
  SchedulerConfig config = pinning_config();
  config.max_pinned_blocks = 0;
  make(config);
  EXPECT_THAT(refusal(prompt_of(2, 50, 4, 8)), HasSubstr("0 of the 0 that may be pinned"));
  config.enable_prefix_caching = false;
  make(config);
  EXPECT_THAT(refusal(prompt_of(2, 50, 4, 8)), HasSubstr("without a prefix cache"));
}

TEST_F(SchedulerPins, LeaveRoomForTheLongestRequest) {
  SchedulerConfig config = pinning_config();
  config.max_model_len = 64;
  make(config);
  const Status status = scheduler_->add(prompt_of(1, 10, 44, 0, 6), now_);  // 49 are computed
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(),
              HasSubstr("holds 48 tokens (12 blocks of 4 besides the 4 for pinned prefixes)"));
  run(prompt_of(2, 500, 16, /*pin=*/7));
  add(prompt_of(3, 10, 44, 0, 5));
  add(prompt_of(4, 1000, 44, 0, 5));
  run();
  EXPECT_EQ(ended_->id(), 4U);
  EXPECT_EQ(scheduler_->stats().num_finished, 3);
  EXPECT_EQ(scheduler_->stats().blocks_pinned, 4);
}

// Who has the whole prompt pinned computes its last token in a copy.
TEST_F(SchedulerPins, AreNeverWrittenTo) {
  make(pinning_config());
  run(prompt_of(1, 10, 8, /*pin=*/7));
  add(prompt_of(2, 10, 8, 0, 4));
  const SchedulerOutput plan = schedule();
  EXPECT_THAT(shares(plan), testing::ElementsAre("2:7+1!"));
  ASSERT_EQ(plan.block_copies.size(), 1U);
  EXPECT_TRUE(scheduler_->kv_cache().findable(plan.block_copies[0].source));
  update(plan);
  run();
  EXPECT_EQ(scheduler_->pinned().all()[0].num_hits, 0);  // not all of it was found
  EXPECT_EQ(scheduler_->stats().blocks_used, 2);
}

// Of a window what lies within it at the end, and of a state the one at the end.
TEST_F(SchedulerPins, HoldWhatWhoeverGoesOnReads) {
  SchedulerConfig config = pinning_config();
  config.num_blocks = 60;
  config.max_pinned_blocks = 12;
  config.kv_groups = {KvGroup{},
                      {.window = 5},
                      {.window = KvGroup::kStateWindow, .pages_per_block = 3, .state = true}};
  make(config);
  run(prompt_of(1, 10, 16, /*pin=*/7));
  EXPECT_EQ(scheduler_->stats().blocks_pinned, 4 + 1 + 3);
  EXPECT_EQ(scheduler_->stats().blocks_used, 8);
  for (RequestId id = 100; id < 104; ++id) {
    run(prompt_of(id, static_cast<TokenId>(1000 * id), 28, 0, 4));
  }
  run(prompt_of(2, 10, 20));
  EXPECT_EQ(ended_->num_cached_tokens(), 16);
  EXPECT_EQ(scheduler_->pinned().all()[0].num_hits, 1);
}

TEST_F(SchedulerPins, AreInSnapshots) {
  make(pinning_config());
  run(prompt_of(1, 10, 10, /*pin=*/7));
  run(prompt_of(2, 10, 12));
  auto restored = Scheduler::restore(*scheduler_->snapshot());
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_TRUE(std::ranges::equal((*restored)->pinned().all(), scheduler_->pinned().all()));
  EXPECT_TRUE((*restored)->unpin(7));
  SchedulerSnapshot wrong = *scheduler_->snapshot();
  wrong.pins[0].num_pages = 1;
  EXPECT_FALSE(Scheduler::restore(wrong).ok());
  wrong = *scheduler_->snapshot();
  wrong.config.max_pinned_blocks = 1;
  EXPECT_FALSE(Scheduler::restore(wrong).ok());
}

TEST(SchedulerConfigPins, NeedACacheAndLeaveSomeOfIt) {
  SchedulerConfig config = pinning_config();
  config.max_pinned_blocks = config.num_blocks;
  EXPECT_EQ(config.validate().code(), StatusCode::kConfig);
  config.max_pinned_blocks = 1;
  config.enable_prefix_caching = false;
  EXPECT_EQ(config.validate().code(), StatusCode::kConfig);
}

}  // namespace scheduler_pins_test
}  // namespace quire
