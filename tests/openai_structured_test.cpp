// What the text of an answer must be, in the words of each protocol, over a simulated engine: its
// tokens are noise, so what holds is the constraint's doing.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/openai_api.h"

namespace quire::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kChat = R"("messages": [{"role": "user", "content": "a"}])";

std::string text_of(const HttpResponse& response, const char* key = "text") {
  EXPECT_EQ(response.status, 200) << response.body;
  const json::object answer = object_of(response);
  if (response.status != 200) return {};
  const json::object& first = choice(answer);
  EXPECT_EQ(first.at("finish_reason"), "stop") << response.body;
  if (std::string_view(key) == "content") {
    return std::string(first.at("message").at("content").as_string());
  }
  return std::string(first.at("text").as_string());
}

struct Refused {
  std::string param;
  std::string message;
};
Refused refused(const HttpResponse& response) {
  EXPECT_EQ(response.status, 400) << response.body;
  if (response.status != 400) return {};
  const json::object error = object_of(response).at("error").as_object();
  return {std::string(error.at("param").as_string()), std::string(error.at("message").as_string())};
}

TEST(Structured, EveryNameOfAConstraintHolds) {
  Api api;
  const char* const bodies[] = {
      R"("structured_outputs": {"choice": ["red", "blue"]})",
      R"("structured_outputs": {"regex": "red|blue"})",
      R"("structured_outputs": {"grammar": "root ::= \"red\" | \"blue\""})",
      R"("structured_outputs": {"grammar": "start: \"red\" | \"blue\""})",
      R"("guided_choice": ["red", "blue"])",
      R"("guided_regex": "red|blue", "guided_decoding_backend": "xgrammar")",
      R"("guided_grammar": "root ::= \"red\" | \"blue\"")",
      R"("regex": "red|blue")",
      R"("grammar": "root ::= \"red\" | \"blue\"")",
      R"("ebnf": "root ::= \"red\" | \"blue\"")",
  };
  for (const char* body : bodies) {
    EXPECT_THAT(text_of(api.post(kCompletions, fmt::format(R"({{"prompt": "a", {}}})", body))),
                AnyOf("red", "blue"))
        << body;
    EXPECT_THAT(
        text_of(api.post(kChatCompletions, fmt::format("{{{}, {}}}", kChat, body)), "content"),
        AnyOf("red", "blue"))
        << body;
  }
}

TEST(Structured, EveryOutputOfEveryPromptHolds) {
  Api api;
  const json::object answer = object_of(api.post(
      kCompletions, R"({"prompt": ["a", "b", "c"], "n": 3, "temperature": 1, "max_tokens": 50,
                        "logprobs": 1, "regex": "[0-9]{2,4}x"})"));
  ASSERT_EQ(answer.at("choices").as_array().size(), 9U);
  for (const json::value& each : answer.at("choices").as_array()) {
    const std::string text(each.at("text").as_string());
    EXPECT_TRUE(std::regex_match(text, std::regex("[0-9]{2,4}x"))) << text;
  }
}

TEST(Structured, StreamsHold) {
  Api api;
  const HttpResponse response = api.post(
      kChatCompletions,
      fmt::format(R"({{{}, "stream": true, "return_why": true, "regex": "[a-z]{{9}}"}})", kChat));
  std::string text;
  json::value why;
  for (const json::object& chunk : chunks_of(response)) {
    text += std::string(choice(chunk).at("delta").at("content").as_string());
    if (const json::value* found = choice(chunk).if_contains("why")) why = *found;
  }
  EXPECT_TRUE(std::regex_match(text, std::regex("[a-z]{9}"))) << text;
  const json::object& constraint = why.at("constraint").as_object();
  EXPECT_GT(constraint.at("masks").as_int64(), 0);
  EXPECT_FALSE(constraint.at("cached").as_bool());
}

std::vector<bool> flags_of(const json::value& list) {
  std::vector<bool> flags;
  for (const json::value& each : list.as_array()) flags.push_back(each.as_bool());
  return flags;
}

// One for each token, in a stream and without, of completions and chats.
TEST(Structured, ForcedTokensAreTold) {
  Api api;
  constexpr const char* kAsked =
      R"("return_token_ids": true, "return_forced_tokens": true, "logprobs": true, "seed": 3,
         "regex": "the dog, [a-z]{3}, the dog")";
  const std::string asked = fmt::format("{{{}, {}", kChat, kAsked);
  const json::object whole = object_of(api.post(kChatCompletions, asked + "}"));
  const std::vector<bool> flags = flags_of(choice(whole).at("forced_tokens"));
  EXPECT_EQ(flags.size(), choice(whole).at("token_ids").as_array().size());
  EXPECT_TRUE(std::ranges::count(flags, true) > 0 && std::ranges::count(flags, false) > 0);
  std::vector<bool> streamed;
  for (const json::object& chunk :
       chunks_of(api.post(kChatCompletions, asked + R"(, "stream": true})"))) {
    const std::vector<bool> piece = flags_of(choice(chunk).at("forced_tokens"));
    EXPECT_EQ(piece.size(), choice(chunk).at("token_ids").as_array().size());
    streamed.insert(streamed.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(streamed, flags);
  const json::object completion =
      object_of(api.post(kCompletions, R"({"prompt": "a", "return_forced_tokens": true, "n": 2,
                                 "structured_outputs": {"choice": ["the dog, the cat"]}})"));
  for (const json::value& each : completion.at("choices").as_array()) {
    EXPECT_TRUE(flags_of(each.at("forced_tokens")).at(0));
  }
  const json::object unasked = object_of(api.post(kCompletions, R"({"prompt": "a"})"));
  EXPECT_FALSE(choice(unasked).contains("forced_tokens"));
  EXPECT_EQ(
      refused(api.post("/v1/responses", R"({"input": "a", "return_forced_tokens": true})")).param,
      "return_forced_tokens");
}

TEST(Structured, ResponsesAndLlamaCppHold) {
  Api api;
  const json::object response = object_of(api.post(
      "/v1/responses", R"({"input": "a", "structured_outputs": {"choice": ["red", "blue"]}})"));
  EXPECT_THAT(std::string(response.at("output").at(0).at("content").at(0).at("text").as_string()),
              AnyOf("red", "blue"));
  const json::object llama = object_of(
      api.post("/completion", R"({"prompt": "a", "grammar": "root ::= \"red\" | \"blue\""})"));
  EXPECT_THAT(std::string(llama.at("content").as_string()), AnyOf("red", "blue"));
}

// Whatever the schema is called, and whichever protocol calls it so.
TEST(Structured, JsonHoldsUnderEveryName) {
  Api api;
  const std::string schema =
      R"({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, "x"]}},
          "required": ["a", "b"], "additionalProperties": false})";
  const auto check = [](const std::string& text, const std::string& of) {
    const auto value = parse_json(text, "answer");
    ASSERT_TRUE(value.ok() && value->is_object()) << of << ": " << text;
    EXPECT_TRUE(value->at("a").is_bool()) << of;
    EXPECT_TRUE(value->at("b") == 1 || value->at("b") == "x") << of;
    EXPECT_EQ(value->as_object().size(), 2U) << of;
  };
  for (
      const std::string& body : {
          R"("response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": true,
              "schema": )" +
              schema + "}}",
          R"("response_format": {"type": "json_object", "schema": )" + schema + "}",
          R"("structured_outputs": {"disable_any_whitespace": true, "json": )" + schema + "}",
          R"("guided_whitespace_pattern": "[ ]?", "guided_json": )" + schema,
          R"("json_schema": )" + schema,
          R"("json_schema": )" + json::serialize(json::string(schema)),
      }) {
    check(text_of(api.post(kChatCompletions, fmt::format("{{{}, {}}}", kChat, body)), "content"),
          body);
  }
  const json::object response = object_of(
      api.post("/v1/responses", R"({"input": "a", "text": {"format": {"type": "json_schema",
                                    "name": "a", "schema": )" +
                                    schema + "}}}"));
  check(std::string(response.at("output").at(0).at("content").at(0).at("text").as_string()),
        "responses");
  EXPECT_EQ(response.at("text").at("format").at("type"), "json_schema");
  check(std::string(
            object_of(api.post("/completion", R"({"prompt": "a", "json_schema": )" + schema + "}"))
                .at("content")
                .as_string()),
        "llama.cpp");
  const Refused wrong = refused(
      api.post(kChatCompletions, fmt::format(R"({{{}, "response_format": {{"type": "json_schema",
          "json_schema": {{"name": "a", "schema": {{"type": "integr"}}}}}}}})",
                                             kChat)));
  EXPECT_EQ(wrong.param, "response_format.json_schema.schema");
}

TEST(Structured, ErrorsNameTheFieldAndThePlace) {
  Api api;
  const auto post = [&](const std::string& field) {
    return refused(api.post(kCompletions, fmt::format(R"({{"prompt": "a", {}}})", field)));
  };
  EXPECT_EQ(post(R"("guided_regex": "a(b")").param, "guided_regex");
  EXPECT_THAT(post(R"("structured_outputs": {"regex": "a(b"})").message, HasSubstr("column"));
  EXPECT_EQ(post(R"("structured_outputs": {"regexp": "a"})").param, "structured_outputs.regexp");
  EXPECT_EQ(post(R"("structured_outputs": {"choice": "a"})").param, "structured_outputs.choice");
  EXPECT_EQ(post(R"("structured_outputs": {})").param, "structured_outputs");
  EXPECT_EQ(post(R"("structured_outputs": {"regex": "a", "choice": ["a"]})").param,
            "structured_outputs");
  EXPECT_EQ(post(R"("guided_choice": [1])").param, "guided_choice");
  EXPECT_EQ(post(R"("guided_choice": ["a"], "regex": "b")").param, "regex");
  EXPECT_EQ(post(R"("guided_regex": "a", "guided_whitespace_pattern": " ?")").param,
            "guided_whitespace_pattern");
  EXPECT_EQ(post(R"("response_format": {"type": "xml"})").param, "response_format.type");
  EXPECT_EQ(post(R"("response_format": "json")").param, "response_format");
  EXPECT_EQ(
      post(R"("response_format": {"type": "json_schema", "json_schema": {"schema": []}})").param,
      "response_format.json_schema.schema");
  EXPECT_THAT(post(R"("grammar": "root ::= missing")").message, HasSubstr("missing"));
  // Nothing of it has reached the engine.
  EXPECT_EQ(api.settled().num_added, 0);
}

// The model sees what is asked of it: in the system message, and `why` tells.
TEST(Structured, TheSchemaIsInThePromptWhereAskedFor) {
  Api api;
  const auto ask = [&](const std::string& field) {
    return object_of(
        api.post(kChatCompletions,
                 fmt::format(R"({{{}, "return_why": true, "guided_choice": ["red", "blue"]{}}})",
                             kChat, field)));
  };
  const json::object without = ask("");
  const json::object with = ask(R"(, "schema_in_prompt": true)");
  const auto prompt_tokens = [](const json::object& answer) {
    return answer.at("usage").at("prompt_tokens").as_int64();
  };
  EXPECT_GT(prompt_tokens(with), prompt_tokens(without) + 4);
  const auto told = [](const json::object& answer) {
    return choice(answer).at("why").at("constraint").at("schema_in_prompt").as_bool();
  };
  EXPECT_TRUE(told(with));
  EXPECT_FALSE(told(without));
  const json::object same = object_of(api.post(kChatCompletions, R"({"guided_choice": ["a"],
      "messages": [{"role": "system", "content": "Answer with one of these texts:\nred\nblue"},
                   {"role": "user", "content": "a"}]})"));
  EXPECT_EQ(prompt_tokens(same), prompt_tokens(with));
}

TEST(Structured, ASchemaThatIsNotToldIsAnError) {
  Api api;
  EXPECT_EQ(
      refused(api.post(kChatCompletions, fmt::format(R"({{{}, "schema_in_prompt": true}})", kChat)))
          .param,
      "schema_in_prompt");
  EXPECT_EQ(refused(api.post(kChatCompletions,
                             fmt::format(R"({{{}, "schema_in_prompt": true, "structural_tag": {{
          "type": "structural_tag", "format": {{"type": "any_text"}}}}}})",
                                         kChat)))
                .param,
            "schema_in_prompt");
  // There is no message to say it in.
  EXPECT_EQ(refused(api.post(kCompletions, R"({"prompt": "a", "guided_choice": ["a"],
                                               "schema_in_prompt": true})"))
                .param,
            "schema_in_prompt");
}

// What only shows once it runs.
TEST(Structured, WhatCannotBeIsAnErrorOfItsRequest) {
  Api api;
  const Refused whole = refused(
      api.post(kCompletions,
               R"({"prompt": "a", "guided_choice": ["a"], "min_tokens": 9, "max_tokens": 20})"));
  EXPECT_EQ(whole.param, "guided_choice");
  EXPECT_THAT(whole.message, HasSubstr("min_tokens"));
  const HttpResponse stream = api.post(
      kCompletions,
      R"({"prompt": "a", "regex": "[ab]{4}", "min_tokens": 9, "max_tokens": 20, "stream": true})");
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.body, HasSubstr("min_tokens is 9"));
  EXPECT_THAT(text_of(api.post(kCompletions, R"({"prompt": "a", "guided_choice": ["b"]})")), "b");
}

TEST(Structured, SaysNothingWhereNothingIsSaid) {
  Api api;
  const HttpResponse response =
      api.post(kCompletions, R"({"prompt": "a", "max_tokens": 2, "grammar": "", "guided_choice": [],
                        "guided_json": null, "response_format": {"type": "text"}})");
  EXPECT_EQ(response.status, 200) << response.body;
}

}  // namespace
}  // namespace quire::test
