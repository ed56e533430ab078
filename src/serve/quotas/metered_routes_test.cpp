#include "serve/quotas/metered_routes.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "serve/http/test_exchange.h"

namespace quire {
namespace {

std::string header(const HttpResponse& response, std::string_view name) {
  const auto found = std::ranges::find(response.headers, name, &HttpHeader::name);
  return found == response.headers.end() ? "" : found->value;
}

class MeteredRoutes : public testing::Test {
 protected:
  // One metered route whose handler keeps its exchange, and one that is not.
  void limit(const QuotaLimits& limits, CallerLimits own = {}) {
    quotas_ = std::make_unique<KeyQuotas>(limits, std::move(own));
    const auto keep = [this](std::shared_ptr<Exchange> exchange) {
      running_.push_back(std::move(exchange));
    };
    routes_ =
        metered_routes({{.method = "POST", .pattern = "/work", .handler = keep, .metered = true},
                        {.method = "POST", .pattern = "/look", .handler = keep}},
                       *quotas_);
  }
  std::shared_ptr<TestExchange> ask(std::size_t route, std::string caller = "a") {
    HttpRequest request;
    request.caller = std::move(caller);
    auto exchange = std::make_shared<TestExchange>(std::move(request));
    routes_[route].handler(exchange);
    return exchange;
  }

  std::unique_ptr<KeyQuotas> quotas_;
  std::vector<Route> routes_;
  std::vector<std::shared_ptr<Exchange>> running_;
};

TEST_F(MeteredRoutes, OneTooManyIsAnsweredWithoutItsHandler) {
  limit({.requests_per_minute = {}, .tokens_per_minute = {}, .parallel_requests = 1});
  ask(0);
  const HttpResponse refused = ask(0)->wait();
  EXPECT_EQ(running_.size(), 1U);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(header(refused, "Retry-After"), "1");
  EXPECT_NE(refused.body.find(R"("code":"rate_limit_exceeded")"), std::string::npos);
  EXPECT_NE(refused.body.find("--max-parallel-requests"), std::string::npos);
  ask(0, "b");
  ask(1);
  EXPECT_EQ(running_.size(), 3U);
}

TEST_F(MeteredRoutes, ARequestIsUnderWayUntilItsAnswerEnds) {
  limit({.requests_per_minute = {}, .tokens_per_minute = {}, .parallel_requests = 1});
  const auto whole = ask(0);
  running_.back()->respond({.body = "{}"});  // its exchange lives on
  EXPECT_EQ(whole->wait().status, 200);
  ask(0);
  ASSERT_EQ(running_.size(), 2U);
  running_.back()->start_stream({.content_type = "text/event-stream"});
  EXPECT_EQ(ask(0)->wait().status, 429);
  running_.back()->finish();
  ask(0);
  ASSERT_EQ(running_.size(), 3U);
  running_.pop_back();  // its client has gone: nobody answers it
  ask(0);
  EXPECT_EQ(running_.size(), 3U);
}

TEST_F(MeteredRoutes, AnswersSayWhatIsLeft) {
  limit({.requests_per_minute = 3, .tokens_per_minute = 1000, .parallel_requests = {}});
  const auto exchange = ask(0);
  quotas_->charge("a", 300, KeyQuotas::Clock::now());
  running_.back()->respond({.body = "{}"});
  const HttpResponse response = exchange->wait();
  EXPECT_EQ(header(response, "x-ratelimit-limit-requests"), "3");
  EXPECT_EQ(header(response, "x-ratelimit-remaining-requests"), "2");
  EXPECT_EQ(header(response, "x-ratelimit-limit-tokens"), "1000");
  const int left = std::stoi(header(response, "x-ratelimit-remaining-tokens"));
  EXPECT_GE(left, 700);
  EXPECT_LT(left, 1000);
  EXPECT_TRUE(header(response, "x-ratelimit-reset-tokens").ends_with("s"));
}

TEST_F(MeteredRoutes, AnswersSayTheLimitsOfTheirOwnKey) {
  limit({}, {{"a", {.requests_per_minute = 5, .tokens_per_minute = {}, .parallel_requests = {}}}});
  const auto own = ask(0, "a");
  running_.back()->respond({.body = "{}"});
  EXPECT_EQ(header(own->wait(), "x-ratelimit-limit-requests"), "5");
  const auto other = ask(0, "b");
  running_.back()->respond({.body = "{}"});
  EXPECT_TRUE(other->wait().headers.empty());
}

TEST_F(MeteredRoutes, WithoutLimitsNothingIsAdded) {
  limit({});
  const auto exchange = ask(0);
  running_.back()->respond({.body = "{}"});
  EXPECT_TRUE(exchange->wait().headers.empty());
}

}  // namespace
}  // namespace quire
