// A service over a tiny model with random weights, for tests of handlers; and one call of a
// handler.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "serve/http/router.h"
#include "serve/http/test_exchange.h"
#include "serve/service.h"

namespace quire {

class TestService {
 public:
  explicit TestService(EngineArgs args = {}, ServiceConfig config = {}) {
    if (args.model.empty()) args.model = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
    args.threads = 1;
    auto engine = Engine::create(args, {});
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    if (!engine.ok()) std::abort();
    config.served_model_names = {"tiny"};
    config.log_requests = false;
    service_ = std::make_unique<Service>(*std::move(engine), config, nullptr);
  }

  Service& service() { return *service_; }
  ServedModel& model() { return service_->model(); }
  Engine& engine() { return model().engine(); }

 private:
  std::unique_ptr<Service> service_;
};

// Begins an exchange with the route that takes it, which must be there.
inline std::shared_ptr<TestExchange> begin_exchange(const std::vector<Route>& routes,
                                                    HttpRequest request) {
  Router router;
  router.add_all(routes);
  auto match = router.match(request.method, request.path);
  EXPECT_NE(match.route, nullptr) << request.path;
  request.path_params = std::move(match.path_params);
  auto exchange = std::make_shared<TestExchange>(std::move(request));
  if (match.route != nullptr) match.route->handler(exchange);
  return exchange;
}

inline HttpRequest post_request(std::string path, std::string body) {
  HttpRequest request;
  request.method = "POST";
  request.path = std::move(path);
  request.headers = {{"Content-Type", "application/json"}};
  request.body = std::move(body);
  request.request_id = "test-1";
  return request;
}

inline json::value parse_body(const HttpResponse& response) {
  auto value = parse_json(response.body, "answer");
  EXPECT_TRUE(value.ok()) << value.status().to_string() << "\n" << response.body.substr(0, 400);
  return value.ok() ? *std::move(value) : json::value();
}

}  // namespace quire
