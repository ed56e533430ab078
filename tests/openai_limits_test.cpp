// What one request can make the server hold: bounded before anything is computed.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocols/openai/answer_size.h"
#include "serve/protocols/openai/token_report.h"
#include "support/openai_api.h"

namespace quire::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kResponses = "/v1/responses";
constexpr const char* kEmbeddings = "/v1/embeddings";

ServiceConfig with_limit(std::uint64_t max_response_bytes) {
  ServiceConfig config;
  config.max_response_bytes = max_response_bytes;
  return config;
}

std::string message_of(const HttpResponse& response) {
  return std::string(object_of(response).at("error").as_object().at("message").as_string());
}

std::string many_prompts(std::size_t count, const std::string& text, const std::string& rest) {
  json::array prompts;
  for (std::size_t i = 0; i < count; ++i) prompts.push_back(json::value(text));
  return R"({"prompt": )" + json::serialize(prompts) + rest + "}";
}

TEST(TokenWidths, NoTokenIsWiderThanTheyAre) {
  Api api;
  const Tokenizer& tokenizer = api.engine->tokenizer();
  std::size_t widest = 0;
  for (TokenId id = 0; tokenizer.contains(id); ++id) {
    const std::string text = token_string(tokenizer, id);
    const std::size_t bytes = json::serialize(json::string_view(text)).size() - 2;
    EXPECT_EQ(json_text_bytes(text), bytes) << id;
    widest = std::max(widest, bytes);
  }
  const TokenWidths& widths = api.service->model().token_widths();
  EXPECT_GE(widths.texts(1), widest);
  EXPECT_LE(widths.texts(1), 3 * widest);
  EXPECT_GT(widths.texts(2), widths.texts(1));
  EXPECT_LE(widths.texts(2), 2 * widths.texts(1));
  EXPECT_EQ(widths.texts(0), 0U);
  EXPECT_EQ(widths.texts(1000), widths.texts(21)) << "no position has more";
}

TEST(AnswerSize, OneSmallRequestCannotAskForGigabytes) {
  Api api;
  const std::string text = "the quick brown fox jumps over the lazy dog ";
  const std::string body =
      many_prompts(1024, text + text + text, R"(, "n": 4, "echo": true, "logprobs": 20,
                                                 "max_tokens": 100)");
  EXPECT_LT(body.size(), 200'000U);
  const auto response = api.post(kCompletions, body);
  ASSERT_EQ(response.status, 400);
  EXPECT_THAT(message_of(response),
              AllOf(HasSubstr("logprobs"), HasSubstr("1024 prompts"), HasSubstr("n 4"),
                    HasSubstr("20 alternatives"), HasSubstr("--max-response-bytes 268435456"),
                    HasSubstr("lower")));
  EXPECT_EQ(api.settled().blocks_used, 0);
}

struct Asked {
  const char* name;
  const char* path;
  const char* body;
};
void PrintTo(const Asked& asked, std::ostream* out) { *out << asked.name; }

class AnswersWithinTheirBound : public testing::TestWithParam<Asked> {};

// The bound is never below what the answer comes to: with a limit one byte lower the request is
// refused. Nor is it out of all proportion.
TEST_P(AnswersWithinTheirBound, ARequestWhoseAnswerWouldBeLargerIsRefused) {
  const Asked& asked = GetParam();
  const HttpResponse answer = Api().post(asked.path, asked.body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::uint64_t bytes = answer.body.size();
  const HttpResponse refused = Api({}, with_limit(bytes - 1)).post(asked.path, asked.body);
  ASSERT_EQ(refused.status, 400) << refused.body.substr(0, 500);
  EXPECT_THAT(message_of(refused), HasSubstr("--max-response-bytes"));
  const HttpResponse again = Api({}, with_limit(60 * bytes + 20'000)).post(asked.path, asked.body);
  EXPECT_EQ(again.status, 200) << again.body.substr(0, 500);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, AnswersWithinTheirBound,
    testing::Values(
        Asked{"Completion", kCompletions, R"({"prompt": "abc", "max_tokens": 200, "seed": 1})"},
        Asked{"SeveralPrompts", kCompletions,
              R"({"prompt": ["abc", "d", "ef"], "n": 3, "max_tokens": 50, "seed": 1})"},
        Asked{"Logprobs", kCompletions,
              R"({"prompt": "abc", "max_tokens": 100, "logprobs": 20, "seed": 1, "n": 2})"},
        Asked{"EchoedLogprobs", kCompletions,
              R"({"prompt": "the lazy dog, and one \u0001\u0002 more", "echo": true,
                  "max_tokens": 20, "logprobs": 5, "n": 2})"},
        Asked{"EchoAlone", kCompletions,
              R"({"prompt": "the lazy dog", "echo": true, "max_tokens": 0, "logprobs": 2})"},
        Asked{"PromptLogprobs", kCompletions,
              R"({"prompt": "the lazy dog and the fox", "prompt_logprobs": 7, "max_tokens": 5})"},
        Asked{"TokenIds", kCompletions,
              R"({"prompt": "the lazy dog", "return_token_ids": true, "max_tokens": 100})"},
        Asked{"Why", kCompletions,
              R"({"prompt": "the dog", "return_why": true, "return_sampling_params": true,
                  "stop": ["zzzzzz"], "max_tokens": 30})"},
        Asked{"Chat", kChatCompletions,
              R"({"messages": [{"role": "user", "content": "abc"}], "max_tokens": 60,
                  "logprobs": true, "top_logprobs": 20, "n": 2})"},
        Asked{"Response", kResponses,
              R"({"input": "abc", "max_output_tokens": 60, "top_logprobs": 20,
                  "include": ["message.output_text.logprobs"]})"},
        Asked{"Floats", kEmbeddings, R"({"input": ["abc", "d", "e", "f", "g"]})"},
        Asked{"Base64", kEmbeddings,
              R"({"input": ["abc", "d", "e", "f"], "encoding_format": "base64"})"},
        Asked{"Tokenize", "/tokenize",
              R"({"prompt": "the quick brown fox \u0001\u0002\u0003 jumps over the lazy dog",
                  "return_token_strs": true})"},
        Asked{"Detokenize", "/detokenize",
              R"({"tokens": [1, 2, 3, 200, 201, 202, 5, 6, 7, 8, 9]})"}),
    [](const auto& each) { return each.param.name; });

TEST(AnswerSize, AChatThatLeavesMaxTokensOpenGetsWhatFits) {
  constexpr std::uint64_t kLimit = 200'000;
  Api api({}, with_limit(kLimit));
  const char* chat = R"({"messages": [{"role": "user", "content": "a"}], "logprobs": true,
                         "top_logprobs": 20, "ignore_eos": true, "return_sampling_params": true)";
  const auto answer = api.post(kChatCompletions, std::string(chat) + "}");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::object object = object_of(answer);
  EXPECT_EQ(choice(object).at("finish_reason").as_string(), "length");
  const std::int64_t tokens = object.at("usage").as_object().at("completion_tokens").as_int64();
  EXPECT_GT(tokens, 10);
  EXPECT_LT(tokens, 200);
  EXPECT_LE(answer.body.size(), kLimit);
  EXPECT_EQ(object.at("sampling_params").at("max_tokens").at("value").as_int64(), tokens);
  // What was asked for is not changed, but refused.
  EXPECT_EQ(api.post(kChatCompletions, std::string(chat) + R"(, "max_tokens": 250})").status, 400);
}

TEST(AnswerSize, AResponseThatLeavesItsLengthOpenGetsWhatFits) {
  Api api({}, with_limit(200'000));
  const char* body = R"({"input": "a", "top_logprobs": 20, "ignore_eos": true,
                         "include": ["message.output_text.logprobs"])";
  const auto answer = api.post(kResponses, std::string(body) + "}");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(object_of(answer).at("status").as_string(), "incomplete");
  EXPECT_LE(answer.body.size(), 200'000U);
}

TEST(AnswerSize, AStreamIsBoundedByWhatItsClientLeavesUnread) {
  Api api({}, with_limit(70'000));
  const char* body = R"({"prompt": "abc", "max_tokens": 200, "logprobs": 20, "stream": )";
  EXPECT_EQ(api.post(kCompletions, std::string(body) + "false}").status, 400);
  EXPECT_EQ(api.post(kCompletions, std::string(body) + "true}").status, 200);
}

TEST(HeldBytes, ListsOfWordsTimesPromptsAreBounded) {
  Api api;
  json::array words;
  for (int i = 0; i < 1024; ++i) words.push_back(json::value(std::string(4096, 'x')));
  const std::string rest =
      R"(, "stream": true, "max_tokens": 1, "bad_words": )" + json::serialize(words);
  const auto response = api.post(kCompletions, many_prompts(1024, "a", rest));
  ASSERT_EQ(response.status, 400);
  EXPECT_THAT(message_of(response), AllOf(HasSubstr("1024 prompts"), HasSubstr("268435456")));
}

TEST(HeldBytes, StopStringsTimesOutputsAreBounded) {
  Api api;
  json::array stops;
  for (int i = 0; i < 64; ++i) stops.push_back(json::value(std::string(4096, 'x')));
  const std::string rest = R"(, "n": 16, "stop": )" + json::serialize(stops);
  EXPECT_EQ(api.post(kCompletions, many_prompts(256, "a", rest)).status, 400);
  EXPECT_EQ(api.post(kCompletions, many_prompts(1, "a", rest)).status, 200);
}

struct LongText {
  std::size_t size;  // a chat template has a limit of its own
  const char* name;
  const char* path;
  const char* before;
  const char* after;
};
void PrintTo(const LongText& text, std::ostream* out) { *out << text.name; }

class LongTexts : public testing::TestWithParam<LongText> {};

TEST_P(LongTexts, IsRefusedByNameWithoutBeingTokenizedWhole) {
  const LongText& text = GetParam();
  Api api;
  // One word, and many: either way its tokens would be far too many.
  for (const std::string& piece : {std::string("a"), std::string("the fox ")}) {
    std::string body = text.before;
    while (body.size() < text.size) body += piece;
    const auto response = api.post(text.path, body + text.after);
    ASSERT_EQ(response.status, 400) << response.body.substr(0, 300);
    EXPECT_THAT(message_of(response), HasSubstr("the text has "));
    EXPECT_TRUE(object_of(response).at("error").as_object().at("param").is_string());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Routes, LongTexts,
    testing::Values(LongText{31'000'000, "Completion", kCompletions, R"({"prompt": ")", "\"}"},
                    LongText{7'000'000, "Chat", kChatCompletions,
                             R"({"messages": [{"role": "user", "content": ")", "\"}]}"},
                    LongText{7'000'000, "Response", kResponses, R"({"input": ")", "\"}"},
                    LongText{31'000'000, "Embedding", kEmbeddings, R"({"input": ")", "\"}"}),
    [](const auto& each) { return each.param.name; });

TEST(LongTexts, ATruncatedPromptMayBeLongerThanTheModelTakes) {
  Api api;
  std::string text;
  while (text.size() < 100'000) text += "the fox ";
  const std::string body =
      R"({"prompt": ")" + text + R"(", "max_tokens": 1, "truncate_prompt_tokens": 20})";
  EXPECT_EQ(api.post(kCompletions, body).status, 200);
  const auto word = api.post(kCompletions, R"({"prompt": ")" + std::string(5'000'000, 'a') +
                                               R"(", "truncate_prompt_tokens": 20})");
  ASSERT_EQ(word.status, 400);
  EXPECT_THAT(message_of(word), HasSubstr("a word of 5000000 bytes"));
}

// A client that goes away while its text becomes tokens.
class GoneExchange : public TestExchange {
 public:
  using TestExchange::TestExchange;
  bool gone() const override { return ++looks_ > 2; }
  int looks() const { return looks_; }

 private:
  mutable std::atomic<int> looks_ = 0;
};

TEST(LongTexts, TokenizingEndsWhenTheClientGoes) {
  Api api;
  std::string text;
  while (text.size() < 2'000'000) text += "the fox ";
  HttpRequest request;
  request.method = "POST";
  request.path = "/tokenize";
  request.headers = {{"Content-Type", "application/json"}};
  request.body = R"({"prompt": ")" + text + R"("})";
  const auto exchange = std::make_shared<GoneExchange>(request);
  api.router.match("POST", "/tokenize").route->handler(exchange);
  EXPECT_EQ(exchange->wait().status, 503);
  EXPECT_EQ(exchange->looks(), 3);
}

}  // namespace
}  // namespace quire::test
