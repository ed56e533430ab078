// Viewers of the engine, without a network: slow ones, ones that go, and the engine's end.
#include <chrono>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/simulated_engine.h"
#include "serve/http/test_exchange.h"
#include "serve/models/test_held_engine.h"
#include "serve/service.h"
#include "support/eventually.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

class LiveViewTest : public testing::Test {
 protected:
  void SetUp() override {
    SimulatedEngineArgs args;
    args.engine.model = tiny_llama("hf");
    args.engine.max_num_seqs = 4;
    args.step_time = milliseconds(2);
    auto engine = create_simulated_engine(
        args, [steps = steps_](const StepRecord& step) { steps->record(step); });
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    service_ = std::make_unique<Service>(
        *std::move(engine), ServiceConfig{.served_model_names = {"tiny"}, .log_requests = false},
        steps_);
    for (const Route& route : live().routes()) routes_[route.pattern] = route.handler;
  }

  std::shared_ptr<TestExchange> get(const std::string& path, const std::string& hz = "10") {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.query = {{"hz", hz}};
    auto exchange = std::make_shared<TestExchange>(std::move(request));
    routes_.at(path)(exchange);
    return exchange;
  }
  void submit(std::int64_t max_tokens) {
    GenerateRequest request;
    request.prompt_token_ids = {5, 6, 7};
    request.params.max_tokens = max_tokens;
    request.params.ignore_eos = true;
    ASSERT_TRUE(
        service_->model()
            .submit({.external_id = "req-1"}, std::move(request), [](const RequestOutput&) {})
            .ok());
  }

  static std::vector<json::value> events_of(TestExchange& exchange) {
    std::vector<json::value> events;
    const std::string body = exchange.body();
    for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = body.find("\n\n", at);
      if (end == std::string::npos) break;
      auto event = parse_json(body.substr(at + 6, end - at - 6), "event");
      if (!event.ok()) {
        ADD_FAILURE() << event.status().to_string();
        break;
      }
      events.push_back(*std::move(event));
      at = end;
    }
    return events;
  }

  LiveView& live() { return service_->model().live(); }

  std::shared_ptr<StepWatch> steps_ = std::make_shared<StepWatch>();
  std::unique_ptr<Service> service_;
  std::map<std::string, HttpHandler> routes_;
};

TEST_F(LiveViewTest, SendsEventsToAllViewers) {
  const auto first = get("/engine/live");
  const auto second = get("/engine/live", "5");
  // Half as often: so many looks are late at once on no machine that the second catches up.
  EXPECT_TRUE(eventually([&] {
    const std::size_t num_second = events_of(*second).size();
    return num_second >= 2 && events_of(*first).size() > num_second + 2;
  }));
  EXPECT_TRUE(eventually([&] {
    if (service_->num_in_flight() == 0) submit(100);
    return first->body().find("\"id\":\"req-1\"") != std::string::npos;
  }));
}

// A slow viewer is sent nothing until it has taken what there is; then it gets all steps.
TEST_F(LiveViewTest, WaitsForASlowViewerWithoutLosingSteps) {
  const auto fast = get("/engine/live");
  const auto slow = get("/engine/live");
  ASSERT_TRUE(eventually([&] { return !events_of(*slow).empty(); }));
  slow->set_unsent_bytes(1);
  const std::size_t before = events_of(*slow).size();
  const std::size_t fast_before = events_of(*fast).size();
  submit(60);
  ASSERT_TRUE(eventually([&] { return events_of(*fast).size() >= fast_before + 4; }));
  EXPECT_LE(events_of(*slow).size(), before + 1);  // one may have been on its way
  slow->set_unsent_bytes(0);
  ASSERT_TRUE(eventually([&] { return service_->num_in_flight() == 0; }));
  const auto num_steps =
      static_cast<std::size_t>(settled_stats(service_->model().engine()).num_steps);
  const auto steps = [](TestExchange& exchange) {
    std::vector<std::int64_t> ids;
    for (const json::value& event : events_of(exchange)) {
      EXPECT_EQ(event.at("steps_missed").to_number<std::int64_t>(), 0);
      for (const json::value& step : event.at("steps").as_array()) {
        ids.push_back(step.at(0).to_number<std::int64_t>());
      }
    }
    return ids;
  };
  ASSERT_TRUE(eventually([&] { return steps(*slow).size() >= num_steps; }));
  ASSERT_TRUE(eventually([&] { return steps(*fast).size() >= num_steps; }));
  EXPECT_EQ(steps(*slow), steps(*fast));
}

// What is gone before a viewer comes is not what it missed.
TEST_F(LiveViewTest, TellsANewcomerOfNoStepsMissed) {
  const auto first = get("/engine/live");
  const auto num_steps = [&] {
    return static_cast<std::size_t>(service_->model().engine().observe().num_steps);
  };
  while (num_steps() < StepLog::kMaxSteps + 50) {
    submit(100);
    ASSERT_TRUE(eventually([&] { return service_->num_in_flight() == 0; }));
  }
  const auto newcomer = get("/engine/live");
  ASSERT_TRUE(eventually([&] { return !events_of(*newcomer).empty(); }));
  const json::value event = events_of(*newcomer).front();
  EXPECT_EQ(event.at("steps_missed").to_number<std::int64_t>(), 0);
  EXPECT_FALSE(event.at("steps").as_array().empty());
}

TEST_F(LiveViewTest, KeepsNothingWhenTheLastViewerHasGone) {
  const auto viewer = get("/engine/live");
  ASSERT_TRUE(eventually([&] { return !events_of(*viewer).empty(); }));
  viewer->disconnect();
  // It notices when the next look is due; then nobody takes what a recorder keeps.
  EXPECT_TRUE(eventually([&] {
    (void)steps_->recorder.take();
    submit(5);
    const bool ended = eventually([&] { return service_->num_in_flight() == 0; });
    return ended && steps_->recorder.take().steps.empty();
  }));
}

TEST_F(LiveViewTest, EndsItsStreamsWhenItStops) {
  const auto viewer = get("/engine/live");
  ASSERT_TRUE(eventually([&] { return !events_of(*viewer).empty(); }));
  live().stop();
  EXPECT_THAT(viewer->wait().body, HasSubstr("the server is shutting down"));
  EXPECT_EQ(get("/engine/live")->wait().status, 503);
  EXPECT_EQ(get("/engine/state")->wait().status, 503);
}

TEST_F(LiveViewTest, AnswersAStateOrRefusesTheRate) {
  const HttpResponse state = get("/engine/state")->wait();
  EXPECT_EQ(state.status, 200);
  EXPECT_THAT(state.body, HasSubstr("\"blocks\":"));
  EXPECT_THAT(state.body, Not(HasSubstr("per_second")));
  const HttpResponse refused = get("/engine/live", "0")->wait();
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find(R"("param":"hz")"), std::string::npos) << refused.body;
}

}  // namespace
}  // namespace quire::test
