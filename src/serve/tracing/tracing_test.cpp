// Requests through the routes of a real service, and the spans that come of them.
#include "serve/tracing/tracing.h"

#include <map>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/json.h"
#include "serve/models/test_held_engine.h"
#include "serve/protocols/openai/routes.h"
#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace tracing_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Keeps what it is sent.
class KeepingPost final : public HttpPost {
 public:
  struct Kept {
    std::mutex mutex;
    std::vector<json::object> spans;
  };
  explicit KeepingPost(std::shared_ptr<Kept> kept) : kept_(std::move(kept)) {}

  PostResult post(const std::string& body, const std::function<bool()>& /*give_up*/) override {
    const auto value = parse_json(body, "body");
    const std::lock_guard lock(kept_->mutex);
    for (const json::value& span :
         value->at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array()) {
      kept_->spans.push_back(span.as_object());
    }
    return {.status = 200, .retry_after = {}, .body = "{}", .error = ""};
  }

 private:
  std::shared_ptr<Kept> kept_;
};

// {"gen_ai.request.top_p": 1.0, ...}: numbers as numbers, lists as lists of strings.
json::object attributes_of(const json::object& span) {
  json::object values;
  for (const json::value& attribute : span.at("attributes").as_array()) {
    const auto& pair = *attribute.at("value").as_object().begin();
    json::value value = pair.value();
    if (pair.key() == "intValue") value = std::stoll(std::string(value.as_string()));
    if (pair.key() == "doubleValue") value = value.to_number<double>();
    if (pair.key() == "arrayValue") {
      json::array list;
      for (const json::value& each : value.at("values").as_array()) {
        list.push_back(each.at("stringValue"));
      }
      value = std::move(list);
    }
    values[attribute.at("key").as_string()] = std::move(value);
  }
  return values;
}

std::string text(const json::object& span, const char* key) {
  return std::string(span.at(key).as_string());
}

std::int64_t nanos(const json::object& span, const char* key) {
  return std::stoll(text(span, key));
}

class TracingTest : public testing::Test {
 protected:
  TracingTest() { trace({}); }

  void trace(const TraceSampler& sampler) {
    SpanExporterConfig config;
    config.batch_delay = milliseconds(1);
    tracing_.reset(new Tracing{
        .sampler = sampler,
        .server_attributes = {{"server.port", std::int64_t{8000}}},
        .exporter = SpanExporter(std::move(config), std::make_unique<KeepingPost>(kept_))});
    const TracedModel model = {.engine = service_.engine(),
                               .directory = service_.model().directory(),
                               .name = service_.model().name()};
    routes_ = traced_routes(openai_routes(service_.service()), model, *tracing_);
  }

  std::shared_ptr<TestExchange> begin(std::string path, const json::object& body,
                                      std::vector<HttpHeader> headers = {}) {
    HttpRequest request = post_request(std::move(path), json::serialize(body));
    for (HttpHeader& header : headers) request.headers.push_back(std::move(header));
    return begin_exchange(routes_, std::move(request));
  }

  // All spans, once there are so many.
  std::vector<json::object> spans(std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (std::chrono::steady_clock::now() < end) {
      {
        const std::lock_guard lock(kept_->mutex);
        if (kept_->spans.size() >= count) return kept_->spans;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    ADD_FAILURE() << "fewer than " << count << " spans came";
    return std::vector<json::object>(count);
  }

  std::string traceresponse(const HttpResponse& response) {
    for (const HttpHeader& header : response.headers) {
      if (header.name == "traceresponse") return header.value;
    }
    return {};
  }

  std::shared_ptr<KeepingPost::Kept> kept_ = std::make_shared<KeepingPost::Kept>();
  std::unique_ptr<Tracing> tracing_;
  TestService service_;
  std::vector<Route> routes_;
};

const std::string kTraceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = "00-" + kTraceId + "-00f067aa0ba902b7-01";

TEST_F(TracingTest, ARequestIsASpanWithItsPhasesBelow) {
  const auto exchange = begin("/v1/completions",
                              {{"prompt", "hello"},
                               {"max_tokens", 4},
                               {"ignore_eos", true},
                               {"temperature", 0.5},
                               {"top_k", 7},
                               {"seed", 3},
                               {"stop", {"\x01"}}},
                              {{"traceparent", kParent}, {"tracestate", "foo=1"}});
  const HttpResponse response = exchange->wait();
  ASSERT_EQ(response.status, 200) << response.body;
  const auto all = spans(5);
  ASSERT_EQ(all.size(), 5U);
  const json::object& server = all[0];
  EXPECT_EQ(text(server, "traceId"), kTraceId);
  EXPECT_EQ(server.at("parentSpanId"), "00f067aa0ba902b7");
  EXPECT_EQ(server.at("traceState"), "foo=1");
  EXPECT_EQ(server.at("name"), "text_completion tiny");
  EXPECT_EQ(server.at("kind"), 2);
  EXPECT_EQ(traceresponse(response), "00-" + kTraceId + "-" + text(server, "spanId") + "-01");

  const json::object values = attributes_of(server);
  const json::value usage = parse_body(response).at("usage");
  EXPECT_EQ(values.at("gen_ai.operation.name"), "text_completion");
  EXPECT_EQ(values.at("gen_ai.provider.name"), "quire");
  EXPECT_EQ(values.at("gen_ai.request.model"), "tiny");
  EXPECT_EQ(values.at("gen_ai.request.max_tokens"), 4);
  EXPECT_EQ(values.at("gen_ai.request.temperature"), 0.5);
  EXPECT_EQ(values.at("gen_ai.request.top_k"), 7.0);
  EXPECT_EQ(values.at("gen_ai.request.seed"), 3);
  EXPECT_EQ(values.at("gen_ai.request.stop_sequences"), json::array({"\x01"}));
  EXPECT_EQ(values.at("gen_ai.response.id"), "cmpl-test-1");
  EXPECT_EQ(values.at("gen_ai.response.finish_reasons"), json::array({"length"}));
  EXPECT_EQ(values.at("gen_ai.usage.input_tokens"), usage.at("prompt_tokens"));
  EXPECT_EQ(values.at("gen_ai.usage.output_tokens"), 4);
  EXPECT_EQ(values.at("http.request.method"), "POST");
  EXPECT_EQ(values.at("http.route"), "/v1/completions");
  EXPECT_EQ(values.at("http.response.status_code"), 200);
  EXPECT_EQ(values.at("server.port"), 8000);
  EXPECT_FALSE(values.contains("gen_ai.request.choice.count"));
  EXPECT_FALSE(values.contains("error.type"));
  EXPECT_FALSE(server.contains("status"));

  // Each phase begins where the one before it ends, and the server's span is all of them.
  std::int64_t time = nanos(server, "startTimeUnixNano");
  const std::vector<std::string> names = {"prepare", "queue", "prefill", "decode"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const json::object& phase = all[i + 1];
    EXPECT_EQ(phase.at("name"), names[i].c_str());
    EXPECT_EQ(phase.at("kind"), 1);
    EXPECT_EQ(text(phase, "traceId"), kTraceId);
    EXPECT_EQ(phase.at("parentSpanId"), server.at("spanId"));
    EXPECT_EQ(nanos(phase, "startTimeUnixNano"), time) << names[i];
    EXPECT_GE(nanos(phase, "endTimeUnixNano"), time) << names[i];
    time = nanos(phase, "endTimeUnixNano");
  }
  EXPECT_LE(time, nanos(server, "endTimeUnixNano"));
  const double whole = static_cast<double>(time - nanos(all[2], "startTimeUnixNano")) / 1e9;
  EXPECT_NEAR(values.at("gen_ai.latency.e2e").as_double(), whole, 1e-8);
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  EXPECT_LE(time, now);
  EXPECT_GT(time, now - 60'000'000'000);
}

TEST_F(TracingTest, NoContentIsRecorded) {
  begin("/v1/completions", {{"prompt", "verysecretprompt"}, {"max_tokens", 2}})->wait();
  for (const json::object& span : spans(5)) {
    EXPECT_EQ(json::serialize(span).find("verysecret"), std::string::npos);
  }
}

TEST_F(TracingTest, WithoutAParentATraceBeginsHere) {
  const auto exchange =
      begin("/v1/completions", {{"prompt", "hello"}, {"max_tokens", 1}},
            {{"traceparent", "00-" + kTraceId + "-0000000000000000-01"}, {"tracestate", "foo=1"}});
  const std::string header = traceresponse(exchange->wait());
  const json::object server = spans(5)[0];
  EXPECT_NE(text(server, "traceId"), kTraceId);
  EXPECT_FALSE(server.contains("parentSpanId"));
  EXPECT_FALSE(server.contains("traceState"));
  EXPECT_EQ(header, "00-" + text(server, "traceId") + "-" + text(server, "spanId") + "-03");
}

TEST_F(TracingTest, AStreamIsOneToo) {
  const auto exchange = begin(
      "/v1/completions",
      {{"prompt", "hello"}, {"max_tokens", 3}, {"ignore_eos", true}, {"stream", true}, {"n", 2}});
  EXPECT_FALSE(traceresponse(exchange->wait()).empty());
  const auto all = spans(5);
  ASSERT_EQ(all.size(), 5U);
  const json::object values = attributes_of(all[0]);
  EXPECT_EQ(values.at("gen_ai.request.stream"), true);
  EXPECT_EQ(values.at("gen_ai.request.choice.count"), 2);
  EXPECT_EQ(values.at("gen_ai.usage.output_tokens"), 6);
  EXPECT_EQ(values.at("gen_ai.response.finish_reasons"), json::array({"length", "length"}));
  EXPECT_GE(values.at("gen_ai.response.time_to_first_chunk").as_double(),
            values.at("gen_ai.latency.time_to_first_token").as_double());
}

TEST_F(TracingTest, SeveralPromptsHaveTheirOwnPhases) {
  begin("/v1/completions", {{"prompt", {"hello", "world"}}, {"max_tokens", 1}})->wait();
  const auto all = spans(8);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(attributes_of(all[0]).at("quire.prompts"), 2);
  std::map<std::int64_t, int> phases;
  for (std::size_t i = 2; i < all.size(); ++i) {
    ++phases[attributes_of(all[i]).at("quire.prompt").as_int64()];
  }
  EXPECT_EQ(phases, (std::map<std::int64_t, int>{{0, 3}, {1, 3}}));
}

TEST_F(TracingTest, Embeddings) {
  begin("/v1/embeddings", {{"input", "hello"}})->wait();
  const auto all = spans(4);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].at("name"), "embeddings tiny");
  EXPECT_EQ(all[3].at("name"), "prefill");
  const json::object values = attributes_of(all[0]);
  EXPECT_FALSE(values.contains("gen_ai.request.temperature"));
  EXPECT_FALSE(values.contains("gen_ai.usage.output_tokens"));
}

TEST_F(TracingTest, ARefusalIsASpan) {
  begin("/v1/completions", {{"prompt", "hello"}, {"top_p", 7}})->wait();
  const json::object server = spans(1)[0];
  EXPECT_EQ(server.at("name"), "text_completion");
  EXPECT_EQ(attributes_of(server).at("http.response.status_code"), 400);
  EXPECT_EQ(attributes_of(server).at("error.type"), "400");
  EXPECT_FALSE(server.contains("status"));
  service_.service().drain();
  begin("/v1/completions", {{"prompt", "hello"}})->wait();
  const json::object draining = spans(2)[1];
  EXPECT_EQ(attributes_of(draining).at("error.type"), "503");
  EXPECT_EQ(draining.at("status").at("code"), 2);
}

TEST_F(TracingTest, AClientThatGoesAway) {
  {
    const test::HeldEngine held(service_.engine());  // not done before its client has gone
    const auto exchange =
        begin("/v1/completions",
              {{"prompt", "hello"}, {"max_tokens", 100}, {"ignore_eos", true}, {"stream", true}});
    exchange->disconnect();
  }
  const json::object values = attributes_of(spans(3)[0]);
  EXPECT_EQ(values.at("quire.client_disconnected"), true);
  EXPECT_EQ(values.at("gen_ai.response.finish_reasons"), json::array({"abort"}));
}

TEST_F(TracingTest, WhatIsNotSampledIsNotRecordedAndSaysSo) {
  const auto exchange = begin("/v1/completions", {{"prompt", "hello"}, {"max_tokens", 1}},
                              {{"traceparent", "00-" + kTraceId + "-00f067aa0ba902b7-00"}});
  EXPECT_TRUE(traceresponse(exchange->wait()).ends_with("-00"));
  begin("/v1/completions", {{"prompt", "hello"}, {"max_tokens", 1}})->wait();
  for (const json::object& span : spans(5)) EXPECT_NE(text(span, "traceId"), kTraceId);
}

TEST_F(TracingTest, OtherRoutesAreNotTraced) {
  const auto exchange = begin("/tokenize", {{"prompt", "hello"}});
  EXPECT_EQ(traceresponse(exchange->wait()), "");
}

}  // namespace tracing_test
}  // namespace quire
