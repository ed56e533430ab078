// The whole server under thousands of clients, over an engine that makes up its tokens: nothing may
// be lost, mixed up or left behind. Only counts are compared, no times.
#include <chrono>
#include <functional>
#include <random>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "base/json.h"
#include "serve_load/load_client.h"
#include "serve_load/process_stats.h"
#include "serve_load/requests.h"
#include "serve_load/simulated_server.h"
#include "sim/random_trace.h"
#include "sim/wrapped_executor.h"
#include "support/eventually.h"
#include "support/gate.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

using load::ClientPlan;
using load::ClientResult;
using load::completion_request;
using load::Ending;
using load::LoadClient;
using load::SimulatedServer;
using load::SimulatedServerConfig;
using load::StepTrace;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kLong(2);

SimulatedServerConfig config_of(std::int32_t max_num_seqs, std::int32_t max_num_batched_tokens) {
  SimulatedServerConfig config;
  config.engine.engine.model = tiny_llama("hf");
  config.engine.engine.max_num_seqs = max_num_seqs;
  config.engine.engine.max_num_batched_tokens = max_num_batched_tokens;
  return config;
}

class ServeLoadTest : public testing::Test {
 protected:
  void start(SimulatedServerConfig config) {
    auto started = SimulatedServer::start(std::move(config));
    ASSERT_TRUE(started.ok()) << started.status().to_string();
    server_ = *std::move(started);
  }
  LoadClient client(int max_open = 4000) const { return {"127.0.0.1", server_->port(), max_open}; }

  // No request, block or connection is left, and each request is accounted for.
  void expect_nothing_left() {
    EXPECT_TRUE(eventually([&] {
      const EngineStats stats = server_->engine().observe();
      const HttpServerStats http = server_->http().stats();
      return stats.num_running == 0 && stats.num_waiting == 0 && stats.blocks_used == 0 &&
             server_->service().num_in_flight() == 0 && http.exchanges == 0 &&
             http.connections == 0;
    }));
    const EngineStats stats = server_->engine().observe();
    EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
    EXPECT_EQ(stats.blocks_used, 0);
    EXPECT_EQ(stats.blocks_leaked, 0);
    EXPECT_EQ(stats.blocks_free, stats.blocks_total);
    EXPECT_EQ(stats.num_added, stats.num_finished + stats.num_aborted);
    EXPECT_EQ(server_->service().num_in_flight(), 0);
    EXPECT_EQ(server_->http().stats().connections, 0);
    EXPECT_EQ(server_->http().stats().exchanges, 0);
  }

  std::unique_ptr<SimulatedServer> server_;
};

// The token ids of a stream's events, in the order in which they came.
std::vector<TokenId> streamed_token_ids(std::string_view body) {
  constexpr std::string_view kData = "data: {";
  std::vector<TokenId> ids;
  for (std::size_t at = 0; (at = body.find(kData, at)) != std::string_view::npos;) {
    const std::size_t end = body.find("\n\n", at);
    const auto event = parse_json(body.substr(at + 6, end - at - 6), "event");
    if (!event.ok()) {
      ADD_FAILURE() << event.status().to_string();
      return ids;
    }
    for (const json::value& choice : event->at("choices").as_array()) {
      for (const json::value& id : choice.at("token_ids").as_array()) {
        ids.push_back(static_cast<TokenId>(id.as_int64()));
      }
    }
    at = end;
  }
  return ids;
}

// What the simulated executor makes of a prompt.
std::vector<TokenId> expected_token_ids(const load::CompletionShape& shape,
                                        const Tokenizer& tokenizer) {
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = shape.max_tokens;
  params.ignore_eos = true;
  const AddRequest request = {
      .request_id = 1,
      .prompt_token_ids = StepTrace::prompt_of(shape.key, shape.prompt_tokens),
      .sampling_params = std::make_shared<const SamplingParams>(params)};
  SchedulerConfig config;
  config.max_model_len = 256;
  return solo_run(request, 0, config, static_cast<std::int32_t>(tokenizer.vocab_size()))
      .output_token_ids;
}

load::CompletionShape stream_of(std::int32_t key, std::int64_t max_tokens) {
  return {.key = key, .prompt_tokens = 4, .max_tokens = max_tokens, .every_token = true};
}

TEST_F(ServeLoadTest, AThousandStreamsGetAllTheirTokensInOrder) {
  start(config_of(1000, 4096));
  LoadClient clients = client();
  constexpr std::int32_t kNumClients = 1000;
  constexpr std::int64_t kNumTokens = 20;
  for (std::int32_t i = 0; i < kNumClients; ++i) {
    clients.add({.request = completion_request(stream_of(i, kNumTokens)), .keep_body = true});
  }
  ASSERT_TRUE(clients.run(kLong).ok());
  for (std::int32_t i = 0; i < kNumClients; ++i) {
    const ClientResult& result = clients.result(static_cast<std::size_t>(i));
    ASSERT_EQ(result.ending, Ending::kAnswered) << i << ": " << result.error;
    ASSERT_EQ(result.status, 200);
    ASSERT_EQ(result.num_streams_done, 1);
    ASSERT_EQ(result.num_errors, 0);
    ASSERT_EQ(result.completion_tokens, kNumTokens);
    ASSERT_EQ(streamed_token_ids(result.body),
              expected_token_ids(stream_of(i, kNumTokens), server_->engine().tokenizer()));
  }
  expect_nothing_left();
  EXPECT_EQ(server_->engine().observe().num_aborted, 0);
  EXPECT_EQ(server_->http().stats().disconnects, 0);
}

TEST_F(ServeLoadTest, TenThousandClientsThatGoAwayLeaveNothingBehind) {
  // Few run at once and prompts take several steps, so that there are clients in every state.
  SimulatedServerConfig config = config_of(32, 64);
  config.engine.step_time = std::chrono::microseconds(200);
  start(std::move(config));
  const std::int64_t descriptors = load::read_process_stats("self").num_descriptors;
  {
    std::mt19937_64 random(5);
    const auto up_to = [&](std::size_t most) {
      return std::uniform_int_distribution<std::size_t>(0, most)(random);
    };
    LoadClient clients = client(200);
    for (std::int32_t i = 0; i < 10'000; ++i) {
      ClientPlan plan;
      plan.request = completion_request({.key = i,
                                         .prompt_tokens = 2 + up_to(200),
                                         .max_tokens = static_cast<std::int64_t>(1 + up_to(40)),
                                         .stream = up_to(3) > 0});
      plan.reset = up_to(1) == 0;
      switch (up_to(2)) {
        case 0:
          plan.leave_after_sent = up_to(plan.request.size());
          break;
        case 1:
          plan.leave_after_events = static_cast<std::int64_t>(1 + up_to(5));
          break;
        default:
          plan.leave_after = std::chrono::microseconds(up_to(40'000));
      }
      clients.add(std::move(plan));
    }
    ASSERT_TRUE(clients.run(kLong).ok());
    std::int64_t num_left = 0;
    for (std::size_t i = 0; i < clients.num_clients(); ++i) {
      const ClientResult& result = clients.result(i);
      EXPECT_TRUE(result.ending == Ending::kLeft || result.ending == Ending::kAnswered)
          << i << ": " << result.error;
      num_left += result.ending == Ending::kLeft ? 1 : 0;
    }
    EXPECT_GT(num_left, 5000);
  }
  expect_nothing_left();
  EXPECT_GT(server_->engine().observe().num_aborted, 1000);
  EXPECT_EQ(load::read_process_stats("self").num_descriptors, descriptors);
}

TEST_F(ServeLoadTest, SlowReadersAreDroppedAndOthersGoOn) {
  SimulatedServerConfig config = config_of(256, 1024);
  config.http.max_unsent_bytes = 64 * 1024;
  start(std::move(config));
  // Outputs of a request that are more than the kernel's buffers take.
  const std::string body =
      R"({"prompt":[[5,6],[7,8],[9,10],[11,12]],"n":64,"max_tokens":200,"ignore_eos":true,)"
      R"("stream":true})";
  constexpr std::int64_t kNumSlow = 4;
  LoadClient clients = client();
  for (std::int64_t i = 0; i < kNumSlow; ++i) {
    ClientPlan slow;
    slow.request = load::post_request("/v1/completions", body);
    slow.byte_interval = milliseconds(1000);
    clients.add(std::move(slow), true);
  }
  for (std::int32_t i = 0; i < 20; ++i) {
    clients.add({.request = completion_request(stream_of(i, 50)), .keep_body = true});
  }
  ASSERT_TRUE(clients.run(kLong).ok());
  // From here on they read nothing. A reset does not reach a client whose window is closed, so that
  // they do not tell.
  EXPECT_TRUE(eventually([&] { return server_->http().stats().slow_readers == kNumSlow; }));
  clients.close_all();
  for (std::size_t i = kNumSlow; i < clients.num_clients(); ++i) {
    const ClientResult& result = clients.result(i);
    ASSERT_EQ(result.ending, Ending::kAnswered) << result.error;
    EXPECT_EQ(streamed_token_ids(result.body),
              expected_token_ids(stream_of(static_cast<std::int32_t>(i - kNumSlow), 50),
                                 server_->engine().tokenizer()));
  }
  EXPECT_EQ(server_->http().stats().slow_readers, kNumSlow);
  expect_nothing_left();
}

TEST_F(ServeLoadTest, StreamsThatWaitGetComments) {
  SimulatedServerConfig config = config_of(1, 64);
  config.engine.step_time = milliseconds(1500);
  config.http.keep_alive_interval = milliseconds(100);
  start(std::move(config));
  LoadClient clients = client();
  for (std::int32_t i = 0; i < 2; ++i) {  // the second one waits in the queue
    clients.add({.request = completion_request(stream_of(i, 1))});
  }
  ASSERT_TRUE(clients.run(kLong).ok());
  for (std::size_t i = 0; i < 2; ++i) {
    const ClientResult& result = clients.result(i);
    EXPECT_EQ(result.ending, Ending::kAnswered) << result.error;
    EXPECT_EQ(result.completion_tokens, 1);
    EXPECT_GE(result.num_comments, 1);
  }
  expect_nothing_left();
}

// One client goes on, another goes away in some state: two steps after the server has noticed, what
// the other one had is free.
class DisconnectTest : public ServeLoadTest {
 protected:
  void SetUp() override {
    SimulatedServerConfig config = config_of(2, 16);
    config.engine.wrap = [this](auto executor) { return gate_.guard(std::move(executor)); };
    start(std::move(config));
    keeper_ = std::make_unique<LoadClient>("127.0.0.1", server_->port(), 4);
    keeper_->add({.request = completion_request(stream_of(0, 240))});
    ASSERT_TRUE(keeper_->run(milliseconds(0)).ok());
    ASSERT_TRUE(step_until([&] { return stats().num_running == 1; }));
  }
  void TearDown() override {
    if (keeper_) keeper_->close_all();
    gate_.open();
    expect_nothing_left();
    server_.reset();
  }

  EngineStats stats() const { return server_->engine().observe(); }

  // Lets the engine do one step after the other while the clients read. No step stays allowed that
  // has not happened: there is always the keeper to compute for.
  bool step_until(const std::function<bool()>& holds) {
    for (int i = 0; i < 200; ++i) {
      for (int reads = 0; reads < 10; ++reads) {
        read();
        if (holds()) return true;
      }
      if (!gate_.step(server_->engine())) return false;
    }
    return false;
  }
  void read() {
    EXPECT_TRUE(keeper_->run(milliseconds(1)).ok());
    if (leaver_) {
      EXPECT_TRUE(leaver_->run(milliseconds(1)).ok());
    }
  }
  void enter(std::string request) {
    leaver_ = std::make_unique<LoadClient>("127.0.0.1", server_->port(), 4);
    leaver_->add({.request = std::move(request)});
    read();
  }
  // The server has noticed that the client went away.
  void leave() {
    const std::int64_t connections = server_->http().stats().connections;
    leaver_->close_all();
    leaver_.reset();
    ASSERT_TRUE(eventually([&] { return server_->http().stats().connections < connections; }));
  }
  void expect_freed_within_two_steps(const std::function<bool()>& freed) {
    EXPECT_TRUE(gate_.step(server_->engine()));
    EXPECT_TRUE(gate_.step(server_->engine()));
    EXPECT_TRUE(freed());
  }

  Gate gate_;
  std::unique_ptr<LoadClient> keeper_;
  std::unique_ptr<LoadClient> leaver_;
};

// Meanwhile the keeper takes at most one block more.
TEST_F(DisconnectTest, WhileDecoding) {
  enter(completion_request({.key = 1, .prompt_tokens = 100, .max_tokens = 100}));
  ASSERT_TRUE(step_until([&] { return leaver_->num_events() >= 2; }));
  leave();
  const std::int64_t used = stats().blocks_used;
  expect_freed_within_two_steps(
      [&] { return stats().num_running == 1 && stats().blocks_used <= used - 6; });
  EXPECT_EQ(stats().num_aborted, 1);
}

TEST_F(DisconnectTest, InTheMiddleOfItsPrompt) {
  // 16 tokens a step, of which the keeper takes one: the prompt takes more than ten.
  enter(completion_request({.key = 2, .prompt_tokens = 200, .max_tokens = 8}));
  ASSERT_TRUE(step_until([&] { return stats().prompt_tokens_computed >= 100; }));
  EXPECT_GT(stats().prompt_tokens_pending, 0);
  EXPECT_EQ(leaver_->num_events(), 0);
  leave();
  const std::int64_t used = stats().blocks_used;
  expect_freed_within_two_steps(
      [&] { return stats().num_running == 1 && stats().blocks_used <= used - 5; });
  EXPECT_EQ(stats().num_aborted, 1);
  EXPECT_GT(stats().prompt_tokens_dropped, 0);
}

TEST_F(DisconnectTest, WhileQueued) {
  LoadClient other = client();  // takes the second of two places
  other.add({.request = completion_request(stream_of(3, 200))});
  ASSERT_TRUE(other.run(milliseconds(0)).ok());
  ASSERT_TRUE(step_until([&] {
    EXPECT_TRUE(other.run(milliseconds(1)).ok());
    return stats().num_running == 2;
  }));
  enter(completion_request(stream_of(4, 200)));
  ASSERT_TRUE(step_until([&] { return stats().num_waiting == 1; }));
  leave();
  expect_freed_within_two_steps([&] { return stats().num_waiting == 0; });
  EXPECT_EQ(stats().num_running, 2);
  EXPECT_EQ(stats().num_aborted, 1);
}

}  // namespace
}  // namespace quire::test
