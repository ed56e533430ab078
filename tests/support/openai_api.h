// The OpenAI-compatible routes over a simulated engine, without a network, and what they answer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apps/simulated_engine.h"
#include "serve/http/test_exchange.h"
#include "serve/models/test_held_engine.h"
#include "serve/operations.h"
#include "serve/protocols/llamacpp/llamacpp_routes.h"
#include "serve/protocols/openai/routes.h"

namespace quire::test {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChatCompletions = "/v1/chat/completions";

// An engine and the routes over it.
class Api {
 public:
  explicit Api(SimulatedEngineArgs args = {}, ServiceConfig config = {}) {
    args.engine.model = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
    auto steps = std::make_shared<StepWatch>();
    auto created =
        create_simulated_engine(args, [steps](const StepRecord& step) { steps->record(step); });
    EXPECT_TRUE(created.ok()) << created.status().to_string();
    engine = created->get();
    config.served_model_names = {"tiny", "alias"};
    config.log_requests = false;
    service = std::make_unique<Service>(std::move(created).value(), config, steps);
    router.add_all(operation_routes(*service, "0", [] { return HttpServerStats(); }));
    router.add_all(openai_routes(*service));
    router.add_all(llamacpp_routes(*service));
  }

  std::shared_ptr<TestExchange> start(const std::string& path, const std::string& body) {
    auto exchange = TestExchange::post(path, body);
    router.match("POST", path).route->handler(exchange);
    return exchange;
  }
  HttpResponse post(const std::string& path, const std::string& body) {
    return start(path, body)->wait();
  }
  HttpResponse get(const std::string& path) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    const auto match = router.match("GET", path);
    request.path_params = match.path_params;
    auto exchange = std::make_shared<TestExchange>(request);
    match.route->handler(exchange);
    return exchange->wait();
  }
  // Waits until no request runs or waits, and the statistics tell of them all.
  EngineStats settled() {
    while (true) {
      const bool answered = service->num_in_flight() == 0;
      const EngineStats stats = settled_stats(*engine);
      if (answered && stats.num_running + stats.num_waiting == 0) return stats;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Engine* engine = nullptr;  // the service's
  std::unique_ptr<Service> service;
  Router router;
};

inline json::object object_of(const HttpResponse& response) {
  const auto value = parse_json(response.body, "answer");
  EXPECT_TRUE(value.ok()) << response.body;
  return value.ok() && value->is_object() ? value->get_object() : json::object();
}

// The objects of a stream of events, which must end with [DONE].
inline std::vector<json::object> chunks_of(const HttpResponse& response) {
  std::vector<json::object> chunks;
  std::string_view rest = response.body;
  bool done = false;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    const std::string_view event = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    EXPECT_FALSE(done);
    done = event == "data: [DONE]";
    if (!done) chunks.push_back(parse_json(event.substr(6), "event").value().get_object());
  }
  EXPECT_TRUE(done);
  return chunks;
}

inline const json::object& choice(const json::object& answer, std::size_t index = 0) {
  return answer.at("choices").as_array().at(index).as_object();
}

}  // namespace quire::test
