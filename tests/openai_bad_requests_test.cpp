// What the OpenAI-compatible routes refuse, and how.
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocols/openai/request_fields.h"
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
        BadRequest{"PromptIdsOutside", kCompletions, R"({"prompt": [1, 99999999]})", 400, "prompt"},
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
        BadRequest{"Grammar", kCompletions, R"({"prompt": "a", "guided_regex": "(a+"})", 400,
                   "guided_regex"},
        BadRequest{"JsonSchema", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "response_format": {"type": "json_schema", "json_schema": {"name": "a"}}})",
                   400, "response_format.json_schema.schema"},
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

// Where no field is wrong but what the request asks of the model.
INSTANTIATE_TEST_SUITE_P(
    Fields, BadRequests,
    testing::Values(
        BadRequest{"PromptsOfNothing", kCompletions, R"({"prompt": []})", 400, "prompt"},
        BadRequest{"AnEmptyOneOfSeveral", kCompletions,
                   R"({"prompt": ["a", ""], "add_special_tokens": false})", 400, "prompt"},
        BadRequest{"IdsOutsideInOneOfSeveral", kCompletions, R"({"prompt": [[5], [99999999]]})",
                   400, "prompt"},
        BadRequest{"Seed", kCompletions, R"({"prompt": "a", "seed": -1})", 400, "seed"},
        BadRequest{"Priority", kCompletions, R"({"prompt": "a", "priority": 99999999999})", 400,
                   "priority"},
        BadRequest{"StopOfNothing", kCompletions, R"({"prompt": "a", "stop": [""]})", 400,
                   "stop[0]"},
        BadRequest{"MinBeyondMax", kCompletions,
                   R"({"prompt": "a", "max_tokens": 1, "min_tokens": 2})", 400, "min_tokens"},
        BadRequest{"BiasOfText", kCompletions, R"({"prompt": "a", "logit_bias": {"a": 1}})", 400,
                   "logit_bias"},
        BadRequest{"BiasTooLarge", kCompletions, R"({"prompt": "a", "logit_bias": {"5": 101}})",
                   400, "logit_bias[5]"},
        BadRequest{"ManyOutputs", kCompletions,
                   R"({"prompt": ["a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a",
                      "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a",
                      "a", "a", "a", "a", "a"], "n": 128})",
                   400, "n"},
        BadRequest{"EchoOfOtherLogprobs", kCompletions,
                   R"({"prompt": "a", "echo": true, "logprobs": 1, "prompt_logprobs": 2})", 400,
                   "prompt_logprobs"},
        BadRequest{"PromptLogprobsStreamed", kCompletions,
                   R"({"prompt": "a", "prompt_logprobs": 1, "stream": true})", 400,
                   "prompt_logprobs"},
        BadRequest{"StreamOptionsOfText", kCompletions,
                   R"({"prompt": "a", "stream": true, "stream_options": {"include_usage": 1}})",
                   400, "stream_options"},
        BadRequest{"ModelOfNumber", kCompletions, R"({"prompt": "a", "model": 5})", 400, "model"},
        BadRequest{"ManyTopLogprobs", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}], "logprobs": true,
                       "top_logprobs": 21})",
                   400, "top_logprobs"},
        BadRequest{"NoCompletionTokens", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "max_completion_tokens": 0})",
                   400, "max_completion_tokens"},
        BadRequest{"TwoMaxima", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "max_completion_tokens": 2, "max_tokens": 3})",
                   400, "max_tokens"},
        BadRequest{"NothingToContinue", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}],
                       "continue_final_message": true, "add_generation_prompt": true})",
                   400, "continue_final_message"},
        BadRequest{"DocumentsOfText", kChatCompletions,
                   R"({"messages": [{"role": "user", "content": "a"}], "documents": "b"})", 400,
                   "documents"},
        BadRequest{"NoInput", "/v1/embeddings", R"({})", 400, "input"},
        BadRequest{"InputOfNumber", "/v1/embeddings", R"({"input": 5})", 400, "input"},
        BadRequest{"InputsOfNothing", "/v1/embeddings", R"({"input": ["a", ""]})", 400, "input[1]"},
        BadRequest{"InputIdsOutside", "/v1/embeddings", R"({"input": [[99999999]]})", 400,
                   "input[0]"},
        BadRequest{"ManyDimensions", "/v1/embeddings", R"({"input": "a", "dimensions": 100000})",
                   400, "dimensions"},
        BadRequest{"Encoding", "/v1/embeddings", R"({"input": "a", "encoding_format": "hex"})", 400,
                   "encoding_format"},
        BadRequest{"ResponseOfNothing", "/v1/responses", R"({})", 400, "input"},
        BadRequest{"ResponseOfNoItems", "/v1/responses", R"({"input": []})", 400, "input"},
        BadRequest{"ResponseItem", "/v1/responses", R"({"input": [5]})", 400, "input[0]"},
        BadRequest{"ResponseRole", "/v1/responses",
                   R"({"input": [{"role": "king", "content": "a"}]})", 400, "input[0].role"},
        BadRequest{"ResponseBefore", "/v1/responses",
                   R"({"input": "a", "previous_response_id": "resp_none"})", 400,
                   "previous_response_id"},
        BadRequest{"ResponseBeforeOfNumber", "/v1/responses",
                   R"({"input": "a", "previous_response_id": 5})", 400, "previous_response_id"},
        BadRequest{"ResponseTemperature", "/v1/responses", R"({"input": "a", "temperature": 3})",
                   400, "temperature"},
        BadRequest{"ResponseTokens", "/v1/responses", R"({"input": "a", "max_output_tokens": 0})",
                   400, "max_output_tokens"},
        BadRequest{"ResponseInclude", "/v1/responses", R"({"input": "a", "include": ["b"]})", 400,
                   "include"},
        BadRequest{"ResponseMetadata", "/v1/responses", R"({"input": "a", "metadata": {"a": 1}})",
                   400, "metadata"},
        BadRequest{"ResponseFormat", "/v1/responses",
                   R"({"input": "a", "text": {"format": {"type": "json_schema"}}})", 400,
                   "text.format.schema"},
        BadRequest{"TokenizeBoth", "/tokenize",
                   R"({"prompt": "a", "messages": [{"role": "user", "content": "a"}]})", 400,
                   "prompt"},
        BadRequest{"DetokenizeNothing", "/detokenize", R"({})", 400, "tokens"}),
    [](const auto& each) { return each.param.name; });

// What is asked for can be no token at all: the tokens of the tiny model that end an answer are
// those of its tokenizer.
TEST(Requests, WhatRulesOutEveryTokenIsRefused) {
  Api api;
  const auto eos = api.engine->tokenizer().eos_ids();
  ASSERT_FALSE(eos.empty());
  const json::array ends(eos.begin(), eos.end());
  const auto param = [&](json::object fields) {
    fields["prompt"] = "a";
    fields["max_tokens"] = 3;
    const HttpResponse response = api.post(kCompletions, json::serialize(fields));
    if (response.status == 200) return json::value("");
    EXPECT_EQ(response.status, 400) << response.body;
    return object_of(response).at("error").as_object().at("param");
  };
  EXPECT_EQ(param({{"allowed_token_ids", ends}}), "");
  EXPECT_EQ(param({{"allowed_token_ids", ends}, {"min_tokens", 1}}), "allowed_token_ids");
  EXPECT_EQ(param({{"allowed_token_ids", ends}, {"min_tokens", 1}, {"ignore_eos", true}}), "");
  EXPECT_EQ(param({{"allowed_token_ids", json::array{5}},
                   {"stop_token_ids", json::array{5}},
                   {"min_tokens", 1}}),
            "allowed_token_ids");
  // A word that is one token, allowed and banned.
  for (TokenId id = 3; id < api.engine->info().vocab_size; ++id) {
    const std::string word(api.engine->tokenizer().token_bytes(id));
    const auto ids =
        api.engine->tokenizer().encode(word, {.add_special_tokens = false, .parse_special = false});
    if (word.empty() || !ids.ok() || *ids != std::vector<TokenId>{id}) continue;
    EXPECT_EQ(param({{"allowed_token_ids", json::array{id}}}), "") << word;
    EXPECT_EQ(param({{"allowed_token_ids", json::array{id}}, {"bad_words", json::array{word}}}),
              "allowed_token_ids")
        << word;
    return;
  }
  FAIL() << "the tokenizer has no word of one token";
}

TEST(Requests, DepthIsBounded) {
  Api api;
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  EXPECT_EQ(api.post(kCompletions, R"({"prompt": )" + deep + "}").status, 400);
}

TEST(Requests, AChatThatIsTooLongNamesItsMessages) {
  SimulatedEngineArgs args;
  args.engine.max_model_len = 16;
  Api api(args);
  const auto field = [&](const char* path, const char* body) {
    const HttpResponse response = api.post(path, body);
    EXPECT_EQ(response.status, 400) << response.body;
    return object_of(response).at("error").as_object().at("param");
  };
  const char* const words = "one two three four five six seven eight nine ten eleven twelve";
  EXPECT_EQ(
      field(kChatCompletions,
            fmt::format(R"({{"messages": [{{"role": "user", "content": "{0} {0}"}}]}})", words)
                .c_str()),
      "messages");
  EXPECT_EQ(field(kCompletions, fmt::format(R"({{"prompt": "{0} {0}"}})", words).c_str()),
            "prompt");
  EXPECT_EQ(field("/v1/responses", fmt::format(R"({{"input": "{0} {0}"}})", words).c_str()),
            "input");
  EXPECT_EQ(field("/v1/embeddings", fmt::format(R"({{"input": "{0} {0}"}})", words).c_str()),
            "input");
}

// LangChain's, LiteLLM's and agents' fallbacks look for the code, in the message too, or OpenAI's
// sentence.
TEST(Requests, AContextOverflowIsTold) {
  SimulatedEngineArgs args;
  args.engine.max_model_len = 16;
  Api api(args);
  const auto expect = [&](const char* path, const std::string& body, const char* param) {
    const HttpResponse response = api.post(path, body);
    EXPECT_EQ(response.status, 400) << response.body;
    const json::object error = object_of(response).at("error").as_object();
    EXPECT_EQ(error.at("code"), "context_length_exceeded") << response.body;
    EXPECT_EQ(error.at("param"), param);
    EXPECT_THAT(
        std::string(error.at("message").as_string()),
        HasSubstr("This model's maximum context length is 16 tokens (context_length_exceeded)"));
  };
  const std::string words = "one two three four five six seven eight nine ten eleven twelve";
  expect(kCompletions, fmt::format(R"({{"prompt": "{0} {0}"}})", words), "prompt");
  expect(kCompletions, R"({"prompt": [5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5]})", "prompt");
  expect(kChatCompletions,
         fmt::format(R"({{"messages": [{{"role": "user", "content": "{0} {0}"}}]}})", words),
         "messages");
  expect("/v1/responses", fmt::format(R"({{"input": "{0} {0}"}})", words), "input");
  expect("/v1/embeddings", fmt::format(R"({{"input": "{0} {0}"}})", words), "input");
}

TEST(Requests, MaxTokensBeyondWhatFitsAreRefusedNotCut) {
  Api api;
  const std::int64_t most = api.engine->info().max_model_len;
  const auto answer = [&](const char* path, const std::string& body) {
    return api.post(path, body);
  };
  const auto expect = [&](const char* path, const std::string& body, const char* param) {
    const HttpResponse response = answer(path, body);
    EXPECT_EQ(response.status, 400) << response.body;
    const json::object error = object_of(response).at("error").as_object();
    EXPECT_EQ(error.at("code"), "context_length_exceeded") << response.body;
    EXPECT_EQ(error.at("param"), param) << response.body;
  };
  expect(kCompletions, fmt::format(R"({{"prompt": [5, 5], "max_tokens": {}}})", most - 1),
         "max_tokens");
  EXPECT_EQ(answer(kCompletions, fmt::format(R"({{"prompt": [5, 5], "max_tokens": {}}})", most - 2))
                .status,
            200);
  // What the request leaves open becomes what fits.
  const json::object prompt = {{"prompt", json::array(static_cast<std::size_t>(most - 3), 5)}};
  EXPECT_EQ(answer(kCompletions, json::serialize(prompt)).status, 200);
  const std::string chat = R"("messages": [{"role": "user", "content": "a"}])";
  expect(kChatCompletions, fmt::format(R"({{{}, "max_tokens": {}}})", chat, most), "max_tokens");
  expect(kChatCompletions, fmt::format(R"({{{}, "max_completion_tokens": {}}})", chat, most),
         "max_completion_tokens");
  expect("/v1/responses", fmt::format(R"({{"input": "a", "max_output_tokens": {}}})", most),
         "max_output_tokens");
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
  EXPECT_THAT(header.value,
              AllOf(HasSubstr("tempratur (did you mean temperature?)"), Not(HasSubstr("\r"))));
  Api strict({}, {.served_model_names = {}, .strict_fields = true});
  const auto refused = strict.post(kCompletions, R"({"prompt": "a", "tempratur": 1})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body,
              HasSubstr("tempratur: there is no such field (did you mean temperature?)"));
}

// What would change what an answer means is never passed over.
TEST(Requests, FieldsThatChangeAnAnswerAreRefusedByName) {
  Api api;
  const auto refuse = [&](const char* path, const std::string& common, const std::string& name,
                          const std::string& value, const char* why) {
    const HttpResponse response =
        api.post(path, fmt::format(R"({{{}, "{}": {}}})", common, name, value));
    EXPECT_EQ(response.status, 400) << name;
    const json::object error = object_of(response).at("error").as_object();
    EXPECT_EQ(error.at("param").as_string(), name);
    EXPECT_EQ(error.at("code"), "unsupported_parameter") << name;
    EXPECT_THAT(std::string(error.at("message").as_string()), HasSubstr(why)) << name;
  };
  const std::string chat = R"("messages": [{"role": "user", "content": "a"}])";
  const std::pair<const char*, std::string> routes[] = {{kCompletions, R"("prompt": "a")"},
                                                        {kChatCompletions, chat},
                                                        {"/v1/responses", R"("input": "a")"}};
  for (const auto& [path, common] : routes) {
    for (const char* name :
         {"return_tokens_as_token_ids", "logprob_token_ids", "grammar_lazy", "mirostat"}) {
      refuse(path, common, name, "1", "this feature is not supported");
    }
    refuse(path, common, "truncation_side", R"("right")", "this value is not supported");
    refuse(path, common, "repeat_penalty", "1.1", "repetition_penalty");
  }
  refuse("/v1/responses", R"("input": "a")", "use_beam_search", "true",
         "this feature is not supported");
  refuse("/v1/responses", R"("input": "a")", "beam_width", "2", "this feature is not supported");
  refuse("/v1/embeddings", R"("input": "a")", "truncation_side", R"("right")", "only \"left\"");
  refuse(kChatCompletions, chat, "guided_decoding_backend", R"("xgrammar:no-fallback")",
         "names of backends");
  refuse(kChatCompletions, chat, "tools", R"([{"type": "function"}])",
         "not supported by this model");
}

// Clients send these unasked.
TEST(Requests, HarmlessFieldsAreTaken) {
  Api api;
  const auto take = [&](const char* path, const std::string& body) {
    const HttpResponse response = api.post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    for (const HttpHeader& header : response.headers) EXPECT_NE(header.name, "X-Ignored-Fields");
  };
  take(kChatCompletions, R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1,
       "reasoning_effort": "high", "store": true, "metadata": {"a": "b"}, "user": "u",
       "prediction": {"type": "content", "content": "a"}, "tool_choice": "none",
       "tools": [{"type": "function", "function": {"name": "f"}}], "service_tier": "auto"})");
  take(kCompletions, R"({"prompt": "a", "max_tokens": 1, "n": 2, "best_of": 2, "user": "u",
       "truncation_side": "left", "repeat_penalty": 1.0, "typical_p": 1, "grammar": ""})");
  take("/v1/responses", R"({"input": "a", "max_output_tokens": 2, "truncation": "auto",
       "reasoning": {"effort": "low"}, "store": false, "metadata": {}, "user": "u"})");
}

// A field has one row, and what is refused says when it is not.
TEST(Requests, FieldTablesAreConsistent) {
  for (const FieldTable* table : request_field_tables()) {
    std::set<std::string_view> names;
    for (const RequestField& field : table->fields) {
      EXPECT_TRUE(names.insert(field.name).second) << table->route << " " << field.name;
      EXPECT_EQ(field.harmless != nullptr, field.effect == FieldEffect::kRefused) << field.name;
      if (field.harmless == nullptr) continue;
      EXPECT_FALSE(field.harmless("x y", {})) << field.name;
    }
  }
}

}  // namespace
}  // namespace quire::test
