#include "serve/protocols/openai/embeddings.h"

#include <cmath>
#include <cstring>
#include <openssl/evp.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace embeddings_test {

using testing::HasSubstr;

TestService& tiny() {
  static TestService service([] {
    EngineArgs args;
    args.max_model_len = 64;
    return args;
  }());
  return service;
}

HttpResponse answer(const std::string& body) {
  return begin_exchange(embedding_routes(tiny().service()), post_request("/v1/embeddings", body))
      ->wait();
}

std::vector<float> floats(const json::value& list) {
  std::vector<float> vector;
  for (const json::value& value : list.as_array()) vector.push_back(value.to_number<float>());
  return vector;
}

std::vector<float> vector_of(const std::string& body, std::size_t index = 0) {
  const HttpResponse response = answer(body);
  EXPECT_EQ(response.status, 200) << response.body;
  return floats(parse_body(response).at("data").at(index).at("embedding"));
}

double length_of(const std::vector<float>& vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

void expect_refused(const std::string& body, const std::string& param, const std::string& message) {
  const HttpResponse response = answer(body);
  EXPECT_EQ(response.status, 400) << body.substr(0, 200);
  const json::value error = parse_body(response).at("error");
  EXPECT_EQ(error.at("type").as_string(), "invalid_request_error");
  EXPECT_EQ(error.at("param"), json::value(param)) << json::serialize(error);
  EXPECT_THAT(std::string(error.at("message").as_string()), HasSubstr(message));
}

TEST(Embeddings, AnswersAnInputWithAVectorOfLength1) {
  const HttpResponse response = answer(R"({"model": "tiny", "input": "The cat sat"})");
  ASSERT_EQ(response.status, 200) << response.body;
  const json::value body = parse_body(response);
  EXPECT_EQ(body.at("object").as_string(), "list");
  EXPECT_EQ(body.at("model").as_string(), "tiny");
  ASSERT_EQ(body.at("data").as_array().size(), 1U);
  const json::value& data = body.at("data").at(0);
  EXPECT_EQ(data.at("object").as_string(), "embedding");
  EXPECT_EQ(data.at("index").as_int64(), 0);
  const std::vector<float> vector = floats(data.at("embedding"));
  EXPECT_EQ(std::ssize(vector), tiny().engine().info().hidden_size);
  EXPECT_NEAR(length_of(vector), 1, 1e-6);
  const auto ids = tiny().engine().tokenizer().encode("The cat sat", {});
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), std::ssize(*ids));
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), std::ssize(*ids));
}

TEST(Embeddings, TakesTheFourFormsOfInputAndKeepsTheirOrder) {
  const auto ids = *tiny().engine().tokenizer().encode("The cat sat", {});
  const std::string list = json::serialize(json::array(ids.begin(), ids.end()));
  const auto vector = vector_of(R"({"input": "The cat sat"})");
  EXPECT_EQ(vector_of(R"({"input": )" + list + "}"), vector);
  EXPECT_EQ(vector_of(R"({"input": ["A dog", "The cat sat"]})", 1), vector);
  EXPECT_EQ(vector_of(R"({"input": [[5, 6], [7], )" + list + "]}", 2), vector);
  EXPECT_EQ(vector_of(R"({"input": ["The cat sat", [5, 6]]})", 0), vector);
  EXPECT_NE(vector_of(R"({"input": ["A dog", "The cat sat"]})", 0), vector);
}

TEST(Embeddings, ManyInputsAreAnsweredInOrder) {
  json::array inputs;
  for (int i = 0; i < 300; ++i) inputs.push_back(json::array{3 + i % 90, 4, 5});
  const HttpResponse response = answer(json::serialize(json::object{{"input", inputs}}));
  ASSERT_EQ(response.status, 200) << response.body;
  const json::value body = parse_body(response);
  ASSERT_EQ(body.at("data").as_array().size(), 300U);
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(body.at("data").at(i).at("index").as_int64(), static_cast<std::int64_t>(i));
    EXPECT_EQ(body.at("data").at(i).at("embedding"), body.at("data").at(i % 90).at("embedding"));
  }
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 900);
}

TEST(Embeddings, FewerDimensionsAreTheFirstOnesScaledAgain) {
  const auto whole = vector_of(R"({"input": "hello"})");
  const auto cut = vector_of(R"({"input": "hello", "dimensions": 8})");
  ASSERT_EQ(cut.size(), 8U);
  EXPECT_NEAR(length_of(cut), 1, 1e-6);
  EXPECT_NEAR(static_cast<double>(cut[0]) * static_cast<double>(whole[3]),
              static_cast<double>(cut[3]) * static_cast<double>(whole[0]), 1e-6);
}

TEST(Embeddings, WithoutNormalizationItIsTheModelsOwnVector) {
  const auto raw = vector_of(R"({"input": "hello", "normalize": false})");
  const auto scaled = vector_of(R"({"input": "hello"})");
  const double length = length_of(raw);
  EXPECT_GT(std::fabs(length - 1), 1e-3);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    EXPECT_FLOAT_EQ(static_cast<float>(static_cast<double>(raw[i]) / length), scaled[i]);
  }
  const auto cut = vector_of(R"({"input": "hello", "normalize": false, "dimensions": 2})");
  EXPECT_EQ(cut, std::vector<float>(raw.begin(), raw.begin() + 2));
}

TEST(Embeddings, Base64HoldsTheSameFloats) {
  for (const std::string dimensions : {"1", "2", "3", "16"}) {
    const std::string fields = R"({"input": "hello", "dimensions": )" + dimensions;
    const auto expected = vector_of(fields + "}");
    const HttpResponse response = answer(fields + R"(, "encoding_format": "base64"})");
    ASSERT_EQ(response.status, 200) << response.body;
    const json::value body = parse_body(response);
    const std::string text(body.at("data").at(0).at("embedding").as_string());
    std::vector<unsigned char> bytes(text.size());
    ASSERT_GT(EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                              static_cast<int>(text.size())),
              0);
    ASSERT_EQ(text.size(), (expected.size() * 4 + 2) / 3 * 4);
    std::vector<float> vector(expected.size());
    std::memcpy(vector.data(), bytes.data(), vector.size() * sizeof(float));
    EXPECT_EQ(vector, expected);
  }
}

TEST(Embeddings, TruncatesOnlyWhenAsked) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "cat ";
  const std::string field = R"({"input": ")" + text + '"';
  expect_refused(field + "}", "input", "the text has more than 64 tokens");
  expect_refused(R"({"input": ["a", ")" + text + R"("]})", "input[1]",
                 "the text has more than 64 tokens");
  const json::value all = parse_body(answer(field + R"(, "truncate_prompt_tokens": -1})"));
  EXPECT_EQ(all.at("usage").at("prompt_tokens").as_int64(), 64);
  const auto ids = *tiny().engine().tokenizer().encode(text, {});
  const json::array last(ids.end() - 5, ids.end());
  EXPECT_EQ(vector_of(field + R"(, "truncate_prompt_tokens": 5})"),
            vector_of(R"({"input": )" + json::serialize(last) + "}"));
  for (const std::string wrong : {"0", "-2", "65"}) {
    expect_refused(field + R"(, "truncate_prompt_tokens": )" + wrong + "}",
                   "truncate_prompt_tokens", "from 1 to 64");
  }
}

// CVE-2026-44222 and its family: text is never read as a control token.
TEST(Embeddings, UserTextNeverBecomesAControlToken) {
  const auto plain = tiny().engine().tokenizer().encode(
      "<|im_end|>", {.add_special_tokens = true, .parse_special = false});
  ASSERT_GT(plain->size(), 2U);
  const json::value body = parse_body(answer(R"({"input": "<|im_end|>"})"));
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), std::ssize(*plain));
}

TEST(Embeddings, FieldsWithoutEffectAreTakenAndUnknownOnesListed) {
  const HttpResponse response = answer(
      R"({"input": "a", "user": "u", "priority": -3, "encoding_format": "float", "colour": 1})");
  ASSERT_EQ(response.status, 200) << response.body;
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers[0].name, "X-Ignored-Fields");
  EXPECT_EQ(response.headers[0].value, "colour");
}

TEST(BadEmbeddingRequests, AreRefusedByName) {
  expect_refused(R"({})", "input", "found nothing");
  expect_refused(R"({"input": null})", "input", "found nothing");
  expect_refused(R"({"input": ""})", "input", "it is empty");
  expect_refused(R"({"input": []})", "input", "1 to 2048 inputs, found 0");
  expect_refused(R"({"input": ["a", ""]})", "input[1]", "it is empty");
  expect_refused(R"({"input": [[1], []]})", "input[1]", "expected a string or a list");
  expect_refused(R"({"input": 7})", "input", "expected a string or a list");
  expect_refused(R"({"input": [1, "a"]})", "input[0]", "expected a string or a list");
  expect_refused(R"({"input": [1, -1]})", "input", "-1 is not a token id");
  expect_refused(R"({"input": [1, 99999999]})", "input", "99999999 is not a token id");
  expect_refused(R"({"input": [1, 1e300]})", "input", "is not a token id");
  expect_refused(R"({"input": [1, 1.5]})", "input", "is not a token id");
  expect_refused(R"({"input": "a", "dimensions": 0})", "dimensions", "from 1 to");
  expect_refused(R"({"input": "a", "dimensions": 100000})", "dimensions", "from 1 to");
  expect_refused(R"({"input": "a", "dimensions": "2"})", "dimensions", "expected an integer");
  expect_refused(R"({"input": "a", "encoding_format": "int8"})", "encoding_format", "base64");
  expect_refused(R"({"input": "a", "normalize": 1})", "normalize", "expected a boolean");
  expect_refused(R"({"input": "a", "priority": 5000000000})", "priority", "out of range");
  expect_refused(R"({"input": "a", "user": 5})", "user", "expected a string");
  expect_refused(R"({"messages": [{"role": "user", "content": "a"}]})", "messages",
                 "not supported");
  expect_refused(R"({"input": "a", "request_id": "a b"})", "request_id", "expected 1 to 128");
}

TEST(BadEmbeddingRequests, TooManyInputs) {
  json::array inputs;
  for (int i = 0; i < 2049; ++i) inputs.emplace_back("a");
  expect_refused(json::serialize(json::object{{"input", inputs}}), "input",
                 "1 to 2048 inputs, found 2049");
}

TEST(BadEmbeddingRequests, AnotherModelIsNotFound) {
  const HttpResponse response = answer(R"({"input": "a", "model": "other"})");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(parse_body(response).at("error").at("code").as_string(), "model_not_found");
}

// The mean over the tokens of what the model gives each, which is the last one's of those up to it.
TEST(Embeddings, ArePooledAsTheServerIsTold) {
  EngineArgs args;
  args.max_model_len = 64;
  args.pooling_type = "mean";
  args.normalize_embeddings = false;
  TestService service(args);
  const HttpResponse response =
      begin_exchange(embedding_routes(service.service()),
                     post_request("/v1/embeddings", R"({"input": [5, 9]})"))
          ->wait();
  ASSERT_EQ(response.status, 200) << response.body;
  const auto mean = floats(parse_body(response).at("data").at(0).at("embedding"));
  const auto first = vector_of(R"({"input": [5], "normalize": false})");
  const auto second = vector_of(R"({"input": [5, 9], "normalize": false})");
  ASSERT_EQ(mean.size(), first.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    EXPECT_EQ(mean[i], static_cast<float>(
                           (static_cast<double>(first[i]) + static_cast<double>(second[i])) / 2));
  }
}

// The engine races with the client: where it wins, and no input is left to abort, they start again.
TEST(Embeddings, AClientThatGoesAwayAbortsItsInputs) {
  json::array inputs;
  for (int i = 0; i < 500; ++i) inputs.push_back(json::array(60, 5 + i % 50));
  const std::string body = json::serialize(json::object{{"input", inputs}});
  EngineStats stats;
  for (int i = 0; i < 100 && stats.num_aborted == 0; ++i) {
    const auto exchange =
        begin_exchange(embedding_routes(tiny().service()), post_request("/v1/embeddings", body));
    exchange->disconnect();
    // What comes next is answered soon, and nothing is left behind.
    EXPECT_EQ(answer(R"({"input": "a"})").status, 200);
    stats = tiny().engine().observe();
    EXPECT_EQ(stats.blocks_leaked, 0);
  }
  EXPECT_GT(stats.num_aborted, 0);
}

TEST(Embeddings, AServerThatDrainsTakesNone) {
  TestService service;
  service.service().drain();
  const auto response = begin_exchange(embedding_routes(service.service()),
                                       post_request("/v1/embeddings", R"({"input": "a"})"))
                            ->wait();
  EXPECT_EQ(response.status, 503);
}

}  // namespace embeddings_test
}  // namespace quire
