#include "serve/protocols/openai/response_background.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/models/test_held_engine.h"
#include "serve/protocols/openai/responses.h"
#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace response_background_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Query = std::vector<std::pair<std::string, std::string>>;

class BackgroundTest : public testing::Test {
 protected:
  std::shared_ptr<TestExchange> begin(std::string method, std::string path, std::string body = {},
                                      Query query = {}) {
    HttpRequest request = post_request(std::move(path), std::move(body));
    request.method = std::move(method);
    request.query = std::move(query);
    return begin_exchange(routes_, std::move(request));
  }
  HttpResponse call(std::string method, std::string path, std::string body = {}, Query query = {}) {
    return begin(std::move(method), std::move(path), std::move(body), std::move(query))->wait();
  }
  // What a request in the background is answered with at once.
  json::value create(json::object fields = {}) {
    return parse_body(call("POST", "/v1/responses", body_of(std::move(fields))));
  }
  static std::string body_of(json::object fields) {
    fields["input"] = "The cat";
    fields["background"] = true;
    fields["max_output_tokens"] = 8;
    fields["temperature"] = 0;
    fields["ignore_eos"] = true;
    return json::serialize(fields);
  }
  static std::string path_of(const json::value& response) {
    return "/v1/responses/" + std::string(response.at("id").as_string());
  }
  // As a client polls it.
  json::value poll_to_its_end(const std::string& path) {
    while (true) {
      json::value response = parse_body(call("GET", path));
      const json::value& status = response.at("status");
      if (status != "queued" && status != "in_progress") return response;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  TestService service_;
  std::shared_ptr<ResponseStore> store_ = std::make_shared<ResponseStore>();
  std::vector<Route> routes_ = response_routes(service_.service(), store_);
};

TEST_F(BackgroundTest, AnswersAtOnceAndIsPolledToItsEnd) {
  std::string path;
  {
    const test::HeldEngine held(service_.engine());
    const json::value queued = create({{"metadata", {{"a", "b"}}}});
    EXPECT_EQ(queued.at("status"), "queued");
    EXPECT_EQ(queued.at("background"), true);
    EXPECT_EQ(queued.at("output"), json::array());
    path = path_of(queued);
    EXPECT_EQ(parse_body(call("GET", path)), queued);
    const json::value items = parse_body(call("GET", path + "/input_items"));
    EXPECT_EQ(items.at("data").as_array().size(), 1U);
  }
  const json::value ended = poll_to_its_end(path);
  EXPECT_EQ(ended.at("status"), "incomplete");  // by its length
  EXPECT_EQ(ended.at("usage").at("output_tokens").as_int64(), 8);
  EXPECT_EQ(ended.at("metadata").at("a"), "b");
  // The same as in the foreground.
  const HttpResponse whole =
      call("POST", "/v1/responses",
           R"({"input": "The cat", "max_output_tokens": 8, "temperature": 0, "ignore_eos": true})");
  EXPECT_EQ(parse_body(whole).at("output").at(0).at("content"),
            ended.at("output").at(0).at("content"));
}

TEST_F(BackgroundTest, RunsOnWhenItsClientHasGone) {
  std::shared_ptr<TestExchange> exchange;
  {
    const test::HeldEngine held(service_.engine());
    exchange = begin("POST", "/v1/responses", body_of({{"stream", true}}));
    EXPECT_TRUE(exchange->streaming());
    exchange->disconnect();
  }
  const std::string events = exchange->body();
  const std::size_t at = events.find("resp_");
  ASSERT_NE(at, std::string::npos);
  const std::string id = events.substr(at, events.find('"', at) - at);
  EXPECT_EQ(poll_to_its_end("/v1/responses/" + id).at("status"), "incomplete");
  EXPECT_EQ(test::settled_stats(service_.engine()).num_aborted, 0);
}

TEST_F(BackgroundTest, ItsEventsAreFollowedFromAnyOfThem) {
  std::shared_ptr<TestExchange> first;
  std::shared_ptr<TestExchange> second;
  std::string path;
  {
    const test::HeldEngine held(service_.engine());
    first = begin("POST", "/v1/responses", body_of({{"stream", true}}));
    const std::string events = first->body();
    EXPECT_THAT(events, HasSubstr("event: response.queued"));
    EXPECT_THAT(events, Not(HasSubstr("event: response.in_progress")));
    const std::size_t at = events.find("resp_");
    path = "/v1/responses/" + events.substr(at, events.find('"', at) - at);
    second = begin("GET", path, {}, {{"stream", "true"}, {"starting_after", "0"}});
    EXPECT_THAT(second->body(), StartsWith("event: response.queued"));
  }
  const std::string all = first->wait().body;
  EXPECT_THAT(all, StartsWith("event: response.created"));
  EXPECT_THAT(all, HasSubstr("event: response.in_progress"));
  EXPECT_EQ(second->wait().body, events_after(all, 0));
  // Also when it has ended, by the same numbers.
  for (const char* after : {"0", "3", "7"}) {
    const HttpResponse rest =
        call("GET", path, {}, {{"stream", "true"}, {"starting_after", after}});
    EXPECT_EQ(rest.body, events_after(all, std::stoi(after))) << after;
    EXPECT_THAT(rest.body, HasSubstr("response.incomplete"));
  }
  EXPECT_EQ(call("GET", path, {}, {{"stream", "true"}}).body, all);
  EXPECT_EQ(call("GET", path, {}, {{"stream", "true"}, {"starting_after", "99999"}}).body, "");
  const HttpResponse refused = call("GET", path, {}, {{"stream", "true"}, {"starting_after", "x"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(parse_body(refused).at("error").at("param"), "starting_after");
}

TEST_F(BackgroundTest, IsCancelledOnce) {
  std::string path;
  std::shared_ptr<TestExchange> follower;
  {
    const test::HeldEngine held(service_.engine());
    path = path_of(create());
    follower = begin("GET", path, {}, {{"stream", "true"}});
    const json::value cancelled = parse_body(call("POST", path + "/cancel"));
    EXPECT_EQ(cancelled.at("status"), "cancelled");
    EXPECT_EQ(parse_body(call("POST", path + "/cancel")), cancelled);
    EXPECT_EQ(parse_body(call("GET", path)), cancelled);
    EXPECT_EQ(parse_body(call("GET", path + "/input_items")).at("data").as_array().size(), 1U);
  }
  EXPECT_THAT(follower->wait().body, HasSubstr("response.queued"));
  while (service_.service().num_in_flight() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const EngineStats stats = test::settled_stats(service_.engine());
  EXPECT_EQ(stats.num_aborted, 1);
  EXPECT_EQ(stats.blocks_leaked, 0);
}

TEST_F(BackgroundTest, WhatHasEndedStaysAsItIsWhenItIsCancelled) {
  const std::string path = path_of(create());
  const json::value ended = poll_to_its_end(path);
  EXPECT_EQ(parse_body(call("POST", path + "/cancel")), ended);
}

TEST_F(BackgroundTest, DeletingAbortsIt) {
  const test::HeldEngine held(service_.engine());
  const std::string path = path_of(create());
  EXPECT_EQ(parse_body(call("DELETE", path)).at("deleted"), true);
  EXPECT_EQ(call("GET", path).status, 404);
  EXPECT_EQ(call("DELETE", path).status, 404);
  EXPECT_EQ(store_->size(), 0U);
}

TEST_F(BackgroundTest, NoMoreThanTheLimitRun) {
  std::vector<std::string> paths;
  {
    const test::HeldEngine held(service_.engine());
    for (std::size_t i = 0; i < BackgroundResponses::kMaxLive; ++i)
      paths.push_back(path_of(create()));
    const HttpResponse refused = call("POST", "/v1/responses", body_of({}));
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.body, HasSubstr("64 responses run in the background"));
    for (const std::string& path : paths) call("DELETE", path);
    EXPECT_EQ(create().at("status"), "queued");
  }
}

TEST_F(BackgroundTest, WithoutStoreItIsRefused) {
  const HttpResponse refused = call("POST", "/v1/responses", body_of({{"store", false}}));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(parse_body(refused).at("error").at("param"), "background");
}

TEST_F(BackgroundTest, WhatIsRefusedAnswersItsCaller) {
  service_.service().drain();
  EXPECT_EQ(call("POST", "/v1/responses", body_of({})).status, 503);
}

TEST(BackgroundResponseTest, EventsBeyondTheLimitAreNotKept) {
  const auto live = std::make_shared<BackgroundResponses>();
  const auto store = std::make_shared<ResponseStore>();
  const auto caller = TestExchange::post("/v1/responses", "");
  const auto response = std::make_shared<BackgroundResponse>("resp_1", json::object{}, caller,
                                                             /*caller_follows=*/false, live, store);
  ASSERT_TRUE(live->add("resp_1", response));
  response->start_stream({});
  response->write("data: 1\n\ndata: 2\n\n");
  EXPECT_THAT(response->snapshot(), HasSubstr("queued"));
  const auto follower = TestExchange::post("/", "");
  EXPECT_TRUE(response->follow(follower, 0, 1000));
  EXPECT_FALSE(response->follow(TestExchange::post("/", ""), {}, 10));  // more than may wait
  response->write(std::string(BackgroundResponse::kMaxEventBytes, 'x') + "\n\n");
  EXPECT_THAT(response->snapshot(), HasSubstr("in_progress"));
  EXPECT_THAT(follower->body(), EndsWith("x\n\n"));
  EXPECT_FALSE(response->follow(TestExchange::post("/", ""), {}, 1U << 30));
  response->keep({.response = "{}", .input_items = "[]", .messages = "[]"});
  response->finish();
  EXPECT_EQ(live->find("resp_1"), nullptr);
  ASSERT_NE(store->find("resp_1"), nullptr);
  EXPECT_FALSE(store->find("resp_1")->events_kept);
}

// A thread that found it while it ran may ask it when it has ended.
TEST(BackgroundResponseTest, TellsAtItsEndWhatIsStored) {
  const auto live = std::make_shared<BackgroundResponses>();
  const auto store = std::make_shared<ResponseStore>();
  const auto response = std::make_shared<BackgroundResponse>(
      "resp_1", json::object{}, TestExchange::post("/v1/responses", ""), /*caller_follows=*/false,
      live, store);
  ASSERT_TRUE(live->add("resp_1", response));
  response->start_stream({});
  response->write("data: 1\n\ndata: 2\n\n");
  response->write("data: 3\n\n");
  response->keep(
      {.response = "{\"status\":\"completed\"}", .input_items = "[1]", .messages = "[]"});
  response->finish();
  EXPECT_EQ(response->snapshot(), "{\"status\":\"completed\"}");
  EXPECT_EQ(response->kept()->input_items, "[1]");
  const auto follower = TestExchange::post("/", "");
  EXPECT_TRUE(response->follow(follower, 0, 1000));
  EXPECT_EQ(follower->body(), "data: 2\n\ndata: 3\n\n");
}

}  // namespace response_background_test
}  // namespace quire
