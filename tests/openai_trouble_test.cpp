// The OpenAI-compatible routes in trouble: clients that go away, a full queue, an end to come, an
// engine that hangs or dies. Nothing that they took is lost.
#include <atomic>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/wrapped_executor.h"
#include "support/gate.h"
#include "support/openai_api.h"

namespace quire::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

// A client that goes away: queued, in the middle of its prompt, decoding.
TEST(Requests, AreAbortedWhenTheClientGoes) {
  Gate gate;
  SimulatedEngineArgs args;
  args.engine.max_num_seqs = 1;
  args.engine.max_num_batched_tokens = 4;
  args.wrap = [&](auto executor) { return gate.guard(std::move(executor)); };
  Api api(args);
  const OpenAtEnd open(gate);
  json::array ids;
  for (int i = 0; i < 100; ++i) ids.push_back(5 + i % 7);
  const json::object request = {
      {"prompt", ids}, {"max_tokens", 100}, {"ignore_eos", true}, {"stream", true}};
  std::vector<std::shared_ptr<TestExchange>> exchanges;
  for (int i = 0; i < 3; ++i)
    exchanges.push_back(api.start(kCompletions, json::serialize(request)));
  ASSERT_TRUE(gate.step_until(*api.engine, [](const auto& s) { return s.num_waiting == 2; }));
  EXPECT_EQ(api.engine->observe().output_tokens_sampled, 0);
  exchanges[2]->disconnect();
  exchanges[0]->disconnect();
  ASSERT_TRUE(gate.step_until(*api.engine, [](const auto& s) { return s.num_aborted == 2; }));
  EXPECT_EQ(api.engine->observe().output_tokens_sampled, 0);
  ASSERT_TRUE(
      gate.step_until(*api.engine, [](const auto& s) { return s.output_tokens_sampled == 3; }));
  exchanges[1]->disconnect();
  gate.open();
  const EngineStats stats = api.settled();
  EXPECT_EQ(stats.blocks_used, 0);
  EXPECT_EQ(stats.num_aborted, 3);
}

TEST(Admission, AFullQueueGives429AndSaysWhenToComeBack) {
  Gate gate;
  SimulatedEngineArgs args;
  args.engine.max_num_seqs = 1;
  args.engine.max_queued_requests = 2;
  args.wrap = [&](auto executor) { return gate.guard(std::move(executor)); };
  Api api(args);
  const OpenAtEnd open(gate);
  const std::string body =
      R"({"prompt": "abc", "max_tokens": 200, "ignore_eos": true, "stream": true})";
  std::vector<std::shared_ptr<TestExchange>> running;
  for (int i = 0; i < 3; ++i) {
    running.push_back(api.start(kCompletions, body));
    ASSERT_TRUE(gate.step_until(*api.engine, [&](const auto& s) { return s.num_added > i; }));
  }
  const auto refused = api.start(kCompletions, body);
  ASSERT_TRUE(gate.step(*api.engine));
  ASSERT_TRUE(gate.step(*api.engine));
  EXPECT_EQ(refused->wait().status, 429) << refused->wait().body;
  ASSERT_FALSE(refused->wait().headers.empty());
  EXPECT_EQ(refused->wait().headers.front().name, "Retry-After");
  EXPECT_GE(std::stoi(refused->wait().headers.front().value), 1);
  gate.open();
  for (auto& exchange : running) chunks_of(exchange->wait());
  EXPECT_EQ(api.post(kCompletions, R"({"prompt": "abc", "max_tokens": 1})").status, 200);
}

// One has ended, so that it is known how fast they do, one runs and one waits.
TEST(Admission, WhoseFirstTokenWouldComeTooLateIsRefusedAtOnce) {
  Gate gate;
  SimulatedEngineArgs args;
  args.engine.max_num_seqs = 1;
  args.wrap = [&](auto executor) { return gate.guard(std::move(executor)); };
  ServiceConfig config;
  config.max_ttft_s = 1e-6;
  Api api(args, config);
  const OpenAtEnd open(gate);
  EXPECT_EQ(api.service->model().predicted_wait_s(), 0);
  std::vector<std::shared_ptr<TestExchange>> taken;
  for (const int max_tokens : {1, 200, 200}) {
    const json::object body = {{"prompt", "abc"}, {"max_tokens", max_tokens}, {"ignore_eos", true}};
    taken.push_back(api.start(kCompletions, json::serialize(body)));
  }
  ASSERT_TRUE(gate.step_until(*api.engine, [](const auto& stats) {
    return stats.num_finished == 1 && stats.num_running == 1 && stats.num_waiting == 1;
  }));
  while (!api.service->model().predicted_wait_s()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GT(*api.service->model().predicted_wait_s(), 1e-6);
  EXPECT_NE(api.get("/metrics").body.find("quire_predicted_wait_seconds"), std::string::npos);
  const std::vector<std::pair<std::string, std::string>> requests = {
      {kCompletions, R"({"prompt": "abc"})"},
      {kChatCompletions, R"({"messages": [{"role": "user", "content": "abc"}]})"},
      {"/v1/responses", R"({"input": "abc"})"},
      {"/v1/embeddings", R"({"input": "abc"})"},
      {"/completion", R"({"prompt": "abc"})"}};
  for (const auto& [path, body] : requests) {
    const HttpResponse refused = api.post(path, body);
    EXPECT_EQ(refused.status, 429) << path << refused.body;
    EXPECT_NE(refused.body.find("--max-ttft"), std::string::npos) << refused.body;
    ASSERT_FALSE(refused.headers.empty());
    EXPECT_EQ(refused.headers.front().name, "Retry-After");
    EXPECT_GE(std::stoi(refused.headers.front().value), 1);
  }
  gate.open();
  for (auto& exchange : taken) EXPECT_EQ(exchange->wait().status, 200);
}

TEST(Admission, DrainingRefusesNewRequestsAndFinishesOld) {
  SimulatedEngineArgs args;
  args.step_time = milliseconds(1);
  Api api(args);
  auto running =
      api.start(kCompletions, R"({"prompt": "abc", "max_tokens": 50, "ignore_eos": true})");
  EXPECT_EQ(api.get("/ready").status, 200);
  api.service->drain();
  EXPECT_EQ(api.get("/ready").status, 503);
  EXPECT_EQ(api.get("/health").status, 200);
  EXPECT_EQ(api.post(kCompletions, R"({"prompt": "abc"})").status, 503);
  const json::object answer = object_of(running->wait());
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 50);
}

// Computes as another one does, but one step of its never ends until it is let go. `progress` is
// what it shows meanwhile, nothing where there is none.
class HangingExecutor final : public WrappedExecutor {
 public:
  HangingExecutor(std::unique_ptr<Executor> executor, std::atomic<bool>& hang,
                  const std::atomic<std::uint64_t>* progress = nullptr)
      : WrappedExecutor(std::move(executor)), hang_(hang), progress_(progress) {}
  Status collect(ModelRunnerOutput& result) override {
    while (hang_) std::this_thread::sleep_for(milliseconds(1));
    return WrappedExecutor::collect(result);
  }
  std::uint64_t progress() const override {
    return WrappedExecutor::progress() + (progress_ == nullptr ? 0 : progress_->load());
  }

 private:
  std::atomic<bool>& hang_;
  const std::atomic<std::uint64_t>* progress_;
};

HttpResponse wait_for_status(Api& api, int status) {
  while (true) {
    HttpResponse response = api.get("/health");
    if (response.status == status) return response;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

TEST(Health, AnEngineThatHangsIsNotHealthy) {
  std::atomic<bool> hang = true;
  SimulatedEngineArgs args;
  args.wrap = [&](std::unique_ptr<Executor> executor) {
    return std::make_unique<HangingExecutor>(std::move(executor), hang);
  };
  Api api(args, {.served_model_names = {}, .heartbeat_timeout = milliseconds(50)});
  EXPECT_EQ(api.get("/health").status, 200);
  auto stuck = api.start(kCompletions, R"({"prompt": "abc", "max_tokens": 1})");
  EXPECT_THAT(wait_for_status(api, 503).body, HasSubstr("sign of life"));
  EXPECT_EQ(api.get("/ready").status, 503);
  hang = false;
  wait_for_status(api, 200);
  EXPECT_EQ(stuck->wait().status, 200);
}

// A process that was stopped, or a machine that was suspended, is no engine that hangs: only time
// in which somebody looked counts.
TEST(Health, TimeInWhichNobodyLookedIsNoSilence) {
  std::atomic<bool> hang = true;
  SimulatedEngineArgs args;
  args.wrap = [&](std::unique_ptr<Executor> executor) {
    return std::make_unique<HangingExecutor>(std::move(executor), hang);
  };
  const milliseconds timeout = ServedModel::kLongestHeartbeatGap + milliseconds(500);
  Api api(args, {.served_model_names = {}, .heartbeat_timeout = timeout});
  auto stuck = api.start(kCompletions, R"({"prompt": "abc", "max_tokens": 1})");
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(api.get("/health").status, 200);
  std::this_thread::sleep_for(timeout + milliseconds(500));
  EXPECT_EQ(api.get("/health").status, 200);
  wait_for_status(api, 503);  // it does hang
  hang = false;
  EXPECT_EQ(stuck->wait().status, 200);
}

// It takes several times the heartbeat's time, and shows progress all along.
TEST(Health, ALongPromptIsHealthy) {
  constexpr milliseconds kTimeout(50);
  std::atomic<bool> hang = true;
  std::atomic<std::uint64_t> progress = 0;
  SimulatedEngineArgs args;
  args.wrap = [&](std::unique_ptr<Executor> executor) {
    return std::make_unique<HangingExecutor>(std::move(executor), hang, &progress);
  };
  Api api(args, {.served_model_names = {}, .heartbeat_timeout = kTimeout});
  auto slow = api.start(kCompletions, R"({"prompt": "abc", "max_tokens": 1})");
  const auto end = std::chrono::steady_clock::now() + 5 * kTimeout;
  while (std::chrono::steady_clock::now() < end) {
    ++progress;
    EXPECT_EQ(api.get("/health").status, 200);
    std::this_thread::sleep_for(milliseconds(5));
  }
  hang = false;
  EXPECT_EQ(slow->wait().status, 200);
}

class FailingExecutor final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;
  Status collect(ModelRunnerOutput& /*result*/) override {
    return Status::internal("the device has fallen off /dev/secret");
  }
};

TEST(Health, ADeadEngineIsNeitherHealthyNorSilent) {
  SimulatedEngineArgs args;
  args.wrap = [](std::unique_ptr<Executor> executor) {
    return std::make_unique<FailingExecutor>(std::move(executor));
  };
  Api api(args);
  const auto whole = api.start(kCompletions, R"({"prompt": "abc"})")->wait();
  EXPECT_EQ(whole.status, 500);
  EXPECT_THAT(whole.body, Not(HasSubstr("/dev/secret")));
  EXPECT_EQ(api.get("/health").status, 503);
  EXPECT_EQ(api.post(kCompletions, R"({"prompt": "abc"})").status, 500);
}

// The engine dies while answers stream: each gets an error in its stream, and an end.
TEST(Streams, AnErrorInMidStreamIsAnEvent) {
  std::atomic<int> steps_left = 3;
  class Dying final : public WrappedExecutor {
   public:
    Dying(std::unique_ptr<Executor> executor, std::atomic<int>& left)
        : WrappedExecutor(std::move(executor)), left_(left) {}
    Status collect(ModelRunnerOutput& result) override {
      if (left_-- <= 0) return Status::internal("gone");
      return WrappedExecutor::collect(result);
    }

   private:
    std::atomic<int>& left_;
  };
  SimulatedEngineArgs args;
  args.wrap = [&](std::unique_ptr<Executor> executor) {
    return std::make_unique<Dying>(std::move(executor), steps_left);
  };
  Api api(args);
  const auto response = api.post(
      kCompletions, R"({"prompt": "abc", "max_tokens": 20, "ignore_eos": true, "stream": true})");
  EXPECT_EQ(response.status, 200);
  const auto chunks = chunks_of(response);
  ASSERT_GE(chunks.size(), 2U);
  EXPECT_TRUE(chunks.back().contains("error"));
}

}  // namespace
}  // namespace quire::test
