// Calls of tools and reasoning through the whole server: what a model has written, told whole and
// as a stream, in chat completions and responses.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scripted_engine.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

// The forms of Hermes and of Qwen's reasoning, in few words.
constexpr std::string_view kTemplate =
    "{%- if tools %}{{ tools | tojson }} <tool_call> {% endif %}"
    "{%- for message in messages %}{{ message.role }}: {{ message.content }}"
    "{%- if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}"
    "{%- for call in message.tool_calls or [] %}{{ call.function.name }}"
    "({{ call.function.arguments | tojson }}){% endfor %} {% endfor %}"
    "{%- if role == 'tool' %}{% endif %}"
    "{%- if reasoning_effort is defined %}{{ reasoning_effort }}{% endif %}"
    "{%- if enable_thinking is defined and enable_thinking %}<think>\n{% endif %}";

constexpr std::string_view kTools = R"("tools": [
  {"type": "function", "function": {"name": "get", "description": "gets", "parameters":
    {"type": "object", "properties": {"city": {"type": "string"}}}}},
  {"type": "function", "function": {"name": "set"}}])";

constexpr std::string_view kCalls =
    "<think>\nhm \"what\"\n</think>\n\nSure.\n<tool_call>\n{\"name\": \"get\", \"arguments\": "
    "{\"city\": "
    "\"Par\\\"is\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"set\", \"arguments\": "
    "{}}\n</tool_call>";

class ToolCalls : public testing::Test {
 protected:
  ToolCalls()
      : path_(std::filesystem::temp_directory_path() /
              ("quire-tools-" + std::to_string(getpid()) + ".jinja")) {
    std::ofstream(path_) << kTemplate;
    scripted_ = std::make_unique<ScriptedApi>(path_.string());
  }
  ~ToolCalls() override { std::filesystem::remove(path_); }

  Api& api() { return scripted_->api(); }
  void say(std::string_view text) { scripted_->say(text); }

  HttpResponse post_chat(std::string_view fields) {
    return api().post(kChatCompletions,
                      fmt::format(R"({{"messages": [{{"role": "user", "content": "Hi"}}]{}{}}})",
                                  fields.empty() ? "" : ", ", fields));
  }
  json::object chat(std::string_view fields) {
    const HttpResponse response = post_chat(fields);
    EXPECT_EQ(response.status, 200) << response.body;
    return object_of(response);
  }
  void expect_refused(std::string_view fields, std::string_view text) {
    const HttpResponse response = post_chat(fields);
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_THAT(response.body, HasSubstr(std::string(text)));
  }

  std::filesystem::path path_;
  std::unique_ptr<ScriptedApi> scripted_;
};

const json::object& message_of(const json::object& answer) {
  return choice(answer).at("message").as_object();
}

TEST_F(ToolCalls, AWholeAnswerHasThem) {
  say(kCalls);
  const json::object answer = chat(kTools);
  const json::object& message = message_of(answer);
  EXPECT_EQ(message.at("content"), "Sure.");
  EXPECT_EQ(message.at("reasoning"), "hm \"what\"");
  EXPECT_EQ(message.at("reasoning_content"), "hm \"what\"");
  EXPECT_EQ(choice(answer).at("finish_reason"), "tool_calls");
  const json::array& calls = message.at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].at("type"), "function");
  EXPECT_TRUE(calls[0].at("id").as_string().starts_with("call_"));
  EXPECT_NE(calls[0].at("id"), calls[1].at("id"));
  EXPECT_EQ(calls[0].at("function").at("name"), "get");
  EXPECT_EQ(calls[0].at("function").at("arguments"), R"({"city": "Par\"is"})");
  EXPECT_EQ(calls[1].at("function").at("arguments"), "{}");
  EXPECT_FALSE(calls[0].as_object().contains("index"));
}

TEST_F(ToolCalls, WithNothingElseTheContentIsNull) {
  say("<tool_call>{\"name\": \"set\", \"arguments\": {}}</tool_call>");
  const json::object answer = chat(kTools);
  EXPECT_TRUE(message_of(answer).at("content").is_null());
  EXPECT_FALSE(message_of(answer).contains("reasoning"));
}

TEST_F(ToolCalls, AStreamSaysWhatTheWholeAnswerSays) {
  say(kCalls);
  const auto chunks = chunks_of(post_chat(std::string(kTools) + R"(, "stream": true)"));
  std::string content;
  std::string reasoning;
  std::vector<std::string> names;
  std::vector<std::string> arguments;
  json::value reason;
  std::size_t pieces = 0;
  for (const json::object& chunk : chunks) {
    const json::object& delta = choice(chunk).at("delta").as_object();
    if (const auto* text = delta.if_contains("content"); text && text->is_string()) {
      content += text->get_string();
    }
    if (const auto* text = delta.if_contains("reasoning")) {
      EXPECT_EQ(*text, delta.at("reasoning_content"));
      reasoning += text->as_string();
    }
    if (const auto* calls = delta.if_contains("tool_calls")) {
      for (const json::value& call : calls->as_array()) {
        const auto index = static_cast<std::size_t>(call.at("index").as_int64());
        if (index == names.size()) {
          EXPECT_TRUE(call.at("id").as_string().starts_with("call_"));
          EXPECT_EQ(call.at("type"), "function");
          names.emplace_back(call.at("function").at("name").as_string());
          arguments.emplace_back();
        } else {
          EXPECT_FALSE(call.as_object().contains("id"));
          EXPECT_FALSE(call.at("function").as_object().contains("name"));
        }
        ASSERT_EQ(index + 1, names.size());
        arguments.back() += call.at("function").at("arguments").as_string();
        ++pieces;
      }
    }
    reason = choice(chunk).at("finish_reason");
  }
  EXPECT_EQ(choice(chunks[0]).at("delta").at("role"), "assistant");
  EXPECT_EQ(content, "Sure.");
  EXPECT_EQ(reasoning, "hm \"what\"");
  EXPECT_THAT(names, testing::ElementsAre("get", "set"));
  EXPECT_THAT(arguments, testing::ElementsAre(R"({"city": "Par\"is"})", "{}"));
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_GT(pieces, 4U);  // arguments come as they are written
}

TEST_F(ToolCalls, FieldsChooseWhatIsTold) {
  say(kCalls);
  const json::object one = chat(std::string(kTools) + R"(, "parallel_tool_calls": false)");
  EXPECT_EQ(message_of(one).at("tool_calls").as_array().size(), 1U);
  const json::object quiet = chat(std::string(kTools) + R"(, "include_reasoning": false)");
  EXPECT_FALSE(message_of(quiet).contains("reasoning"));
  EXPECT_EQ(message_of(quiet).at("content"), "Sure.");
  const json::object none = chat(std::string(kTools) + R"(, "tool_choice": "none")");
  EXPECT_FALSE(message_of(none).contains("tool_calls"));
  EXPECT_EQ(choice(none).at("finish_reason"), "stop");
  EXPECT_THAT(std::string(message_of(none).at("content").as_string()),
              HasSubstr("Sure.\n<tool_call>\n{\"name\": \"get\""));
}

TEST_F(ToolCalls, AnAnswerThatIsCutSaysSo) {
  say(kCalls);
  const json::object answer = chat(std::string(kTools) + R"(, "max_tokens": 60)");
  EXPECT_EQ(choice(answer).at("finish_reason"), "length");
}

TEST_F(ToolCalls, APromptThatEndsWithinReasoningBeginsTheAnswerThere) {
  say("because</think>42");
  const json::object answer = chat(R"("chat_template_kwargs": {"enable_thinking": true})");
  EXPECT_EQ(message_of(answer).at("reasoning"), "because");
  EXPECT_EQ(message_of(answer).at("content"), "42");
  EXPECT_EQ(message_of(chat("")).at("content"), "because</think>42");
}

TEST_F(ToolCalls, WhatCannotBeIsRefusedByName) {
  say(kCalls);
  expect_refused(R"("tools": {})", "tools: expected an array");
  expect_refused(R"("tools": [{"type": "web_search"}])", "tools[0].type");
  expect_refused(R"("tools": [{"type": "function", "function": {"name": "a b"}}])",
                 "tools[0].function.name");
  expect_refused(R"("tools": [{"type": "function", "function": {"name": "a", "parameters": 5}}])",
                 "tools[0].function.parameters");
  expect_refused(R"("tools": [{"type": "function", "function": {"name": "a"}},
                              {"type": "function", "function": {"name": "a"}}])",
                 "tools[1]");
  expect_refused(R"("reasoning_effort": "enormous")", "reasoning_effort");
}

TEST_F(ToolCalls, ToolsAndHistoryReachTheTemplate) {
  say("ok");
  const auto prompt_tokens = [&](const std::string& body) {
    const HttpResponse response = api().post(kChatCompletions, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return object_of(response).at("usage").at("prompt_tokens").as_int64();
  };
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const std::string history = R"("messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": null, "reasoning": "I think",
       "tool_calls": [{"id": "call_1", "type": "function",
                       "function": {"name": "get", "arguments": "{\"city\": \"Paris\"}"}}]},
      {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}])";
  const std::int64_t plain = prompt_tokens(R"({"messages": [)" + user + "]}");
  const std::int64_t tools =
      prompt_tokens(R"({"messages": [)" + user + "], " + std::string(kTools) + "}");
  const std::int64_t past = prompt_tokens("{" + history + "}");
  EXPECT_GT(tools, plain + 20);
  EXPECT_GT(past, plain + 20);
  EXPECT_GT(prompt_tokens(R"({"messages": [)" + user + R"(], "reasoning_effort": "high"})"), plain);
}

TEST_F(ToolCalls, ResponsesHaveItemsOfThem) {
  say(kCalls);
  const std::string body = R"({"input": "Hi", "tools": [
      {"type": "function", "name": "get", "parameters": {"type": "object", "properties": {}}},
      {"type": "function", "name": "set"}])";
  const HttpResponse whole = api().post("/v1/responses", body + "}");
  ASSERT_EQ(whole.status, 200) << whole.body;
  const json::object answer = object_of(whole);
  const json::array& output = answer.at("output").as_array();
  ASSERT_EQ(output.size(), 4U) << whole.body;
  EXPECT_EQ(output[0].at("type"), "reasoning");
  EXPECT_EQ(output[0].at("content").at(0).at("text"), "hm \"what\"");
  EXPECT_EQ(output[1].at("type"), "message");
  EXPECT_EQ(output[1].at("content").at(0).at("text"), "Sure.");
  EXPECT_EQ(output[2].at("type"), "function_call");
  EXPECT_EQ(output[2].at("name"), "get");
  EXPECT_EQ(output[2].at("arguments"), R"({"city": "Par\"is"})");
  EXPECT_EQ(output[3].at("name"), "set");
  EXPECT_GT(answer.at("usage").at("output_tokens_details").at("reasoning_tokens").as_int64(), 0);

  // The next turn: the result of the call, behind the response or behind its items.
  say("sunny");
  const std::string result =
      fmt::format(R"([{{"type": "function_call_output", "call_id": {}, "output": "sunny"}}])",
                  json::serialize(output[2].at("call_id")));
  const HttpResponse next =
      api().post("/v1/responses", fmt::format(R"({{"previous_response_id": {}, "input": {}}})",
                                              json::serialize(answer.at("id")), result));
  EXPECT_EQ(next.status, 200) << next.body;
  EXPECT_EQ(object_of(next).at("output").at(0).at("content").at(0).at("text"), "sunny");
  json::array items = output;
  items.insert(items.begin(), json::object{{"role", "user"}, {"content", "Hi"}});
  items.push_back(parse_json(result, "result").value().at(0));
  const HttpResponse behind_items =
      api().post("/v1/responses", fmt::format(R"({{"input": {}}})", json::serialize(items)));
  EXPECT_EQ(behind_items.status, 200) << behind_items.body;
  EXPECT_EQ(object_of(next).at("usage").at("input_tokens"),
            object_of(behind_items).at("usage").at("input_tokens"));
}

// The case of tools of the Open Responses specification (openresponses.org), re-typed: the call is
// an item with all its fields, and the response tells the tools back with all of theirs.
TEST_F(ToolCalls, TheToolCaseOfOpenResponses) {
  say("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"location\": \"San Francisco\"}}\n"
      "</tool_call>");
  const HttpResponse response = api().post("/v1/responses", R"({
      "input": [{"type": "message", "role": "user", "content": "What is the weather like in San Francisco?"}],
      "tools": [{"type": "function", "name": "get_weather", "description": "Get the current weather",
                 "parameters": {"type": "object", "properties": {"location": {"type": "string"}},
                                "required": ["location"]}}]})");
  ASSERT_EQ(response.status, 200) << response.body;
  const json::object answer = object_of(response);
  EXPECT_EQ(answer.at("status"), "completed");
  ASSERT_EQ(answer.at("output").as_array().size(), 1U) << response.body;
  const json::value& item = answer.at("output").at(0);
  EXPECT_EQ(item.at("type"), "function_call");
  EXPECT_EQ(item.at("status"), "completed");
  EXPECT_EQ(item.at("name"), "get_weather");
  EXPECT_EQ(item.at("arguments"), R"({"location": "San Francisco"})");
  for (const char* name : {"id", "call_id"}) EXPECT_FALSE(item.at(name).as_string().empty());
  const json::value& tool = answer.at("tools").at(0);
  EXPECT_EQ(tool.at("type"), "function");
  EXPECT_EQ(tool.at("name"), "get_weather");
  EXPECT_EQ(tool.at("description"), "Get the current weather");
  EXPECT_EQ(tool.at("parameters").at("required").at(0), "location");
  EXPECT_EQ(tool.at("strict"), false);
  EXPECT_EQ(answer.at("tool_choice"), "auto");
  EXPECT_TRUE(answer.at("parallel_tool_calls").is_bool());
}

std::vector<json::object> events_of(const HttpResponse& response) {
  std::vector<json::object> events;
  std::string_view rest = response.body;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    const std::string_view event = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    const std::size_t data = event.find("data: ");
    events.push_back(parse_json(event.substr(data + 6), "event").value().get_object());
  }
  return events;
}

TEST_F(ToolCalls, AResponseStreamsItsItemsOneAfterTheOther) {
  say(kCalls);
  const HttpResponse response = api().post("/v1/responses", R"({"input": "Hi", "stream": true,
      "tools": [{"type": "function", "name": "get"}, {"type": "function", "name": "set"}]})");
  const auto events = events_of(response);
  std::vector<std::string> kinds;
  std::vector<std::string> texts(4);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].at("sequence_number"), i);
    std::string type(events[i].at("type").as_string());
    if (const auto* delta = events[i].if_contains("delta")) {
      texts.at(static_cast<std::size_t>(events[i].at("output_index").as_int64())) +=
          delta->as_string();
    }
    if (kinds.empty() || kinds.back() != type) kinds.push_back(std::move(type));
  }
  EXPECT_THAT(texts, testing::ElementsAre("hm \"what\"", "Sure.", R"({"city": "Par\"is"})", "{}"));
  const std::vector<std::string> expected = {"response.created",
                                             "response.in_progress",
                                             "response.output_item.added",
                                             "response.content_part.added",
                                             "response.reasoning_text.delta",
                                             "response.reasoning_text.done",
                                             "response.content_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.content_part.added",
                                             "response.output_text.delta",
                                             "response.output_text.done",
                                             "response.content_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.done",
                                             "response.output_item.done",
                                             "response.completed"};
  EXPECT_EQ(kinds, expected);
  // Stored, it tells the same again.
  const std::string id(events.back().at("response").at("id").as_string());
  HttpRequest request;
  request.method = "GET";
  request.path = "/v1/responses/" + id;
  request.query = {{"stream", "true"}};
  const auto match = api().router.match("GET", request.path);
  request.path_params = match.path_params;
  auto exchange = std::make_shared<TestExchange>(request);
  match.route->handler(exchange);
  const auto again = events_of(exchange->wait());
  EXPECT_EQ(again.back().at("response"), events.back().at("response"));
}

TEST(ToolCallsOfOtherModels, NeedATemplateAndADialect) {
  const std::string body =
      fmt::format(R"({{"messages": [{{"role": "user", "content": "Hi"}}], {}}})", kTools);
  Api plain;  // its template knows no tools
  const HttpResponse no_place = plain.post(kChatCompletions, body);
  EXPECT_EQ(no_place.status, 400);
  EXPECT_THAT(no_place.body,
              HasSubstr("tools: not supported by this model, whose chat template has no place"));
}

}  // namespace
}  // namespace quire::test
