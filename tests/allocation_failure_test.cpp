// Allocations of a small server run fail in turn, one for each call stack that allocates: whatever
// lacks memory, the client gets the right answer or an error, the next one the right answer unless
// the engine has ended and says so, and the server ends in good order.
//
// QUIRE_ALLOCATION_FAILURES=all takes all call stacks, a number that many of them (default: 200).
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/exhaustion.h"
#include "base/log.h"
#include "serve/generation/generation.h"
#include "serve/models/test_held_engine.h"
#include "serve_load/simulated_server.h"
#include "support/eventually.h"
#include "support/failing_new.h"

namespace quire::test {
namespace {

using load::SimulatedServer;

constexpr std::size_t kDefaultFailures = 200;

std::vector<StackHash> chosen(const std::vector<StackHash>& stacks) {
  const char* const wanted = std::getenv("QUIRE_ALLOCATION_FAILURES");
  if (wanted != nullptr && std::string_view(wanted) == "all") return stacks;
  const std::size_t count = wanted == nullptr ? kDefaultFailures : std::stoul(wanted);
  if (count >= stacks.size()) return stacks;
  std::vector<StackHash> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(stacks[i * stacks.size() / count]);
  return some;
}

Result<std::unique_ptr<SimulatedServer>> start_server() {
  return or_status([] {
    load::SimulatedServerConfig config;
    config.engine.engine.model = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
    config.engine.engine.max_num_seqs = 8;
    return SimulatedServer::start(std::move(config));
  });
}

struct Answer {
  int status = 0;  // 0: closed before the answer's end
  std::string head;
  std::string body;
};

// On a connection of its own, to its end.
Answer ask(std::uint16_t port, const std::string& head, const std::string& body) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(descriptor);
    return {};
  }
  std::string request = head + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  if (!body.empty()) request += "Content-Type: application/json\r\n";
  request += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  for (std::size_t sent = 0; sent < request.size();) {
    const ssize_t count =
        ::send(descriptor, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) break;  // it has answered before the end
    sent += static_cast<std::size_t>(count);
  }
  std::string received;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = ::recv(descriptor, buffer.data(), buffer.size(), 0);
    if (count <= 0) break;
    received.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(descriptor);
  const std::size_t end = received.find("\r\n\r\n");
  if (end == std::string::npos || received.size() < 12) return {};
  Answer answer{.status = std::stoi(received.substr(9, 3)),
                .head = received.substr(0, end),
                .body = received.substr(end + 4)};
  const std::string& header = answer.head;
  const bool chunked = header.find("chunked") != std::string::npos;
  const std::size_t length = header.find("Content-Length: ");
  const bool whole = chunked ? answer.body.ends_with("0\r\n\r\n")
                             : length != std::string::npos &&
                                   answer.body.size() == std::stoul(header.substr(length + 16));
  if (!whole) return {};
  return answer;
}

// What a request must be answered with: the parts of the answer that do not change from one time
// to the next.
struct Question {
  std::string head;
  std::string body;
};

const std::vector<Question>& questions() {
  static const std::vector<Question> all = {
      {"POST /v1/completions",
       R"({"prompt":"abc","max_tokens":6,"temperature":0,"ignore_eos":true,"logprobs":1})"},
      {"POST /v1/completions",
       R"({"prompt":"abcd","max_tokens":4,"temperature":0,"ignore_eos":true,"stream":true})"},
      {"POST /v1/chat/completions",
       R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":4,"temperature":0,)"
       R"("ignore_eos":true,"stop":["zzzzz"]})"},
      {"POST /v1/embeddings", R"({"input":"abc"})"},
      {"POST /tokenize", R"({"prompt":"abc def"})"},
      {"POST /v1/completions", R"({"prompt":"abc","max_tokens":-1})"},
      {"GET /health", ""},
      {"GET /metrics", ""}};
  return all;
}

// Every "text", "content" or "embedding" of an answer, one after the other.
std::string told(const Answer& answer) {
  std::string all = std::to_string(answer.status);
  for (const std::string_view key : {R"("text":")", R"("content":")", R"("embedding":[)",
                                     R"("tokens":[)", R"("finish_reason":")"}) {
    for (std::size_t at = answer.body.find(key); at != std::string::npos;
         at = answer.body.find(key, at + 1)) {
      const std::size_t begin = at + key.size();
      all += '|' + answer.body.substr(begin, answer.body.find_first_of("\"]", begin) - begin);
    }
  }
  return all;
}

bool is_error(const Answer& answer) {
  return answer.status == 0 || answer.status == 500 || answer.status == 503 ||
         answer.body.find(R"("error")") != std::string::npos;
}

std::vector<std::string> right_answers(std::uint16_t port) {
  std::vector<std::string> right;
  for (const Question& question : questions())
    right.push_back(told(ask(port, question.head, question.body)));
  return right;
}

void expect_settled(SimulatedServer& server) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const auto busy = [&] {
    const EngineStats stats = server.engine().observe();
    const bool ended = !server.engine().heartbeat().failure.ok();
    return server.service().num_in_flight() != 0 || server.http().stats().exchanges != 0 ||
           (!ended && stats.num_running + stats.num_waiting != 0);
  };
  while (busy()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline)
        << server.service().num_in_flight() << " requests, " << server.http().stats().exchanges
        << " exchanges never end";
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // What it lacked memory for as it had answered has ended it by now, or will not.
  (void)settled_stats(server.engine());
}

// One server after the other: with an allocation of each call stack failing once.
class EachOfARun {
 public:
  void run() {
    record();
    ASSERT_GT(stacks_.size(), kDefaultFailures);
    for (const StackHash stack : chosen(stacks_)) {
      SCOPED_TRACE(testing::Message()
                   << "call stack " << std::ranges::find(stacks_, stack) - stacks_.begin());
      const std::int64_t live = num_live_allocations();
      try_with(stack);
      EXPECT_EQ(num_live_allocations(), live);
    }
    std::printf("%zu call stacks; %d failed, %d of them ended the engine\n", stacks_.size(),
                num_failed_, num_ended_);
    // Not all come a second time, or not in this order of threads.
    EXPECT_GT(num_failed_, static_cast<int>(chosen(stacks_).size() / 2));
  }

 private:
  void record() {
    const auto server = start_server();
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    start_recording();
    right_ = right_answers((*server)->port());
    stacks_ = stop_recording();
    EXPECT_EQ(right_answers((*server)->port()), right_);
  }

  void try_with(StackHash stack) {
    const auto server = start_server();
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    const std::uint16_t port = (*server)->port();
    fail_once(stack);
    for (std::size_t i = 0; i < questions().size(); ++i) {
      const Answer answer = ask(port, questions()[i].head, questions()[i].body);
      EXPECT_TRUE(is_error(answer) || told(answer) == right_[i])
          << questions()[i].head << ": " << told(answer) << " instead of " << right_[i];
    }
    num_failed_ += stop_failing() ? 1 : 0;
    expect_settled(**server);
    const Status ended = (*server)->engine().heartbeat().failure;
    if (ended.ok()) {
      EXPECT_EQ(right_answers(port), right_);
    } else {
      ++num_ended_;
      EXPECT_EQ(ended.message(), "out of memory");
      EXPECT_EQ(ask(port, "GET /health", "").status, 503);
    }
  }

  std::vector<StackHash> stacks_;
  std::vector<std::string> right_;
  int num_failed_ = 0;
  int num_ended_ = 0;
};

TEST(AllocationFailure, EachInAServersRunGivesTheRightAnswerOrAnError) {
  exempt_this_thread(true);
  log_warning("allocations will be refused");  // the log's own, which stay
  EachOfARun().run();
}

TEST(AllocationFailure, WhileABodyIsReadIs503AndTheConnectionIsClosed) {
  exempt_this_thread(true);
  const auto server = start_server();
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  const std::uint16_t port = (*server)->port();
  const std::string long_body =
      R"({"prompt":"abc","max_tokens":1,"user":")" + std::string(8 << 20, 'x') + "\"}";
  fail_from(1 << 20);
  const Answer refused = ask(port, "POST /v1/completions", long_body);
  EXPECT_TRUE(stop_failing());
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("try again later"), std::string::npos) << refused.body;
  EXPECT_NE(refused.head.find("Connection: close"), std::string::npos) << refused.head;
  EXPECT_EQ(ask(port, "POST /v1/completions", long_body).status, 200);
  expect_settled(**server);
}

// The engine may have taken the request, and its story must have an end.
TEST(AllocationFailure, TheDirectoryNeedsNoMemoryForARequestThatHasBegun) {
  RequestDirectory directory;
  GenerateRequest request;
  request.prompt_token_ids = {5, 6};
  request.params.n = 3;
  RequestOrigin origin;
  origin.external_id = "cmpl-1";
  const auto entry = directory.begin(origin, request, Instant(1), Instant(2));
  int num_told = 0;
  RequestOutput last;
  last.request_id = 7;
  last.finish_reason = FinishReason::kLength;
  fail_on_this_thread();
  directory.submitted(entry, 7);
  stop_failing();
  for (const RequestId id : {RequestId{7}, RequestId{9}, RequestId{9}}) {
    directory.when_ended(id, [&](const auto& story) { num_told += story ? 1 : 0; });
  }
  fail_on_this_thread();
  for (const std::int32_t index : {0, 1, 2, 2}) {  // the last one again, as when somebody threw
    last.index = index;
    directory.finished(entry, last, Instant(9));
  }
  EXPECT_FALSE(stop_failing());
  EXPECT_EQ(num_told, 3);
  EXPECT_EQ(directory.name(9), "cmpl-1#2");
  const auto stories = directory.find("cmpl-1");
  ASSERT_EQ(stories.size(), 3U);
  for (const OutputStory& story : stories) EXPECT_EQ(story.finish_reason, "length");
}

// As soon as one of its prompts has failed, its thread lacks memory.
class LacksMemoryOnceFailed final : public GenerationAnswer {
 public:
  void refused(const Status& /*error*/) override {}
  void piece(std::size_t prompt, const RequestOutput& output, bool /*last*/) override {
    if (prompt == 0) first_id = output.request_id;
  }
  void failed(const Status& /*error*/) override {
    fail_on_this_thread();
    has_failed = true;
  }

  std::atomic<RequestId> first_id = 0;
  std::atomic<bool> has_failed = false;
};

TEST(AllocationFailure, AFailedPromptEndsItsSiblingsOnceThereIsMemory) {
  exempt_this_thread(true);
  load::SimulatedServerConfig config;
  config.engine.engine.model = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
  config.engine.step_time = std::chrono::milliseconds(50);
  const auto server = SimulatedServer::start(std::move(config));
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  std::vector<GenerateRequest> prompts(4);
  for (GenerateRequest& prompt : prompts) {
    prompt.prompt_token_ids = {5, 6, 7};
    prompt.params.ignore_eos = true;
    prompt.params.max_tokens = 200;
  }
  const auto answer = std::make_shared<LacksMemoryOnceFailed>();
  const auto generation =
      Generation::submit((*server)->service().model(), {.external_id = "cmpl-1"}, prompts, answer);
  ASSERT_TRUE(generation.ok()) << generation.status().to_string();
  (*generation)->open([] {});
  EXPECT_TRUE(eventually(
      [&] { return answer->first_id != 0 && (*server)->engine().observe().num_running == 4; }));
  (*server)->engine().abort(answer->first_id);
  EXPECT_TRUE(eventually([&] { return answer->has_failed.load(); }));
  EXPECT_TRUE(eventually(has_failed));                          // it tries in vain
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // again and again
  EXPECT_TRUE(stop_failing());
  expect_settled(**server);
  EXPECT_EQ((*server)->engine().observe().num_aborted, 4);
}

// Starts a server and ends it, on a thread of its own: so that the call stacks are the same ones
// each time.
Status start_and_end() {
  Status status;
  std::thread([&status] { status = start_server().status(); }).join();
  return status;
}

TEST(AllocationFailure, EachInAServersStartIsAnError) {
  exempt_this_thread(true);
  ASSERT_TRUE(start_and_end().ok());  // what is made once and stays
  start_recording();
  ASSERT_TRUE(start_and_end().ok());
  const std::vector<StackHash> stacks = stop_recording();
  ASSERT_GT(stacks.size(), kDefaultFailures);
  int num_failed = 0;
  for (const StackHash stack : chosen(stacks)) {
    SCOPED_TRACE(testing::Message()
                 << "call stack " << std::ranges::find(stacks, stack) - stacks.begin());
    const std::int64_t live = num_live_allocations();
    fail_once(stack);
    {
      const Status status = start_and_end();
      if (stop_failing()) ++num_failed;
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kUnavailable) << status.to_string();
    }
    EXPECT_EQ(num_live_allocations(), live);
  }
  std::printf("%zu call stacks; %d failed\n", stacks.size(), num_failed);
  EXPECT_GT(num_failed, static_cast<int>(chosen(stacks).size() / 2));
  EXPECT_TRUE(start_and_end().ok());
}

}  // namespace
}  // namespace quire::test
