#include <gtest/gtest.h>

#include "core/scheduler.h"

namespace quire {
namespace admission_test {

SchedulerConfig tiny_config() {
  SchedulerConfig config;
  config.max_model_len = 20;
  config.block_size = 4;
  config.num_blocks = 3;  // 12 tokens
  config.max_queued = 2;
  return config;
}

AddRequest request_of(RequestId id, std::size_t num_prompt_tokens, std::int64_t max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return {id, std::vector<TokenId>(num_prompt_tokens, 9),
          std::make_shared<const SamplingParams>(params), 0};
}

class Admission : public testing::Test {
 protected:
  void expect_refused(AddRequest request, RejectCause cause, StatusCode code,
                      const std::string& message) {
    const SchedulerStats before = scheduler_.stats();
    const Status status = scheduler_.add(request, Instant::zero());
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), message);
    const auto index = static_cast<std::size_t>(cause);
    EXPECT_EQ(scheduler_.stats().num_rejected[index], before.num_rejected[index] + 1);
    EXPECT_EQ(scheduler_.stats().num_added, before.num_added);
    EXPECT_TRUE(scheduler_.check_invariants().ok());
  }

  Scheduler scheduler_{tiny_config()};
};

TEST_F(Admission, RefusesAnEmptyPrompt) {
  expect_refused(request_of(1, 0, 4), RejectCause::kEmptyPrompt, StatusCode::kInvalidArgument,
                 "request 1: the prompt has no tokens");
}

TEST_F(Admission, RefusesAnIdThatIsInUse) {
  ASSERT_TRUE(scheduler_.add(request_of(1, 2, 4), Instant::zero()).ok());
  expect_refused(request_of(1, 2, 4), RejectCause::kDuplicateId, StatusCode::kInvalidArgument,
                 "request 1: a request of this id is not finished yet");
}

TEST_F(Admission, RefusesAPromptThatLeavesNoRoom) {
  expect_refused(request_of(1, 20, 4), RejectCause::kPromptTooLong, StatusCode::kInvalidArgument,
                 "request 1: the prompt has 20 tokens, which leaves no room for output within "
                 "max_model_len 20");
}

TEST_F(Admission, RefusesWhatTheWholePoolCannotHold) {
  expect_refused(request_of(1, 8, 6), RejectCause::kNeverFits, StatusCode::kResourceExhausted,
                 "request 1: 8 prompt tokens and up to 6 output tokens do not fit into the KV "
                 "cache, which holds 12 tokens (3 blocks of 4)");
  // The last output token is never computed, so one more fits than the pool has slots.
  EXPECT_TRUE(scheduler_.add(request_of(1, 8, 5), Instant::zero()).ok());
}

TEST_F(Admission, MaxModelLenLimitsWhatARequestMayNeed) {
  SchedulerConfig config = tiny_config();
  config.max_model_len = 13;
  Scheduler scheduler(config);
  EXPECT_TRUE(scheduler.add(request_of(1, 8, 1LL << 60), Instant::zero()).ok());
}

TEST_F(Admission, RefusesWhenTheQueueIsFull) {
  ASSERT_TRUE(scheduler_.add(request_of(1, 2, 4), Instant::zero()).ok());
  ASSERT_TRUE(scheduler_.add(request_of(2, 2, 4), Instant::zero()).ok());
  expect_refused(request_of(3, 2, 4), RejectCause::kQueueFull, StatusCode::kResourceExhausted,
                 "request 3: 2 requests are waiting, and at most 2 may");
}

TEST(RejectCause, EveryCauseHasAName) {
  for (std::size_t i = 0; i < kNumRejectCauses; ++i) {
    EXPECT_NE(reject_cause_name(static_cast<RejectCause>(i)), "unknown");
  }
}

TEST(SchedulerConfig, NamesTheSettingThatIsOutOfRange) {
  const auto expect_broken = [](auto change, const std::string& message) {
    SchedulerConfig config = tiny_config();
    change(config);
    EXPECT_EQ(config.validate().message(), message);
  };
  EXPECT_TRUE(tiny_config().validate().ok());
  expect_broken([](auto& c) { c.max_num_seqs = 0; }, "max_num_seqs: 0 is not an integer >= 1");
  expect_broken([](auto& c) { c.max_num_batched_tokens = -1; },
                "max_num_batched_tokens: -1 is not an integer >= 1");
  expect_broken([](auto& c) { c.max_model_len = 1; }, "max_model_len: 1 is not an integer >= 2");
  expect_broken([](auto& c) { c.block_size = 0; }, "block_size: 0 is not an integer >= 1");
  expect_broken([](auto& c) { c.num_blocks = 0; }, "num_blocks: 0 is not an integer >= 1");
  expect_broken([](auto& c) { c.max_queued = 0; }, "max_queued: 0 is not an integer >= 1");
  expect_broken(
      [](auto& c) {
        c.enable_chunked_prefill = false;
        c.max_num_batched_tokens = 19;
      },
      "max_num_batched_tokens 19 is less than max_model_len 20, and prompts may not be computed in "
      "chunks");
}

}  // namespace admission_test
}  // namespace quire
