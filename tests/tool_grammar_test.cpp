// Calls that have to be: the form of an answer holds over a simulated engine whose tokens are
// noise, in chat completions and responses, whole and as a stream.
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/openai_api.h"
#include "text/dialects/dialect.h"

namespace quire::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr std::string_view kGrammarTemplate =
    "{%- if tools %}{{ tools | tojson }} <tool_call> {% endif %}"
    "{%- for message in messages %}{{ message.role }}: {{ message.content }} {% endfor %}"
    "{%- if thinks is defined and thinks %}<think>\n{% endif %}"
    "{%- if quiet is defined and quiet %}<think>\n\n</think>\n\n{% endif %}";

// What noise ends soon.
constexpr std::string_view kParameters = R"({"type": "object", "properties": {
  "city": {"type": "string", "enum": ["Paris", "Rome \"city\""]},
  "days": {"type": "integer", "minimum": 1, "maximum": 7},
  "rain": {"type": "boolean"}}, "required": ["city", "days"]})";

// Noise that began to reason would not end it.
const std::string kQuiet = R"("chat_template_kwargs": {"quiet": true})";

std::string chat_tools(bool strict = false) {
  return fmt::format(R"("tools": [
    {{"type": "function", "function": {{"name": "get", "parameters": {0}, "strict": {1}}}}},
    {{"type": "function", "function": {{"name": "set", "parameters": {0}, "strict": {1}}}}}])",
                     kParameters, strict);
}
std::string response_tools() {
  return fmt::format(R"("tools": [{{"type": "function", "name": "get", "parameters": {0}}},
                                  {{"type": "function", "name": "set", "parameters": {0}}}])",
                     kParameters);
}

void expect_valid(std::string_view text) {
  const auto parsed = parse_json(text, "arguments");
  ASSERT_TRUE(parsed.ok()) << text;
  const json::object& arguments = parsed->as_object();
  EXPECT_THAT(std::string(arguments.at("city").as_string()), AnyOf("Paris", "Rome \"city\""));
  EXPECT_GE(arguments.at("days").to_number<double>(), 1);
  EXPECT_LE(arguments.at("days").to_number<double>(), 7);
  const json::value* rain = arguments.if_contains("rain");
  EXPECT_TRUE(rain == nullptr || rain->is_bool()) << text;
  EXPECT_LE(arguments.size(), 3U) << text;
}

class ToolGrammar : public testing::Test {
 protected:
  ToolGrammar()
      : path_(std::filesystem::temp_directory_path() /
              ("quire-calls-" + std::to_string(getpid()) + ".jinja")) {
    std::ofstream(path_) << kGrammarTemplate;
  }
  ~ToolGrammar() override { std::filesystem::remove(path_); }

  Api api(std::string_view dialect = "hermes") {
    SimulatedEngineArgs args;
    args.engine.chat_template = path_.string();
    args.engine.max_model_len = 4096;
    ServiceConfig config;
    config.dialect.tools = *find_tool_dialect(dialect);
    return Api(args, config);
  }
  static HttpResponse post(Api& api, std::string_view fields, int seed = 1) {
    return api.post(kChatCompletions,
                    fmt::format(R"({{"messages": [{{"role": "user", "content": "Hi"}}],
                                     "temperature": 1, "seed": {}, {}}})",
                                seed, fields));
  }
  static json::object chat(Api& api, std::string_view fields, int seed = 1) {
    const HttpResponse response = post(api, fields, seed);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.status == 200 ? object_of(response) : json::object();
  }

  std::filesystem::path path_;
};

const json::array& calls_of(const json::object& answer) {
  return choice(answer).at("message").at("tool_calls").as_array();
}

TEST_F(ToolGrammar, RequiredCallsAlwaysParse) {
  for (const ToolDialect& dialect : tool_dialects()) {
    Api server = api(dialect.name);
    for (int seed = 0; seed < 3; ++seed) {
      const json::object answer = chat(
          server,
          chat_tools() + R"(, "tool_choice": "required", "parallel_tool_calls": false, )" + kQuiet,
          seed);
      ASSERT_FALSE(answer.empty());
      ASSERT_TRUE(choice(answer).at("message").as_object().contains("tool_calls"))
          << dialect.name << json::serialize(answer);
      EXPECT_EQ(choice(answer).at("finish_reason"), "tool_calls") << dialect.name;
      ASSERT_EQ(calls_of(answer).size(), 1U);
      const json::value& function = calls_of(answer)[0].at("function");
      EXPECT_THAT(std::string(function.at("name").as_string()), AnyOf("get", "set"));
      expect_valid(function.at("arguments").as_string());
    }
  }
}

TEST_F(ToolGrammar, OneFunctionByItsName) {
  Api server = api();
  const std::string named = R"(, "tool_choice": {"type": "function", "function": {"name": "set"}})";
  const std::string allowed = R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools":
      {"mode": "required", "tools": [{"type": "function", "function": {"name": "set"}}]}})";
  for (const std::string& field : {named, allowed}) {
    const json::object answer = chat(server, chat_tools() + field + ", " + kQuiet);
    ASSERT_FALSE(answer.empty());
    for (const json::value& call : calls_of(answer)) {
      EXPECT_EQ(call.at("function").at("name"), "set");
      expect_valid(call.at("function").at("arguments").as_string());
    }
  }
}

TEST_F(ToolGrammar, AStreamSaysWhatTheWholeAnswerSays) {
  Api server = api();
  const std::string fields = chat_tools() + R"(, "tool_choice": "required", )" + kQuiet;
  const json::object whole = chat(server, fields, 5);
  std::vector<std::string> arguments;
  for (const json::object& chunk : chunks_of(post(server, fields + R"(, "stream": true)", 5))) {
    const json::object& delta = choice(chunk).at("delta").as_object();
    const json::value* calls = delta.if_contains("tool_calls");
    if (calls == nullptr) continue;
    for (const json::value& call : calls->as_array()) {
      const auto index = static_cast<std::size_t>(call.at("index").as_int64());
      if (index == arguments.size()) arguments.emplace_back();
      arguments.at(index) += call.at("function").at("arguments").as_string();
    }
  }
  ASSERT_EQ(arguments.size(), calls_of(whole).size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    EXPECT_EQ(calls_of(whole)[i].at("function").at("arguments"), json::string(arguments[i]));
    expect_valid(arguments[i]);
  }
}

TEST_F(ToolGrammar, ResponsesHoldAsWell) {
  Api server = api();
  for (const char* choice_field : {R"("required")", R"({"type": "function", "name": "get"})"}) {
    const HttpResponse response = server.post(
        "/v1/responses",
        fmt::format(R"({{"input": "Hi", "temperature": 1, "thinking_token_budget": 5, {},
                         "tool_choice": {}}})",
                    response_tools(), choice_field));
    ASSERT_EQ(response.status, 200) << response.body;
    int calls = 0;
    const json::object answer = object_of(response);
    for (const json::value& item : answer.at("output").as_array()) {
      if (item.at("type") != "function_call") continue;
      ++calls;
      expect_valid(item.at("arguments").as_string());
    }
    EXPECT_GE(calls, 1) << response.body;
  }
}

TEST_F(ToolGrammar, ReasoningComesBeforeACallAndASchema) {
  Api server = api();
  const std::string thinks =
      R"("chat_template_kwargs": {"thinks": true}, "thinking_token_budget": 9)";
  const json::object called =
      chat(server, chat_tools() + R"(, "tool_choice": "required", )" + thinks);
  ASSERT_FALSE(called.empty());
  EXPECT_FALSE(choice(called).at("message").at("reasoning").as_string().empty());
  expect_valid(calls_of(called)[0].at("function").at("arguments").as_string());
  const std::string schema =
      fmt::format(R"("response_format": {{"type": "json_schema", "json_schema":
                     {{"name": "a", "schema": {}}}}})",
                  kParameters);
  const json::object held = chat(server, schema + ", " + thinks);
  ASSERT_FALSE(held.empty());
  EXPECT_FALSE(choice(held).at("message").at("reasoning").as_string().empty());
  expect_valid(choice(held).at("message").at("content").as_string());
  // Where the prompt has ended reasoning, the schema holds from the first token on.
  const json::object quiet = chat(server, schema + R"(, "chat_template_kwargs": {"quiet": true})");
  ASSERT_FALSE(quiet.empty());
  EXPECT_FALSE(choice(quiet).at("message").as_object().contains("reasoning"));
  expect_valid(choice(quiet).at("message").at("content").as_string());
}

TEST_F(ToolGrammar, ABudgetEndsReasoning) {
  Api server = api();
  for (const int budget : {0, 1, 12}) {
    const json::object answer =
        chat(server, fmt::format(R"("chat_template_kwargs": {{"thinks": true}}, "max_tokens": 60,
                               "thinking_token_budget": {}, "return_token_ids": true)",
                                 budget));
    ASSERT_FALSE(answer.empty());
    const json::object& message = choice(answer).at("message").as_object();
    EXPECT_FALSE(message.at("content").as_string().empty()) << json::serialize(answer);
    const Tokenizer& tokenizer = server.engine->tokenizer();
    const json::value* reasoning = message.if_contains("reasoning");
    EXPECT_TRUE(budget > 0 || reasoning == nullptr);
    if (reasoning == nullptr) continue;
    const auto tokens = tokenizer.encode(std::string(reasoning->as_string()), {});
    ASSERT_TRUE(tokens.ok());
    EXPECT_LT(tokens->size(), 60U);
  }
}

TEST_F(ToolGrammar, StrictFunctionsHoldWhereCallsAreFree) {
  Api server = api();
  const json::object answer = chat(server, chat_tools(true) + R"(, "max_tokens": 40)");
  ASSERT_FALSE(answer.empty());
  const HttpResponse refused = post(server, R"("tools": [{"type": "function", "function": {
      "name": "get", "strict": true, "parameters": {"type": "object", "properties":
      {"a": {"$ref": "http://elsewhere/a"}}}}}])");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("tools: get: JSON Schema"));
}

TEST_F(ToolGrammar, WhatCannotBeIsRefusedByName) {
  Api server = api();
  const auto refused = [&](std::string_view fields, std::string_view text) {
    const HttpResponse response = post(server, fields);
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_THAT(response.body, HasSubstr(std::string(text)));
  };
  refused(R"("tool_choice": "required")", "tool_choice: there are no tools");
  refused(chat_tools() + R"(, "tool_choice": "sometimes")", "tool_choice: expected");
  refused(chat_tools() + R"(, "tool_choice": {"type": "function", "function": {"name": "no"}})",
          "there is no tool with the name");
  refused(R"("thinking_token_budget": -1)", "thinking_token_budget: -1 is not an integer >= 0");
}

TEST_F(ToolGrammar, StructuralTagsOfBothForms) {
  Api server = api();
  const std::string older = fmt::format(
      R"("response_format": {{"type": "structural_tag", "triggers": ["<f"], "structures":
         [{{"begin": "<f>", "schema": {}, "end": "</f>"}}]}}, "max_tokens": 50)",
      kParameters);
  EXPECT_EQ(post(server, older).status, 200);
  const std::string newer = fmt::format(
      R"("response_format": {{"type": "structural_tag", "format": {{"type": "sequence", "elements": [
         {{"type": "const_string", "value": "So: "}},
         {{"type": "tag", "begin": "<f>", "end": "</f>",
           "content": {{"type": "json_schema", "json_schema": {}}}}}]}}}}, "include_reasoning": false)",
      kParameters);
  const json::object answer = chat(server, newer + ", " + kQuiet);
  ASSERT_FALSE(answer.empty());
  const std::string text(choice(answer).at("message").at("content").as_string());
  ASSERT_TRUE(text.starts_with("So: <f>") && text.ends_with("</f>")) << text;
  expect_valid(text.substr(7, text.size() - 11));
  const HttpResponse refused = post(server, R"("response_format": {"type": "structural_tag",
      "format": {"type": "dispatch"}})");
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("dispatch"));
}

}  // namespace
}  // namespace quire::test
