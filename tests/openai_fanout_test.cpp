// Requests of many prompts beside others: they are taken in whole or not at all, take turns, and
// end together.
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/generation/generation.h"
#include "sim/wrapped_executor.h"
#include "support/eventually.h"
#include "support/openai_api.h"

namespace quire::test {
namespace {

using std::chrono::milliseconds;

// Computes as another one does, once it is let go.
class GatedExecutor final : public WrappedExecutor {
 public:
  GatedExecutor(std::unique_ptr<Executor> executor, std::atomic<bool>& closed)
      : WrappedExecutor(std::move(executor)), closed_(closed) {}
  Status collect(ModelRunnerOutput& result) override {
    while (closed_) std::this_thread::sleep_for(milliseconds(1));
    return WrappedExecutor::collect(result);
  }

 private:
  std::atomic<bool>& closed_;
};

// An engine that computes nothing before open(): what is asked of it until then is all there.
class Fanouts : public testing::Test {
 protected:
  void make(std::int32_t max_num_seqs, std::int32_t max_queued) {
    api_.reset();  // its last step may still run
    closed_ = true;
    SimulatedEngineArgs args;
    args.engine.max_num_seqs = max_num_seqs;
    args.engine.max_queued_requests = max_queued;
    args.wrap = [this](std::unique_ptr<Executor> executor) {
      return std::make_unique<GatedExecutor>(std::move(executor), closed_);
    };
    api_ = std::make_unique<Api>(args);
  }
  void open() { closed_ = false; }

  static std::string completion(int num_prompts, int max_tokens) {
    json::array prompts;
    for (int i = 0; i < num_prompts; ++i) prompts.push_back(json::array{5 + i % 50, 6, 7});
    return json::serialize(json::object{
        {"prompt", prompts}, {"max_tokens", max_tokens}, {"temperature", 0}, {"ignore_eos", true}});
  }
  static std::string embedding(int num_inputs) {
    json::array inputs;
    for (int i = 0; i < num_inputs; ++i) inputs.push_back(json::array{5 + i % 50, 6, 7});
    return json::serialize(json::object{{"input", inputs}});
  }

  std::atomic<bool> closed_ = true;
  std::unique_ptr<Api> api_;  // after the gate, which its engine uses
};

std::vector<GenerateRequest> requests(int count, bool embed) {
  std::vector<GenerateRequest> all(static_cast<std::size_t>(count));
  for (GenerateRequest& each : all) {
    each.prompt_token_ids = {5, 6, 7};
    each.params.max_tokens = 4;
    each.params.ignore_eos = true;
    each.embed = embed;
  }
  return all;
}

// Counts the requests that have ended.
class CountedAnswer final : public GenerationAnswer {
 public:
  explicit CountedAnswer(std::function<void()> one_ended) : one_ended_(std::move(one_ended)) {}
  void refused(const Status& error) override { ADD_FAILURE() << error.to_string(); }
  void failed(const Status& error) override { ADD_FAILURE() << error.to_string(); }
  void piece(std::size_t /*prompt*/, const RequestOutput& output, bool last) override {
    EXPECT_FALSE(has_ended_) << "a piece after the last one";
    has_ended_ = last;
    if (output.request_finished) one_ended_();
  }

 private:
  std::function<void()> one_ended_;
  bool has_ended_ = false;
};

TEST_F(Fanouts, AThousandPromptsAreOneTurn) {
  for (const bool embed : {false, true}) {
    make(/*max_num_seqs=*/4, /*max_queued=*/4096);
    std::mutex mutex;
    int many_ended = 0;
    std::optional<int> ended_before;  // of the many, when the single one ended
    ServedModel& model = api_->service->model();
    const auto many = Generation::submit(model, {.external_id = "many"}, requests(1000, embed),
                                         std::make_shared<CountedAnswer>([&] {
                                           const std::lock_guard lock(mutex);
                                           ++many_ended;
                                         }));
    ASSERT_TRUE(many.ok()) << many.status().to_string();
    (*many)->open([] {});
    const auto single = Generation::submit(model, {.external_id = "single"}, requests(1, embed),
                                           std::make_shared<CountedAnswer>([&] {
                                             const std::lock_guard lock(mutex);
                                             ended_before = many_ended;
                                           }));
    ASSERT_TRUE(single.ok());
    (*single)->open([] {});
    open();
    api_->settled();
    while (true) {
      const std::lock_guard lock(mutex);
      if (many_ended == 1000) break;
    }
    ASSERT_TRUE(ended_before.has_value());
    EXPECT_LE(*ended_before, 24) << (embed ? "inputs" : "prompts");  // the window and a batch
  }
}

TEST_F(Fanouts, TakesAllPromptsOfARequestOrNone) {
  make(/*max_num_seqs=*/1, /*max_queued=*/60);
  const auto many = api_->start(kCompletions, completion(50, 3));
  const HttpResponse refused = api_->post(kCompletions, completion(12, 3));
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(api_->post("/v1/embeddings", embedding(12)).status, 429);
  // The rest of the room, which the prompts that are not queued yet have no part in.
  std::vector<std::shared_ptr<TestExchange>> others;
  for (int i = 0; i < 11; ++i) others.push_back(api_->start(kCompletions, completion(1, 3)));
  EXPECT_EQ(api_->post(kCompletions, completion(1, 3)).status, 429);
  open();
  const HttpResponse answer = many->wait();
  ASSERT_EQ(answer.status, 200) << answer.body.substr(0, 300);
  EXPECT_EQ(object_of(answer).at("choices").as_array().size(), 50U);
  for (const auto& other : others) EXPECT_EQ(other->wait().status, 200);
  EXPECT_EQ(api_->settled().num_finished, 61);
  // All room is there again, once those who fed the engine have counted what they gave it.
  EXPECT_TRUE(
      eventually([&] { return api_->post(kCompletions, completion(61, 1)).status == 200; }));
}

TEST_F(Fanouts, AnswerAsThePromptsDoOneByOne) {
  make(/*max_num_seqs=*/8, /*max_queued=*/4096);
  open();
  const json::object together = object_of(api_->post(kCompletions, completion(200, 5)));
  for (std::size_t i = 0; i < 200; i += 37) {
    const std::string alone =
        json::serialize(json::object{{"prompt", json::array{5 + static_cast<int>(i) % 50, 6, 7}},
                                     {"max_tokens", 5},
                                     {"temperature", 0},
                                     {"ignore_eos", true}});
    EXPECT_EQ(choice(together, i).at("text"),
              choice(object_of(api_->post(kCompletions, alone))).at("text"))
        << i;
  }
}

TEST_F(Fanouts, APromptThatFailsEndsItsSiblings) {
  for (const bool embed : {false, true}) {
    make(/*max_num_seqs=*/4, /*max_queued=*/4096);
    const auto exchange = embed ? api_->start("/v1/embeddings", embedding(500))
                                : api_->start(kCompletions, completion(500, 100));
    // One that waits: those of the first step may be done before the engine hears of it.
    api_->engine->abort(8);
    open();
    EXPECT_EQ(exchange->wait().status, 503);
    const EngineStats stats = api_->settled();
    EXPECT_EQ(stats.num_added, stats.num_finished + stats.num_aborted);
    EXPECT_LT(stats.num_finished, 100) << (embed ? "inputs" : "prompts");
    EXPECT_EQ(stats.blocks_used, 0);
    EXPECT_EQ(api_->post(kCompletions, completion(4, 1)).status, 200);
  }
}

TEST_F(Fanouts, AClientThatGoesTakesItsPromptsAlong) {
  make(/*max_num_seqs=*/2, /*max_queued=*/100);
  const auto exchange = api_->start(kCompletions, completion(100, 1000));
  exchange->disconnect();
  open();
  const EngineStats stats = api_->settled();
  EXPECT_EQ(stats.num_finished, 0);
  EXPECT_LE(stats.num_added, 16);
  // Nothing is held.
  EXPECT_TRUE(
      eventually([&] { return api_->post(kCompletions, completion(102, 1)).status == 200; }));
}

TEST_F(Fanouts, APromptThatCannotRunRefusesAllOfThem) {
  make(/*max_num_seqs=*/2, /*max_queued=*/100);
  open();
  json::array prompts;
  for (int i = 0; i < 60; ++i) prompts.push_back(json::array{5, 6, 7});
  json::array long_one;
  for (int i = 0; i < 5000; ++i) long_one.push_back(5);
  prompts.push_back(long_one);
  const HttpResponse answer = api_->post(
      kCompletions, json::serialize(json::object{{"prompt", prompts}, {"max_tokens", 1}}));
  EXPECT_EQ(answer.status, 400) << answer.body.substr(0, 300);
  EXPECT_EQ(api_->settled().num_added, 0);
}

}  // namespace
}  // namespace quire::test
