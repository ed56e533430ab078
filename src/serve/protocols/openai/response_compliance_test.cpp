// The compliance cases of the Open Responses specification (openresponses.org) that need neither
// tools nor images, re-typed: which fields a Response object and its events must have, and of what
// kind.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocols/openai/responses.h"
#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace response_compliance_test {

using testing::ElementsAre;
using testing::HasSubstr;

using Kind = std::function<bool(const json::value&)>;

Kind nullable(Kind kind) {
  return [kind](const json::value& value) { return value.is_null() || kind(value); };
}
bool is_text(const json::value& value) { return value.is_string(); }
bool is_integer(const json::value& value) { return value.is_int64() || value.is_uint64(); }
bool is_number(const json::value& value) { return value.is_number(); }
bool is_boolean(const json::value& value) { return value.is_bool(); }
bool is_list(const json::value& value) { return value.is_array(); }
bool is_map(const json::value& value) { return value.is_object(); }

// The required fields of the specification's ResponseResource.
void expect_response(const json::value& response) {
  const std::map<std::string, Kind> required = {
      {"id", is_text},
      {"object", [](const json::value& value) { return value == "response"; }},
      {"created_at", is_integer},
      {"completed_at", nullable(is_integer)},
      {"status", is_text},
      {"incomplete_details", nullable(is_map)},
      {"model", is_text},
      {"previous_response_id", nullable(is_text)},
      {"instructions", nullable(is_text)},
      {"output", is_list},
      {"error", nullable(is_map)},
      {"tools", is_list},
      {"tool_choice", is_text},
      {"truncation", is_text},
      {"parallel_tool_calls", is_boolean},
      {"text", is_map},
      {"top_p", is_number},
      {"presence_penalty", is_number},
      {"frequency_penalty", is_number},
      {"top_logprobs", is_integer},
      {"temperature", is_number},
      {"reasoning", nullable(is_map)},
      {"usage", nullable(is_map)},
      {"max_output_tokens", nullable(is_integer)},
      {"max_tool_calls", nullable(is_integer)},
      {"store", is_boolean},
      {"background", is_boolean},
      {"service_tier", is_text},
      {"metadata", is_map},
      {"safety_identifier", nullable(is_text)},
      {"prompt_cache_key", nullable(is_text)}};
  ASSERT_TRUE(response.is_object());
  for (const auto& [name, kind] : required) {
    const json::value* value = response.get_object().if_contains(name);
    ASSERT_NE(value, nullptr) << name;
    EXPECT_TRUE(kind(*value)) << name << ": " << json::serialize(*value);
  }
}

void expect_whole(const json::value& response) {
  expect_response(response);
  EXPECT_TRUE(response.at("status") == "completed" || response.at("status") == "incomplete");
  const json::value& usage = response.at("usage");
  for (const char* name : {"input_tokens", "output_tokens", "total_tokens"}) {
    EXPECT_TRUE(is_integer(usage.at(name))) << name;
  }
  EXPECT_TRUE(is_integer(usage.at("input_tokens_details").at("cached_tokens")));
  EXPECT_TRUE(is_integer(usage.at("output_tokens_details").at("reasoning_tokens")));
  ASSERT_EQ(response.at("output").as_array().size(), 1U);
  const json::value& item = response.at("output").at(0);
  EXPECT_EQ(item.at("type"), "message");
  EXPECT_EQ(item.at("role"), "assistant");
  EXPECT_TRUE(is_text(item.at("id")));
  EXPECT_TRUE(is_text(item.at("status")));
  const json::value& part = item.at("content").at(0);
  EXPECT_EQ(part.at("type"), "output_text");
  EXPECT_TRUE(is_text(part.at("text")));
  EXPECT_TRUE(is_list(part.at("annotations")));
  EXPECT_TRUE(is_list(part.at("logprobs")));
}

// `first`: the number of the first of them.
std::vector<json::value> events_of(const std::string& body, std::size_t first = 0) {
  std::vector<json::value> events;
  std::string_view rest = body;
  while (!rest.empty()) {
    const std::size_t line = rest.find("\ndata: ");
    const std::size_t end = rest.find("\n\n");
    EXPECT_TRUE(rest.starts_with("event: ") && line < end && end != std::string_view::npos);
    if (!rest.starts_with("event: ") || line >= end) return events;
    auto event = parse_json(rest.substr(line + 7, end - line - 7), "event");
    EXPECT_TRUE(event.ok()) << event.status().to_string();
    EXPECT_EQ(event->at("type").as_string(), rest.substr(7, line - 7));
    EXPECT_EQ(event->at("sequence_number").to_number<std::size_t>(), first + events.size());
    events.push_back(*std::move(event));
    rest.remove_prefix(end + 2);
  }
  return events;
}

// The order of a message of text, with one or more deltas; returns the text that they make up.
std::string expect_message_events(const std::vector<json::value>& events) {
  std::vector<std::string> kinds;
  std::string text;
  for (const json::value& event : events) {
    const std::string kind(event.at("type").as_string());
    if (kind == "response.output_text.delta") {
      text += event.at("delta").as_string();
      EXPECT_TRUE(is_list(event.at("logprobs")));
    }
    if (kind.find("output_text") != std::string::npos ||
        kind.find("content_part") != std::string::npos) {
      EXPECT_TRUE(is_text(event.at("item_id")));
      EXPECT_EQ(event.at("output_index"), 0);
      EXPECT_EQ(event.at("content_index"), 0);
    }
    if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
  }
  EXPECT_THAT(std::vector<std::string>(kinds.begin(), kinds.end() - 1),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done",
                          "response.output_item.done"));
  EXPECT_TRUE(kinds.back() == "response.completed" || kinds.back() == "response.incomplete");
  for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    expect_response(events[i].at("response"));
    EXPECT_EQ(events[i].at("response").at("status"), "in_progress");
    EXPECT_TRUE(events[i].at("response").at("usage").is_null());
    EXPECT_TRUE(events[i].at("response").at("output").as_array().empty());
  }
  expect_whole(events.back().at("response"));
  return text;
}

class Compliance : public testing::Test {
 protected:
  HttpResponse call(std::string method, std::string path, const json::object& body = {},
                    std::vector<std::pair<std::string, std::string>> query = {}) {
    HttpRequest request = post_request(std::move(path), json::serialize(body));
    request.method = std::move(method);
    request.query = std::move(query);
    return begin_exchange(routes_, std::move(request))->wait();
  }
  json::value create(json::object body) {
    body["max_output_tokens"] = 6;
    body["temperature"] = 0;
    const HttpResponse response = call("POST", "/v1/responses", body);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_body(response);
  }
  static std::string text_of(const json::value& response) {
    return std::string(response.at("output").at(0).at("content").at(0).at("text").as_string());
  }

  TestService tiny_;
  std::vector<Route> routes_ = response_routes(tiny_.service(), std::make_shared<ResponseStore>());
};

json::object user(std::string_view text) {
  return {{"type", "message"}, {"role", "user"}, {"content", text}};
}

TEST_F(Compliance, BasicTextResponse) {
  expect_whole(create({{"model", "tiny"}, {"input", json::array{user("Say hello.")}}}));
}

TEST_F(Compliance, StreamingResponse) {
  const json::object body = {{"model", "tiny"},        {"input", "Count to five."},
                             {"max_output_tokens", 6}, {"temperature", 0},
                             {"ignore_eos", true},     {"stream", true}};
  const auto events = events_of(call("POST", "/v1/responses", body).body);
  ASSERT_GE(events.size(), 9U);
  EXPECT_EQ(expect_message_events(events), text_of(events.back().at("response")));
}

TEST_F(Compliance, SystemPrompt) {
  const json::object system = {
      {"type", "message"}, {"role", "system"}, {"content", "You are a pirate."}};
  expect_whole(create({{"input", json::array{system, user("Say hello.")}}}));
  const json::value by_instructions =
      create({{"input", "Say hello."}, {"instructions", "You are a pirate."}});
  expect_whole(by_instructions);
  EXPECT_EQ(by_instructions.at("instructions"), "You are a pirate.");
}

TEST_F(Compliance, MultiTurnConversation) {
  const json::object said = {
      {"type", "message"},
      {"role", "assistant"},
      {"content", json::array{json::object{{"type", "output_text"}, {"text", "Hello Alice."}}}}};
  expect_whole(
      create({{"input", json::array{user("My name is Alice."), said, user("What is it?")}}}));
}

TEST_F(Compliance, WhatTheRequestSetsIsToldBack) {
  const json::value response = create({{"input", "a"},
                                       {"presence_penalty", 0.5},
                                       {"frequency_penalty", 0.25},
                                       {"safety_identifier", "s"},
                                       {"prompt_cache_key", "k"}});
  EXPECT_EQ(response.at("presence_penalty"), 0.5);
  EXPECT_EQ(response.at("frequency_penalty"), 0.25);
  EXPECT_EQ(response.at("safety_identifier"), "s");
  EXPECT_EQ(response.at("prompt_cache_key"), "k");
}

TEST_F(Compliance, AStoredResponseStreams) {
  const json::value stored = create({{"input", "a"}, {"ignore_eos", true}});
  const std::string path = "/v1/responses/" + std::string(stored.at("id").as_string());
  const auto events = events_of(call("GET", path, {}, {{"stream", "true"}}).body);
  EXPECT_EQ(expect_message_events(events), text_of(stored));
  EXPECT_EQ(events.back().at("response"), stored);
  const HttpResponse later = call("GET", path, {}, {{"stream", "true"}, {"starting_after", "3"}});
  const auto rest = events_of(later.body, 4);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), events.begin() + 4, events.end()));
}

TEST_F(Compliance, InputTokensAreCounted) {
  const json::object body = {{"input", json::array{user("My name is Alice.")}},
                             {"instructions", "Be brief."}};
  const json::value counted = parse_body(call("POST", "/v1/responses/input_tokens", body));
  EXPECT_EQ(counted.at("object"), "response.input_tokens");
  EXPECT_EQ(counted.at("input_tokens").to_number<std::int64_t>(),
            create(body).at("usage").at("input_tokens").to_number<std::int64_t>());
}

}  // namespace response_compliance_test
}  // namespace quire
