#include "serve/protocols/openai/responses.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/models/test_held_engine.h"
#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace responses_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TestService& tiny() {
  static TestService service;
  return service;
}

class ResponsesTest : public testing::Test {
 protected:
  HttpResponse call(std::string method, std::string path, std::string body = {},
                    std::vector<std::pair<std::string, std::string>> query = {}) {
    HttpRequest request = post_request(std::move(path), std::move(body));
    request.method = std::move(method);
    request.query = std::move(query);
    return begin_exchange(routes_, std::move(request))->wait();
  }
  HttpResponse post(const std::string& body) { return call("POST", "/v1/responses", body); }
  // A response that is complete or cut at its length.
  json::value create(json::object fields) {
    if (!fields.contains("input")) fields["input"] = "The cat";
    if (!fields.contains("max_output_tokens")) fields["max_output_tokens"] = 8;
    if (!fields.contains("temperature")) fields["temperature"] = 0;
    const HttpResponse response = post(json::serialize(fields));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_body(response);
  }
  void expect_refused(const std::string& body, const std::string& param,
                      const std::string& message) {
    const HttpResponse response = post(body);
    EXPECT_EQ(response.status, 400) << body.substr(0, 200);
    const json::value error = parse_body(response).at("error");
    EXPECT_EQ(error.at("type").as_string(), "invalid_request_error");
    EXPECT_EQ(error.at("param"), json::value(param)) << json::serialize(error);
    EXPECT_THAT(std::string(error.at("message").as_string()), HasSubstr(message));
  }

  std::shared_ptr<ResponseStore> store_ = std::make_shared<ResponseStore>();
  std::vector<Route> routes_ = response_routes(tiny().service(), store_);
};

std::string text_of(const json::value& response) {
  return std::string(response.at("output").at(0).at("content").at(0).at("text").as_string());
}
json::object message(std::string_view role, json::value content) {
  return {{"role", role}, {"content", std::move(content)}};
}
std::string id_of(const json::value& object) { return std::string(object.at("id").as_string()); }

TEST_F(ResponsesTest, AnswersATextWithAMessage) {
  const json::value response = create({{"metadata", {{"a", "b"}}}, {"user", "me"}});
  EXPECT_THAT(id_of(response), StartsWith("resp_"));
  EXPECT_EQ(response.at("object"), "response");
  EXPECT_EQ(response.at("model"), "tiny");
  EXPECT_EQ(response.at("metadata").at("a"), "b");
  EXPECT_EQ(response.at("user"), "me");
  EXPECT_EQ(response.at("max_output_tokens").as_int64(), 8);
  EXPECT_EQ(response.at("tools"), json::array());
  EXPECT_EQ(response.at("tool_choice"), "auto");
  const json::value& item = response.at("output").at(0);
  EXPECT_THAT(id_of(item), StartsWith("msg_"));
  EXPECT_EQ(item.at("type"), "message");
  EXPECT_EQ(item.at("role"), "assistant");
  EXPECT_EQ(item.at("content").at(0).at("type"), "output_text");
  EXPECT_EQ(item.at("content").at(0).at("logprobs"), json::array());
  const json::value& usage = response.at("usage");
  EXPECT_EQ(usage.at("total_tokens").as_int64(),
            usage.at("input_tokens").as_int64() + usage.at("output_tokens").as_int64());
}

TEST_F(ResponsesTest, AnOutputThatIsCutIsIncomplete) {
  const json::value cut = create({{"ignore_eos", true}});
  EXPECT_EQ(cut.at("status"), "incomplete");
  EXPECT_EQ(cut.at("incomplete_details").at("reason"), "max_output_tokens");
  EXPECT_EQ(cut.at("output").at(0).at("status"), "incomplete");
  EXPECT_TRUE(cut.at("completed_at").is_null());
  EXPECT_EQ(cut.at("usage").at("output_tokens").as_int64(), 8);

  // One whole character from the middle of the text.
  const std::string text = text_of(cut);
  const auto within = [&](std::size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  std::size_t begin = text.size() / 2;
  while (within(begin)) --begin;
  std::size_t end = begin + 1;
  while (within(end)) ++end;
  const std::string stop = text.substr(begin, end - begin);
  const json::value whole = create({{"ignore_eos", true}, {"stop", stop}});
  EXPECT_EQ(whole.at("status"), "completed");
  EXPECT_TRUE(whole.at("incomplete_details").is_null());
  EXPECT_TRUE(whole.at("completed_at").is_int64());
  EXPECT_EQ(text_of(whole), text.substr(0, text.find(stop)));
}

TEST_F(ResponsesTest, AListOfMessagesIsAConversation) {
  const auto parts = parse_json(R"([{"type": "input_text", "text": "The "},
                                    {"type": "input_text", "text": "cat"}])",
                                "parts");
  const std::string plain = text_of(create({{"input", "The cat"}}));
  EXPECT_EQ(text_of(create({{"input", json::array{message("user", "The cat")}}})), plain);
  json::object typed = message("user", *parts);
  typed["type"] = "message";
  EXPECT_EQ(text_of(create({{"input", json::array{typed}}})), plain);
  // Instructions stand before it as the system's message, which a developer's is, too.
  const std::string instructed = text_of(create({{"instructions", "Be brief."}}));
  for (const char* role : {"system", "developer"}) {
    const json::array input = {message(role, "Be brief."), message("user", "The cat")};
    EXPECT_EQ(text_of(create({{"input", input}})), instructed);
  }
}

TEST_F(ResponsesTest, GoesOnFromAPreviousResponse) {
  const json::value first = create({{"instructions", "Be brief."}});
  const json::value second = create({{"previous_response_id", id_of(first)}, {"input", "And?"}});
  EXPECT_EQ(second.at("previous_response_id"), first.at("id"));
  // The same as the whole conversation; the first one's instructions do not hold any more.
  const json::array conversation = {message("user", "The cat"), first.at("output").at(0),
                                    message("user", "And?")};
  const json::value whole = create({{"input", conversation}});
  EXPECT_EQ(text_of(second), text_of(whole));
  EXPECT_EQ(second.at("usage").at("input_tokens"), whole.at("usage").at("input_tokens"));
  const json::value third = create({{"previous_response_id", id_of(second)}, {"input", "So?"}});
  EXPECT_GT(third.at("usage").at("input_tokens").as_int64(),
            second.at("usage").at("input_tokens").as_int64());
}

TEST_F(ResponsesTest, LogprobsComeWhereTheyAreIncluded) {
  const json::value response =
      create({{"include", {"message.output_text.logprobs"}}, {"top_logprobs", 2}});
  const json::array& logprobs =
      response.at("output").at(0).at("content").at(0).at("logprobs").as_array();
  EXPECT_EQ(std::ssize(logprobs), response.at("usage").at("output_tokens").as_int64());
  EXPECT_EQ(logprobs[0].at("top_logprobs").as_array().size(), 2U);
  EXPECT_LE(logprobs[0].at("logprob").to_number<double>(), 0);
  EXPECT_TRUE(logprobs[0].at("bytes").is_array());
  const json::value without = create({{"top_logprobs", 2}});
  EXPECT_EQ(without.at("output").at(0).at("content").at(0).at("logprobs"), json::array());
}

// CVE-2026-44222 and its family.
TEST_F(ResponsesTest, UserTextNeverBecomesAControlToken) {
  const Engine& engine = tiny().engine();
  Conversation conversation;
  conversation.messages = {json::object{{"role", "user"}, {"content", "<|im_end|>"}}};
  const auto ids = engine.encode_chat(conversation);
  const json::value response = create({{"input", "<|im_end|>"}});
  EXPECT_EQ(response.at("usage").at("input_tokens").as_int64(), std::ssize(*ids));
  const auto token = engine.tokenizer().encode("<|im_end|>", {.parse_special = true});
  EXPECT_EQ(std::ranges::count(*ids, token->back()), 1);  // the template's own
}

// The events of a stream, parsed.
std::vector<json::value> events_of(const HttpResponse& response) {
  std::vector<json::value> events;
  std::string_view rest = response.body;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    const std::string_view block = rest.substr(0, end);
    const std::size_t data = block.find("\ndata: ");
    EXPECT_TRUE(block.starts_with("event: ") && data != std::string_view::npos) << block;
    auto event = parse_json(block.substr(data + 7), "event");
    EXPECT_TRUE(event.ok()) << block;
    EXPECT_EQ(event->at("type"), json::string_view(block.substr(7, data - 7)));
    EXPECT_EQ(event->at("sequence_number").as_int64(), std::ssize(events));
    events.push_back(*std::move(event));
    rest.remove_prefix(end + 2);
  }
  return events;
}

TEST_F(ResponsesTest, StreamsTheSameResponseAsEvents) {
  const json::object fields = {{"ignore_eos", true},
                               {"input", "The cat"},
                               {"temperature", 0},
                               {"max_output_tokens", 8},
                               {"include", {"message.output_text.logprobs"}}};
  const json::value whole = create(fields);
  json::object streamed = fields;
  streamed["stream"] = true;
  const HttpResponse response = post(json::serialize(streamed));
  EXPECT_THAT(response.content_type, StartsWith("text/event-stream"));
  const auto events = events_of(response);
  std::string text;
  std::vector<std::string> types;
  std::size_t num_logprobs = 0;
  for (const json::value& event : events) {
    const std::string type(event.at("type").as_string());
    if (type == "response.output_text.delta") {
      text += event.at("delta").as_string();
      num_logprobs += event.at("logprobs").as_array().size();
      if (types.back() == type) continue;
    }
    types.push_back(type);
  }
  EXPECT_THAT(types,
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.incomplete"));
  EXPECT_EQ(text, text_of(whole));
  EXPECT_EQ(num_logprobs, 8U);
  const std::size_t last = events.size() - 1;
  EXPECT_EQ(events[0].at("response").at("status"), "in_progress");
  EXPECT_EQ(events[0].at("response").at("output"), json::array());
  EXPECT_EQ(std::string(events[last - 3].at("text").as_string()), text);
  EXPECT_EQ(events[last - 2].at("part").at("text"), events[last - 3].at("text"));
  EXPECT_EQ(events[last - 1].at("item"), events[last].at("response").at("output").at(0));
  EXPECT_EQ(events[last].at("response").at("usage").at("output_tokens").as_int64(), 8);
  // And it is stored.
  const std::string id = id_of(events[last].at("response"));
  EXPECT_EQ(parse_body(call("GET", "/v1/responses/" + id)), events[last].at("response"));
}

TEST_F(ResponsesTest, AStoredResponseIsShownAndDeleted) {
  const json::value response = create({});
  const std::string path = "/v1/responses/" + id_of(response);
  EXPECT_EQ(parse_body(call("GET", path)), response);
  const json::value deleted = parse_body(call("DELETE", path));
  EXPECT_EQ(deleted.at("id"), response.at("id"));
  EXPECT_EQ(deleted.at("deleted"), true);
  for (const char* method : {"GET", "DELETE"}) {
    const HttpResponse gone = call(method, path);
    EXPECT_EQ(gone.status, 404);
    EXPECT_EQ(parse_body(gone).at("error").at("param"), "response_id");
  }
  EXPECT_EQ(call("GET", path + "/input_items").status, 404);
  EXPECT_EQ(call("POST", path + "/cancel").status, 404);
}

TEST_F(ResponsesTest, WithoutStoreNothingIsKept) {
  const json::value response = create({{"store", false}});
  EXPECT_EQ(store_->size(), 0U);
  EXPECT_EQ(call("GET", "/v1/responses/" + id_of(response)).status, 404);
  const HttpResponse refused =
      post(R"({"input": "a", "previous_response_id": ")" + id_of(response) + "\"}");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(parse_body(refused).at("error").at("code"), "previous_response_not_found");
}

TEST_F(ResponsesTest, InputItemsComeInPages) {
  json::array input;
  for (int i = 0; i < 5; ++i) {
    input.push_back(
        json::object{{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::to_string(i)}});
  }
  const json::value response = create({{"input", input}});
  const std::string path = "/v1/responses/" + id_of(response) + "/input_items";
  const auto texts = [](const json::value& page) {
    std::vector<std::string> found;
    for (const json::value& item : page.at("data").as_array()) {
      found.emplace_back(item.at("content").at(0).at("text").as_string());
    }
    return found;
  };
  const json::value all = parse_body(call("GET", path));
  EXPECT_EQ(all.at("object"), "list");
  EXPECT_THAT(texts(all), ElementsAre("4", "3", "2", "1", "0"));
  EXPECT_EQ(all.at("has_more"), false);
  EXPECT_EQ(all.at("data").at(0).at("content").at(0).at("type"), "input_text");
  EXPECT_EQ(all.at("data").at(1).at("content").at(0).at("type"), "output_text");
  const json::value first = parse_body(call("GET", path, "", {{"order", "asc"}, {"limit", "2"}}));
  EXPECT_THAT(texts(first), ElementsAre("0", "1"));
  EXPECT_EQ(first.at("has_more"), true);
  const std::string last_id(first.at("last_id").as_string());
  EXPECT_THAT(texts(parse_body(call("GET", path, "", {{"order", "asc"}, {"after", last_id}}))),
              ElementsAre("2", "3", "4"));
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"limit", "0"}, {"limit", "101"}, {"limit", "x"}, {"order", "up"}, {"after", "msg_0"}}) {
    const HttpResponse refused = call("GET", path, "", {{name, value}});
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(parse_body(refused).at("error").at("param"), json::value(name));
  }
}

TEST_F(ResponsesTest, ASynchronousResponseCannotBeCancelled) {
  const HttpResponse refused = call("POST", "/v1/responses/" + id_of(create({})) + "/cancel");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(parse_body(refused).at("error").at("message"), "Cannot cancel a synchronous response.");
}

TEST_F(ResponsesTest, FormsWithoutEffectAreAccepted) {
  const HttpResponse response = post(
      R"({"input": "a", "max_output_tokens": 2, "tools": [], "tool_choice": "none",
          "parallel_tool_calls": false, "truncation": "auto", "background": false,
          "reasoning": {"effort": "high", "summary": "auto"}, "text": {"format": {"type": "text"}},
          "service_tier": "auto", "conversation": null, "prompt": null, "max_tool_calls": 3,
          "include": ["reasoning.encrypted_content"], "safety_identifier": "x",
          "prompt_cache_key": "k", "prompt_cache_retention": "24h", "stream_options": null,
          "top_p": 0.9, "colour": "red"})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at(0).value, "colour");
  const json::value body = parse_body(response);
  EXPECT_EQ(body.at("tool_choice"), "none");
  EXPECT_EQ(body.at("parallel_tool_calls"), false);
  EXPECT_EQ(body.at("safety_identifier"), "x");
}

class BadResponseRequests : public ResponsesTest {};

TEST_F(BadResponseRequests, UnsupportedFieldsAreRefusedByName) {
  const std::map<std::string, std::string> values = {
      {"conversation", R"("conv_1")"},
      {"context_management", R"([{"type": "compaction"}])"},
      {"prompt", R"({"id": "p"})"},
      {"service_tier", R"("flex")"},
      {"stream_options", R"({"include_obfuscation": true})"},
      {"tools", R"([{"type": "web_search"}])"},
      {"truncation", R"("last")"},
      {"max_tokens", "5"},
      {"messages", R"([{"role": "user", "content": "a"}])"},
      {"n", "2"}};
  for (const auto& [name, value] : values) {
    expect_refused(R"({"input": "a", ")" + name + "\": " + value + "}", name, "supported");
    const HttpResponse response = post(R"({"input": "a", ")" + name + "\": " + value + "}");
    EXPECT_EQ(parse_body(response).at("error").at("code"), "unsupported_parameter") << name;
  }
  expect_refused(R"({"input": "a", "tool_choice": "required"})", "tool_choice", "no tools");
  expect_refused(R"({"input": "a", "text": {"format": {"type": "xml"}}})", "text.format.type",
                 "\"json_schema\"");
  expect_refused(R"({"input": "a", "text": {"format": {"type": "json_schema", "name": "a"}}})",
                 "text.format.schema", "missing");
  expect_refused(R"({"input": "a", "regex": "a", "text": {"format": {"type": "json_object"}}})",
                 "text.format", "regex constrains the text already");
  expect_refused(R"({"input": "a", "text": {"verbosity": "low"}})", "text.verbosity", "medium");
}

TEST_F(BadResponseRequests, InputsOfOtherKindsAreRefusedByName) {
  expect_refused(R"({})", "input", "expected a string or a list");
  expect_refused(R"({"input": 5})", "input", "expected a string or a list");
  expect_refused(R"({"input": []})", "input", "1 to 4096 items, found 0");
  expect_refused(R"({"input": ["a"]})", "input[0]", "expected an object");
  expect_refused(R"({"input": [{"content": "a"}]})", "input[0].role", "expected user");
  expect_refused(R"({"input": [{"role": "tool", "content": "a"}]})", "input[0].role",
                 "expected user");
  expect_refused(R"({"input": [{"role": "user"}]})", "input[0].content", "expected a string");
  expect_refused(R"({"input": [{"role": "user", "content": [7]}]})", "input[0].content[0]",
                 "expected an object");
  expect_refused(R"({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})",
                 "input[0].content[0].type", "\"input_image\" is not supported");
  expect_refused(R"({"input": [{"role": "user", "content": [{"type": "input_text"}]}]})",
                 "input[0].content[0].text", "expected a string");
  expect_refused(R"({"input": [{"type": "item_reference", "id": "msg_1"}]})", "input[0].type",
                 "\"item_reference\" is not supported");
  expect_refused(R"({"input": [{"type": "function_call_output", "output": "x"}]})",
                 "input[0].call_id", "it is missing");
  expect_refused(R"({"input": [{"type": "function_call", "name": "f", "call_id": "c"}]})",
                 "input[0]", "expected a call with call_id, name and arguments");
}

TEST_F(BadResponseRequests, NumbersOutOfRangeAreRefused) {
  expect_refused(R"({"input": "a", "max_output_tokens": 0})", "max_output_tokens", ">= 1");
  expect_refused(R"({"input": "a", "max_output_tokens": 1.5})", "max_output_tokens", "integer");
  expect_refused(R"({"input": "a", "temperature": 2.1})", "temperature", "from 0 to 2");
  expect_refused(R"({"input": "a", "temperature": -1})", "temperature", "in [0, 1000]");
  expect_refused(R"({"input": "a", "top_p": -1})", "top_p", "(0, 1]");
  expect_refused(R"({"input": "a", "top_logprobs": 21})", "top_logprobs", "from 0 to 20");
  expect_refused(R"({"input": "a", "top_logprobs": -1})", "top_logprobs", "from 0 to 20");
  expect_refused(R"({"input": "a", "priority": 5000000000})", "priority", "out of range");
  expect_refused(R"({"input": "a", "stop_token_ids": [99999999]})", "stop_token_ids[0]",
                 "token id");
}

TEST_F(BadResponseRequests, WrongTypesAreRefused) {
  expect_refused(R"({"input": "a", "stream": "yes"})", "stream", "expected a boolean");
  expect_refused(R"({"input": "a", "store": 1})", "store", "expected a boolean");
  expect_refused(R"({"input": "a", "instructions": 1})", "instructions", "expected a string");
  expect_refused(R"({"input": "a", "metadata": 1})", "metadata", "expected an object");
  expect_refused(R"({"input": "a", "metadata": {"a": 1}})", "metadata", "strings");
  expect_refused(R"({"input": "a", "include": "x"})", "include", "expected an array");
  expect_refused(R"({"input": "a", "include": ["x"]})", "include", "\"x\" is nothing");
  expect_refused(R"({"input": "a", "text": 1})", "text", "expected an object");
  expect_refused(R"({"input": "a", "previous_response_id": 1})", "previous_response_id",
                 "expected a string");
  expect_refused(R"({"input": "a", "previous_response_id": "resp_0"})", "previous_response_id",
                 "not found");
}

TEST_F(BadResponseRequests, BrokenJsonIsRefused) {
  for (const std::string body : {"", "{", "[]", "7", R"({"input": "a",})", "{\"input\": \"\xff\"}",
                                 R"({"input": "\ud800"})", R"({"input": "a", "input": "b"})"}) {
    EXPECT_EQ(post(body).status, 400) << body;
  }
  EXPECT_EQ(post(R"({"input": )" + std::string(10'000, '[') + "}").status, 400);
}

TEST_F(ResponsesTest, AClientThatGoesAwayAbortsItsResponse) {
  TestService busy;
  {
    const test::HeldEngine held(busy.engine());  // not done before its client has gone
    const auto exchange =
        begin_exchange(response_routes(busy.service(), store_),
                       post_request("/v1/responses", R"({"input": "a", "stream": true})"));
    EXPECT_TRUE(exchange->streaming());
    exchange->disconnect();
  }
  // What hangs meets the time limit of the whole test.
  while (busy.service().num_in_flight() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const EngineStats stats = test::settled_stats(busy.engine());
  EXPECT_EQ(stats.num_aborted, 1);
  EXPECT_EQ(stats.blocks_leaked, 0);
  EXPECT_EQ(store_->size(), 0U);
}

TEST_F(ResponsesTest, ADrainingServerFailsTheRequest) {
  TestService draining;
  draining.service().drain();
  const auto response = begin_exchange(response_routes(draining.service()),
                                       post_request("/v1/responses", R"({"input": "a"})"))
                            ->wait();
  EXPECT_EQ(response.status, 503);
}

}  // namespace responses_test
}  // namespace quire
