// What the OpenAI-compatible routes refuse, and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/openai_api.h"

namespace quire::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct BadRequest {
  const char* name;
  const char* path;
  const char* body;  // of a completion or a chat completion, without its prompt
  int status;
  const char* param;  // nullptr: none
};

void PrintTo(const BadRequest& bad, std::ostream* out) { *out << bad.name; }

class BadRequests : public testing::TestWithParam<BadRequest> {};

TEST_P(BadRequests, AreRefusedByName) {
  const BadRequest& bad = GetParam();
  Api api;
  const auto response = api.post(bad.path, bad.body);
  EXPECT_EQ(response.status, bad.status) << response.body;
  const json::object answer = object_of(response);
  ASSERT_TRUE(answer.contains("error")) << response.body;
  const json::object& error = answer.at("error").as_object();
  EXPECT_EQ(error.at("param"), bad.param == nullptr ? json::value() : json::value(bad.param))
      << response.body;
  EXPECT_THAT(response.body, Not(HasSubstr(QUIRE_SOURCE_DIR)));
  EXPECT_EQ(api.settled().blocks_used, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Bodies, BadRequests,
    testing::Values(
        BadRequest{"Empty", kCompletions, "", 400, nullptr},
        BadRequest{"NotJson", kCompletions, "{", 400, nullptr},
        BadRequest{"NoObject", kCompletions, "[1]", 400, nullptr},
        BadRequest{"ByteOrderMark", kCompletions, "\xEF\xBB\xBF{\"prompt\": \"a\"}", 400, nullptr},
        BadRequest{"InvalidUtf8", kCompletions, "{\"prompt\": \"\xFF\"}", 400, nullptr},
        BadRequest{"LoneSurrogate", kCompletions, R"({"prompt": "\ud800"})", 400, nullptr},
        BadRequest{"DuplicateKeys", kCompletions, R"({"prompt": "a", "n": 1, "n": 2})", 400, "n"},
        BadRequest{"HugeNumber", kCompletions, R"({"prompt": "a", "temperature": 1e999})", 400,
                   nullptr},
        BadRequest{"MissingPrompt", kCompletions, R"({"max_tokens": 3})", 400, "prompt"},
        BadRequest{"EmptyPrompt", kCompletions, R"({"prompt": "", "add_special_tokens": false})",
                   400, "prompt"},
        BadRequest{"PromptOfObjects", kCompletions, R"({"prompt": {"a": 1}})", 400, "prompt"},
        BadRequest{"PromptIdsOutside", kCompletions, R"({"prompt": [1, 99999999]})", 400, nullptr},
        BadRequest{"PromptIdsNegative", kCompletions, R"({"prompt": [1, -1]})", 400, "prompt[1]"},
        BadRequest{"TooLong", kCompletions,
                   R"({"prompt": "a", "truncate_prompt_tokens": 999999999})", 400,
                   "truncate_prompt_tokens"},
        BadRequest{"WrongType", kCompletions, R"({"prompt": "a", "max_tokens": "many"})", 400,
                   "max_tokens"},
        BadRequest{"MillionOutputs", kCompletions, R"({"prompt": "a", "n": 1000000})", 400, "n"},
        BadRequest{"NegativeOutputs", kCompletions, R"({"prompt": "a", "n": -1})", 400, "n"},
        BadRequest{"HugeBestOf", kCompletions, R"({"prompt": "a", "best_of": 1000000})", 400,
                   "best_of"},
        BadRequest{"NegativeMaxTokens", kCompletions, R"({"prompt": "a", "max_tokens": -5})", 400,
                   "max_tokens"},
        BadRequest{"HugeTemperature", kCompletions, R"({"prompt": "a", "temperature": 999999})",
                   400, "temperature"},
        BadRequest{"NegativeTopP", kCompletions, R"({"prompt": "a", "top_p": -1})", 400, "top_p"},
        BadRequest{"ZeroRepetitionPenalty", kCompletions,
                   R"({"prompt": "a", "repetition_penalty": 0})", 400, "repetition_penalty"},
        BadRequest{"StopIdsOutside", kCompletions,
                   R"({"prompt": "a", "stop_token_ids": [99999999]})", 400, "stop_token_ids[0]"},
        BadRequest{"BiasOutside", kCompletions, R"({"prompt": "a", "logit_bias": {"99999999": 1}})",
                   400, "logit_bias"},
        BadRequest{"AllowedIdsOutside", kCompletions,
                   R"({"prompt": "a", "allowed_token_ids": [99999999]})", 400,
                   "allowed_token_ids[0]"},
        BadRequest{"NothingAllowed", kCompletions, R"({"prompt": "a", "allowed_token_ids": []})",
                   400, "allowed_token_ids"},
        BadRequest{"TooManyLogprobs", kCompletions, R"({"prompt": "a", "logprobs": 21})", 400,
                   "logprobs"},
        BadRequest{"Suffix", kCompletions, R"({"prompt": "a", "suffix": "b"})", 400, "suffix"},
        BadRequest{"OtherModel", kCompletions, R"({"prompt": "a", "model": "gpt-5"})", 404,
                   "model"},
        BadRequest{"StreamOptionsAlone", kCompletions,
                   R"({"prompt": "a", "stream_options": {"include_usage": true}})", 400,
                   "stream_options"},
        BadRequest{"RequestIdOfSpaces", kCompletions, R"({"prompt": "a", "request_id": "a b"})",
                   400, "request_id"},
        BadRequest{"Grammar", kCompletions, R"({"prompt": "a", "guided_regex": "(a+)+b"})", 400,
                   "guided_regex"},
        BadRequest{"JsonSchema", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "response_format": {"type": "json_object"}})",
                   400, "response_format"},
        BadRequest{"Tools", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "tools": [{"type": "function"}]})",
                   400, "tools"},
        BadRequest{"ChatTemplate", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "chat_template": "{% for i in range(1000000000) %}{% endfor %}"})",
                   400, "chat_template"},
        BadRequest{"TokenizeKwarg", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "chat_template_kwargs": {"tokenize": true}})",
                   400, "chat_template_kwargs"},
        BadRequest{"NoMessages", kChatCompletions, R"({"messages": []})", 400, "messages"},
        BadRequest{"MissingMessages", kChatCompletions, R"({})", 400, "messages"},
        BadRequest{"MessageOfText", kChatCompletions, R"({"messages": ["a"]})", 400, "messages[0]"},
        BadRequest{"MissingRole", kChatCompletions, R"({"messages": [{"content": "a"}]})", 400,
                   "messages[0].role"},
        BadRequest{"Image", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": [{"type": "image_url",
                       "image_url": {"url": "http://169.254.169.254/"}}]}]})",
                   400, "messages[0].content[0].type"},
        BadRequest{"TopLogprobsAlone", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})", 400,
                   "top_logprobs"},
        BadRequest{"DetokenizeOutside", "/detokenize", R"({"tokens": [99999999]})", 400,
                   "tokens[0]"},
        BadRequest{"TokenizeNothing", "/tokenize", R"({})", 400, "prompt"}),
    [](const auto& each) { return each.param.name; });

TEST(Requests, DepthIsBounded) {
  Api api;
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  EXPECT_EQ(api.post(kCompletions, R"({"prompt": )" + deep + "}").status, 400);
}

TEST(Requests, APromptLongerThanTheModelIsRefusedNotTruncated) {
  Api api;
  json::array ids;
  for (std::int32_t i = 0; i < api.engine->info().max_model_len; ++i) ids.push_back(5);
  const json::object request = {{"prompt", ids}};
  const auto response = api.post(kCompletions, json::serialize(request));
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("max-model-len"));
}

TEST(Requests, UnknownFieldsAreListedOrRefused) {
  Api api;
  const auto response =
      api.post(kCompletions, R"({"prompt": "a", "max_tokens": 1, "tempratur": 1, "a\r\nX: b": 1})");
  ASSERT_EQ(response.status, 200);
  const auto& header = response.headers.back();
  EXPECT_EQ(header.name, "X-Ignored-Fields");
  EXPECT_THAT(header.value, AllOf(HasSubstr("tempratur"), Not(HasSubstr("\r"))));
  Api strict({}, {.served_model_names = {}, .strict_fields = true});
  const auto refused = strict.post(kCompletions, R"({"prompt": "a", "tempratur": 1})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("tempratur"));
}

}  // namespace
}  // namespace quire::test
