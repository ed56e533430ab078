// Where requests' time went, as the server tells it: over a simulated engine with too few slots and
// blocks, so that requests wait for every reason.
#include <array>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/simulated_engine.h"
#include "serve/http/test_exchange.h"
#include "serve/models/test_held_engine.h"
#include "serve/protocols/openai/routes.h"
#include "serve/why/why_routes.h"

namespace quire {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class Api {
 public:
  explicit Api(SimulatedEngineArgs args, PrefixCacheScope scope = PrefixCacheScope::kKey) {
    args.engine.model = QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf";
    auto created = create_simulated_engine(args, {});
    EXPECT_TRUE(created.ok()) << created.status().to_string();
    ServiceConfig config;
    config.served_model_names = {"tiny"};
    config.log_requests = false;
    config.prefix_cache_scope = scope;
    service_ = std::make_unique<Service>(std::move(created).value(), config,
                                         std::make_shared<StepWatch>());
    router_.add_all(openai_routes(*service_));
    router_.add_all(why_routes(service_->model().engine(), service_->model().directory(),
                               scope == PrefixCacheScope::kKey,
                               [](Duration step_time) { return 2 * to_seconds(step_time); }));
  }

  // The exchange of a completion; it notes when it is answered.
  class Timed : public TestExchange {
   public:
    Timed(HttpRequest request, const Engine& engine, Instant begin)
        : TestExchange(std::move(request)), engine_(engine), begin_(begin) {}
    void respond(HttpResponse response) override {
      end_ = engine_.now();
      TestExchange::respond(std::move(response));
    }
    double measured_ms() const { return to_seconds(end_ - begin_) * 1e3; }  // after wait()

   private:
    const Engine& engine_;
    Instant begin_;
    Instant end_{};
  };

  std::shared_ptr<Timed> complete(const std::string& id, const json::object& fields,
                                  const std::string& caller = "") {
    json::object body = {{"prompt", "a b c"}, {"request_id", id}, {"ignore_eos", true}};
    for (const auto& [key, value] : fields) body[key] = value;
    HttpRequest request = TestExchange::post("/v1/completions", json::serialize(body))->request();
    const Instant begin = service_->model().engine().now();
    request.received = std::chrono::steady_clock::now();
    request.caller = caller;
    auto exchange = std::make_shared<Timed>(std::move(request), service_->model().engine(), begin);
    router_.match("POST", "/v1/completions").route->handler(exchange);
    return exchange;
  }
  std::pair<int, json::object> why(const std::string& id, const std::string& caller = "") {
    HttpRequest request;
    request.caller = caller;
    request.method = "GET";
    request.path = "/requests/cmpl-" + id + "/why";
    const auto match = router_.match("GET", request.path);
    request.path_params = match.path_params;
    auto exchange = std::make_shared<TestExchange>(request);
    match.route->handler(exchange);
    const HttpResponse response = exchange->wait();
    return {response.status, parse_json(response.body, "why")->as_object()};
  }
  Service& service() { return *service_; }

 private:
  std::unique_ptr<Service> service_;
  Router router_;
};

double sum_of_spans(const json::object& story) {
  double sum = 0;
  for (const json::value& span : story.at("spans").as_array()) {
    sum += span.at("duration_ms").as_double();
  }
  return sum;
}

// Whether it is told what the scheduler did with it.
bool was_taken(const json::object& story) {
  const json::array& spans = story.at("spans").as_array();
  return !spans.empty() && spans.back().at("what") != "receive" &&
         spans.back().at("what") != "admit";
}

SimulatedEngineArgs crowded(std::uint64_t kv_kib = 112) {
  SimulatedEngineArgs args;
  args.step_time = microseconds(500);
  args.token_time = microseconds(20);
  args.engine.max_num_seqs = 5;
  args.engine.max_num_batched_tokens = 24;
  args.engine.kv_cache_memory_bytes = kv_kib * 1024;  // too few blocks for five long ones
  return args;
}

void check_preemption(const json::object& preemption) {
  EXPECT_EQ(preemption.at("method"), "recompute") << "there are no files";
  EXPECT_EQ(preemption.at("blocks"), 0);
  EXPECT_GT(preemption.at("pages").as_int64(), 0);
  EXPECT_GT(preemption.at("tokens").as_int64(), 0);
  EXPECT_GE(preemption.at("cost_ms").as_double(), 0);
}

TEST(Why, ThePartsOfTwoHundredRequestsSumToTheirMeasuredTimes) {
  Api api(crowded(72));
  std::mt19937 random(6);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  constexpr int kRequests = 200;
  std::vector<std::shared_ptr<Api::Timed>> exchanges;
  for (int i = 0; i < kRequests; ++i) {
    json::array prompt;
    for (int k = draw(1, 60); k > 0; --k) prompt.emplace_back(draw(3, 200));
    exchanges.push_back(api.complete(std::to_string(i), {{"prompt", std::move(prompt)},
                                                         {"max_tokens", draw(8, 60)},
                                                         {"n", draw(0, 5) == 0 ? 2 : 1}}));
    std::this_thread::sleep_for(milliseconds(draw(0, 3)));
  }

  int num_within = 0;
  double cost = 0;
  std::map<std::string, int> causes;
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(exchanges[static_cast<std::size_t>(i)]->wait().status, 200);
    const auto [status, told] = api.why(std::to_string(i));
    ASSERT_EQ(status, 200);
    double longest = 0;
    for (const json::value& output : told.at("outputs").as_array()) {
      const json::object& story = output.as_object();
      EXPECT_NEAR(sum_of_spans(story), story.at("total_ms").as_double(), 1e-6);
      longest = std::max(longest, sum_of_spans(story));
      cost += story.at("cost").as_double();
      for (const json::value& span : story.at("spans").as_array()) {
        if (const auto* cause = span.as_object().if_contains("cause")) {
          ++causes[std::string(cause->as_string())];
          if (cause->as_string() == "preempted")
            check_preemption(span.at("preemption").as_object());
        }
      }
    }
    const double measured = exchanges[static_cast<std::size_t>(i)]->measured_ms();
    EXPECT_LE(longest, measured);
    num_within += measured - longest <= 0.02 * measured ? 1 : 0;
  }
  // All but those whose threads lost the processor as they measured.
  EXPECT_GE(num_within, kRequests * 95 / 100);
  for (const char* cause : {"queue_order", "max_num_seqs", "token_budget", "preempted"}) {
    EXPECT_GT(causes[cause], 0) << cause;
  }
  // All that steps cost, and that they were paid by nobody else.
  EXPECT_GT(cost, 0);
  EXPECT_LE(cost, 2 * to_seconds(api.service().model().engine().now()));
}

// A row takes 520 us of the 600 that a step may take: a prompt waits for the one before it.
TEST(Why, AWaitForTheTimeOfAStepIsOne) {
  SimulatedEngineArgs args = crowded();
  args.engine.max_num_batched_tokens = 512;
  args.engine.max_step_ms = 0.6;
  args.engine.enable_prefix_caching = false;
  Api api(args);
  const auto prompt = [] { return json::array(40, 7); };
  std::vector<std::shared_ptr<Api::Timed>> exchanges;
  {
    const test::HeldEngine held(api.service().model().engine());
    for (int i = 0; i < 4; ++i) {
      exchanges.push_back(
          api.complete(std::to_string(i), {{"prompt", prompt()}, {"max_tokens", 30}}));
    }
  }
  double waited = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(exchanges[static_cast<std::size_t>(i)]->wait().status, 200);
    const json::value told = api.why(std::to_string(i)).second;
    for (const json::value& span : told.at("outputs").at(0).at("spans").as_array()) {
      const auto* cause = span.as_object().if_contains("cause");
      if (cause == nullptr || *cause != "step_time") continue;
      waited += span.at("duration_ms").to_number<double>();
      EXPECT_GE(span.at("waited_for").at("count").as_int64(), 1);
    }
  }
  EXPECT_GT(waited, 1.0);
}

TEST(Why, ARequestThatRunsIsExplainedToo) {
  SimulatedEngineArgs args = crowded();
  args.engine.max_num_seqs = 1;
  args.step_time = milliseconds(100);  // so that it still runs when it is asked for
  Api api(args);
  const auto running = api.complete("runs", {{"max_tokens", 200}});
  const auto waiting = api.complete("waits", {{"max_tokens", 2}});
  while (api.service().model().engine().observe().num_waiting == 0) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  const json::object told = api.why("waits").second.at("outputs").as_array()[0].as_object();
  EXPECT_EQ(told.at("status"), "running");
  const json::object& wait = told.at("spans").as_array().back().as_object();
  EXPECT_EQ(wait.at("cause"), "max_num_seqs");
  EXPECT_EQ(wait.at("waited_for"), (json::value{{"count", 1}, {"ids", {"cmpl-runs"}}}));
  running->disconnect();
  EXPECT_EQ(waiting->wait().status, 200);
  EXPECT_EQ(api.why("runs").second.at("outputs").as_array()[0].at("finish_reason"), "abort");
}

// Who asks is answered after the step in flight, in which the request may end.
TEST(Why, ARequestThatEndsWhileItIsAskedForIsToldAsEnded) {
  SimulatedEngineArgs args = crowded();
  args.step_time = milliseconds(3);
  Api api(args);
  for (int i = 0; i < 10; ++i) {
    const std::string id = std::to_string(i);
    const auto exchange = api.complete(id, {{"max_tokens", 2}, {"n", 2}});
    std::set<std::int64_t> taken;  // outputs that the scheduler has had
    for (bool all_ended = false; !all_ended;) {
      all_ended = true;
      const json::object told = api.why(id).second;
      for (const json::value& output : told.at("outputs").as_array()) {
        const json::object& story = output.as_object();
        const std::int64_t index = story.at("index").as_int64();
        EXPECT_NEAR(sum_of_spans(story), story.at("total_ms").as_double(), 1e-6);
        all_ended = all_ended && story.at("status") == "finished";
        if (was_taken(story)) taken.insert(index);
        EXPECT_EQ(was_taken(story), taken.contains(index)) << json::serialize(story);
      }
    }
    EXPECT_EQ(exchange->wait().status, 200);
  }
}

TEST(Why, OutputsThatAreTooManyToLookAtAreNotToldWrong) {
  SimulatedEngineArgs args = crowded();
  args.step_time = milliseconds(50);  // so that they still run when they are asked for
  Api api(args);
  const auto exchange = api.complete("many", {{"max_tokens", 200}, {"n", 80}});
  while (api.service().model().engine().observe().num_waiting < 70) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  const json::object told = api.why("many").second;
  std::size_t num_told = 0;
  std::size_t num_left_out = 0;
  for (const json::value& output : told.at("outputs").as_array()) {
    const json::object& story = output.as_object();
    if (story.contains("left_out")) {
      ++num_left_out;
      EXPECT_TRUE(story.at("spans").as_array().empty());
      EXPECT_GT(story.at("total_ms").as_double(), 0);
      EXPECT_FALSE(story.contains("output_tokens"));
    } else {
      ++num_told;
      EXPECT_TRUE(was_taken(story)) << json::serialize(story);
    }
  }
  EXPECT_GE(num_told, 64U);
  EXPECT_GT(num_left_out, 0U);
  EXPECT_EQ(num_told + num_left_out, 80U);
  exchange->disconnect();
}

TEST(Why, ABeamSearchTellsWhyItEnded) {
  Api api(crowded());
  const auto exchange = api.complete("s", {{"prompt", {5, 6, 7, 8}},
                                           {"max_tokens", 4},
                                           {"use_beam_search", true},
                                           {"beam_width", 3},
                                           {"n", 2},
                                           {"ignore_eos", true},
                                           {"return_why", true}});
  const HttpResponse response = exchange->wait();
  ASSERT_EQ(response.status, 200) << response.body;
  const json::array outputs = api.why("s").second.at("outputs").as_array();
  ASSERT_EQ(outputs.size(), 2U);
  const json::object beams = outputs[0].at("beams").as_object();
  EXPECT_EQ(beams.at("width"), 3);
  EXPECT_EQ(beams.at("tokens"), 4);
  EXPECT_EQ(beams.at("finished"), 3);
  EXPECT_GE(beams.at("forks").as_int64(), 2);  // of the prompt
  EXPECT_EQ(beams.at("end"), "max_tokens");
  EXPECT_EQ(outputs[1].at("beams"), json::value(beams));
  EXPECT_THAT(response.body, testing::HasSubstr(R"("beams":{"width":3)"));
}

// What is said of a request's prompt and the prefix cache.
json::object prefix_of(Api& api, const std::string& id, const std::string& caller = "") {
  return api.why(id, caller).second.at("outputs").at(0).at("prefix_cache").as_object();
}

TEST(Why, TheFirstTokenThatWasNotCachedIsTold) {
  Api api(crowded());
  EXPECT_EQ(api.complete("a", {{"prompt", {5, 6, 7, 8}}, {"max_tokens", 1}})->wait().status, 200);
  EXPECT_EQ(api.complete("b", {{"prompt", {5, 6, 9, 8}}, {"max_tokens", 1}})->wait().status, 200);
  EXPECT_EQ(prefix_of(api, "a").at("miss"), "new");
  const json::object told = prefix_of(api, "b");
  const Tokenizer& tokenizer = api.service().model().engine().tokenizer();
  const std::array<TokenId, 2> tokens = {9, 7};
  EXPECT_EQ(told.at("miss"), "differs");
  EXPECT_EQ(told.at("found_tokens"), 2);
  EXPECT_EQ(told.at("token"), 9);
  EXPECT_EQ(std::string(told.at("text").as_string()),
            tokenizer.decode(std::span(tokens).first(1), false));
  EXPECT_EQ(told.at("cached_token"), 7);
  EXPECT_EQ(std::string(told.at("cached_text").as_string()),
            tokenizer.decode(std::span(tokens).last(1), false));
  EXPECT_THAT(std::string(told.at("because").as_string()), testing::HasSubstr("token 2"));
}

// Who has another key learns no token of a request, and of what is cached nothing where keys share.
TEST(Why, TokensAreToldToTheRequestsOwnKeyAlone) {
  for (const auto scope : {PrefixCacheScope::kKey, PrefixCacheScope::kGlobal}) {
    Api api(crowded(), scope);
    const auto run = [&](const std::string& id, TokenId third, const std::string& caller) {
      const json::object fields = {{"prompt", {5, 6, third, 8}}, {"max_tokens", 1}};
      EXPECT_EQ(api.complete(id, fields, caller)->wait().status, 200);
    };
    run("a", 7, "key 1");
    run("b", 9, "key 1");
    run("c", 11, "key 2");
    const json::object own = prefix_of(api, "b", "key 1");
    EXPECT_EQ(own.at("token"), 9);
    EXPECT_EQ(own.contains("cached_token"), scope == PrefixCacheScope::kKey);
    const json::object others = prefix_of(api, "b", "key 2");
    for (const char* member : {"token", "text", "cached_token", "cached_text"}) {
      EXPECT_FALSE(others.contains(member)) << member;
    }
    const std::string miss(prefix_of(api, "c", "key 2").at("miss").as_string());
    EXPECT_EQ(miss, scope == PrefixCacheScope::kKey ? "new" : "differs");
    EXPECT_FALSE(prefix_of(api, "c", "key 2").contains("cached_token"));
  }
}

TEST(Why, AnEvictionIsToldWithWhomItWasForUnlessThatHasAnotherKey) {
  SimulatedEngineArgs args = crowded(72);
  args.engine.max_num_batched_tokens = 512;
  Api api(args);
  const auto run = [&](const std::string& id, TokenId token, const std::string& caller) {
    const json::object fields = {{"prompt", json::array(200, token)}, {"max_tokens", 1}};
    EXPECT_EQ(api.complete(id, fields, caller)->wait().status, 200);
  };
  for (const std::string key : {"1", "2"}) {
    run("first" + key, 7, "1");
    for (TokenId token = 20; token < 22; ++token) {
      run("other" + std::to_string(token) + key, token, key);
    }
    run("again" + key, 7, "1");
    const json::object told = prefix_of(api, "again" + key, "1");
    EXPECT_EQ(told.at("miss"), "evicted");
    EXPECT_GT(told.at("evicted_ms_before").as_double(), 0);
    const std::string by(told.at("by").as_string());
    EXPECT_THAT(by, testing::StartsWith(key == "1" ? "cmpl-other" : "another key"));
  }
}

TEST(Why, AnUnknownRequestIsNotFound) {
  Api api(crowded());
  const auto [status, told] = api.why("nobody");
  EXPECT_EQ(status, 404);
  EXPECT_THAT(std::string(told.at("error").at("message").as_string()),
              testing::HasSubstr("cmpl-nobody"));
}

TEST(Why, TheAnswerItselfSaysItInShortWhereAsked) {
  Api api(crowded());
  const HttpResponse whole =
      api.complete("a", {{"max_tokens", 4}, {"n", 2}, {"return_why", true}})->wait();
  const json::value body = *parse_json(whole.body, "answer");
  for (const json::value& choice : body.at("choices").as_array()) {
    const json::object& why = choice.at("why").as_object();
    const double parts = why.at("prefill_ms").as_double() + why.at("decode_ms").as_double();
    double waits = 0;
    for (const auto& [cause, ms] : why.at("waits_ms").as_object()) waits += ms.as_double();
    EXPECT_NEAR(parts + waits, why.at("total_ms").as_double(), 0.01);
  }
  const HttpResponse streamed =
      api.complete("b", {{"max_tokens", 4}, {"stream", true}, {"return_why", true}})->wait();
  EXPECT_THAT(streamed.body, testing::HasSubstr(R"("stop_reason":null,"why":{"total_ms":)"));
  const HttpResponse without = api.complete("c", {{"max_tokens", 4}})->wait();
  EXPECT_THAT(without.body, testing::Not(testing::HasSubstr("why")));
}

}  // namespace
}  // namespace quire
