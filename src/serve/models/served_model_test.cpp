// The end of a served model whose engine goes on for others.
#include "serve/models/served_model.h"

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "serve/models/test_held_engine.h"

namespace quire {
namespace {

constexpr std::int32_t kMaxQueued = 32;
constexpr std::int64_t kNumTokens = 100;

class ServedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineArgs args;
    args.model = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
    args.threads = 1;
    args.max_num_seqs = 8;
    args.max_queued_requests = kMaxQueued;
    auto created = Engine::create(args, {});
    ASSERT_TRUE(created.ok()) << created.status().to_string();
    engine_ = *std::move(created);
    ServiceConfig config;
    config.served_model_names = {"tiny"};
    config.log_requests = false;
    model_.emplace(engine_, config, nullptr, drain_, quotas_);
  }

  static GenerateRequest request() {
    GenerateRequest made;
    made.prompt_token_ids = {5, 6, 7};
    made.params.max_tokens = kNumTokens;
    made.params.ignore_eos = true;
    return made;
  }

  Drain drain_;
  KeyQuotas quotas_{QuotaLimits()};
  std::shared_ptr<Engine> engine_;
  std::optional<ServedModel> model_;
};

TEST_F(ServedModelTest, EndsItsOwnRequestsAndNoOthers) {
  std::promise<RequestOutput> other;
  const auto held_by_sinks = std::make_shared<int>();
  std::atomic<int> num_ended = 0;
  {
    const test::HeldEngine held(*engine_);
    const auto id = engine_->submit(request(), [&other](const RequestOutput& output) {
      if (output.request_finished) other.set_value(output);
    });
    ASSERT_TRUE(id.ok()) << id.status().to_string();
    for (int i = 0; i < 3; ++i) {
      const auto taken =
          model_->submit({}, request(), [&num_ended, held_by_sinks](const RequestOutput& output) {
            if (output.request_finished) ++num_ended;
          });
      ASSERT_TRUE(taken.ok()) << taken.status().to_string();
    }
    EXPECT_EQ(drain_.num_in_flight(), 3);
  }
  model_.reset();
  EXPECT_EQ(num_ended, 3);
  EXPECT_EQ(held_by_sinks.use_count(), 1);
  EXPECT_EQ(drain_.num_in_flight(), 0);

  const RequestOutput last = other.get_future().get();
  EXPECT_EQ(last.finish_reason, FinishReason::kLength);
  EXPECT_EQ(last.num_output_tokens, kNumTokens);
}

TEST_F(ServedModelTest, GivesBackTheRoomThatNoRequestHasUsed) {
  ASSERT_TRUE(model_->reserve(20).ok());
  model_->release(4);
  GenerateRequest first = request();
  first.reserved = true;
  ASSERT_TRUE(model_->submit({}, std::move(first), [](const RequestOutput&) {}).ok());
  EXPECT_FALSE(engine_->reserve(kMaxQueued).ok());
  model_.reset();
  EXPECT_TRUE(engine_->reserve(kMaxQueued).ok());
}

}  // namespace
}  // namespace quire
