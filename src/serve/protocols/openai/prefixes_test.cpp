#include "serve/protocols/openai/prefixes.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocols/openai/chat_completions.h"
#include "serve/protocols/openai/completions.h"
#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace prefixes_test {

using testing::HasSubstr;

// The cache of a key is its own, as with --api-key.
class Prefixes : public testing::Test {
 protected:
  Prefixes() : service_(args(), config()), routes_(prefix_routes(service_.service())) {
    for (auto& more :
         {completion_routes(service_.service()), chat_completion_routes(service_.service())}) {
      routes_.insert(routes_.end(), more.begin(), more.end());
    }
  }

  static EngineArgs args() {
    EngineArgs args;
    args.max_model_len = 96;
    args.block_size = 4;
    args.max_num_seqs = 4;
    args.max_pinned_share = 0.25;  // of 96 blocks
    return args;
  }
  static ServiceConfig config() {
    ServiceConfig config;
    config.prefix_cache_scope = PrefixCacheScope::kKey;
    return config;
  }

  HttpResponse call(std::string method, std::string path, std::string body = {},
                    std::string caller = "ann") {
    HttpRequest request = post_request(std::move(path), std::move(body));
    request.method = std::move(method);
    request.caller = std::move(caller);
    return begin_exchange(routes_, std::move(request))->wait();
  }
  json::value pin(const std::string& name, const std::string& prompt,
                  const std::string& more = {}) {
    const auto response = call("POST", "/v1/prefixes",
                               R"({"name": ")" + name + R"(", "prompt": )" + prompt + more + "}");
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_body(response);
  }
  json::array list(const std::string& caller = "ann") {
    return parse_body(call("GET", "/v1/prefixes", {}, caller)).at("data").as_array();
  }
  // Which the engine counts at the end of its round.
  void expect_pinned(std::int64_t num_blocks) {
    for (int i = 0; i < 500 && service_.engine().observe().blocks_pinned != num_blocks; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(service_.engine().observe().blocks_pinned, num_blocks);
  }
  // How much of a completion's prompt was cached.
  std::int64_t cached(const std::string& prompt, const std::string& caller = "ann") {
    const auto response =
        call("POST", "/v1/completions", R"({"max_tokens": 1, "prompt": )" + prompt + "}", caller);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_body(response)
        .at("usage")
        .at("prompt_tokens_details")
        .at("cached_tokens")
        .as_int64();
  }
  // Requests that need the whole cache.
  void fill_cache() {
    for (int i = 0; i < 12; ++i) cached(tokens(40 + i, 80));
  }
  void expect_refused(const HttpResponse& response, int status, const std::string& message) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(std::string(parse_body(response).at("error").at("message").as_string()),
                HasSubstr(message));
  }
  // A list of token ids, which differs from others' in each block.
  static std::string tokens(int first, int count) {
    json::array ids;
    for (int i = 0; i < count; ++i) ids.push_back(3 + (first + i * first) % 90);
    return json::serialize(ids);
  }

  TestService service_;
  std::vector<Route> routes_;
};

TEST_F(Prefixes, StayInTheCacheUnderTheirName) {
  const json::value pinned = pin("support", tokens(7, 18), R"(, "ttl_seconds": 60)");
  EXPECT_EQ(pinned.at("object").as_string(), "prefix");
  EXPECT_EQ(pinned.at("name").as_string(), "support");
  EXPECT_EQ(pinned.at("model").as_string(), "tiny");
  EXPECT_EQ(pinned.at("tokens").as_int64(), 16);  // full blocks
  EXPECT_EQ(pinned.at("blocks").as_int64(), 4);
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  EXPECT_NEAR(static_cast<double>(pinned.at("expires_at").as_int64()),
              static_cast<double>(now + 60), 3);
  expect_pinned(4);
  fill_cache();
  EXPECT_EQ(cached(tokens(7, 24)), 16);
  const json::array listed = list();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].at("hits").as_int64(), 1);
}

TEST_F(Prefixes, BeginLaterChats) {
  const std::string system =
      R"({"role": "system", "content": "You answer questions about the moon, in verse."})";
  const auto response =
      call("POST", "/v1/prefixes", R"({"name": "moon", "messages": [)" + system + "]}");
  ASSERT_EQ(response.status, 200) << response.body;
  const std::int64_t num_tokens = parse_body(response).at("tokens").as_int64();
  EXPECT_GT(num_tokens, 8);
  fill_cache();
  const auto chat = call("POST", "/v1/chat/completions",
                         R"({"max_tokens": 1, "messages": [)" + system +
                             R"(, {"role": "user", "content": "How far?"}]})");
  ASSERT_EQ(chat.status, 200) << chat.body;
  EXPECT_EQ(parse_body(chat).at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(),
            num_tokens);
}

TEST_F(Prefixes, AreTheirKeysAlone) {
  pin("support", tokens(7, 16));
  EXPECT_TRUE(list("bob").empty());
  expect_refused(call("DELETE", "/v1/prefixes/support", {}, "bob"), 404, "no prefix is pinned");
  EXPECT_EQ(cached(tokens(7, 24), "bob"), 0);
  EXPECT_EQ(list().size(), 1U);
  EXPECT_EQ(call("DELETE", "/v1/prefixes/support").status, 200);
  EXPECT_TRUE(list().empty());
  expect_refused(call("DELETE", "/v1/prefixes/support"), 404, "no prefix is pinned");
  expect_pinned(0);
}

TEST_F(Prefixes, GoWhenTheirTimeIsOver) {
  pin("short", tokens(7, 16), R"(, "ttl_seconds": 1)");
  pin("long", tokens(9, 16), R"(, "ttl_seconds": 100)");
  // Nobody asks for anything, and it goes all the same.
  for (int i = 0; i < 500 && service_.engine().observe().num_pins == 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  expect_pinned(4);
  ASSERT_EQ(list().size(), 1U);
  EXPECT_EQ(list()[0].at("name").as_string(), "long");
}

TEST_F(Prefixes, TheSameAgainIsRenewedAndAnotherTakesItsPlace) {
  pin("a", tokens(7, 16), R"(, "ttl_seconds": 10)");
  const std::int64_t requests = service_.engine().observe().num_added;
  const auto before = list()[0].at("expires_at").as_int64();
  pin("a", tokens(7, 16), R"(, "ttl_seconds": 1000)");
  EXPECT_EQ(service_.engine().observe().num_added, requests);  // nothing is computed
  EXPECT_GT(list()[0].at("expires_at").as_int64(), before + 900);
  EXPECT_EQ(pin("a", tokens(9, 8)).at("tokens").as_int64(), 8);
  EXPECT_EQ(list().size(), 1U);
  expect_pinned(2);
}

TEST_F(Prefixes, WhatDoesNotFitIsRefusedWithTheNumbers) {
  EXPECT_EQ(service_.engine().info().max_pinned_blocks, 24);
  pin("a", tokens(7, 80));
  const auto refused =
      call("POST", "/v1/prefixes", R"({"name": "b", "prompt": )" + tokens(9, 20) + "}");
  expect_refused(refused, 429, "it would pin 5 blocks of the KV cache; 20 of the 24 that may be");
  EXPECT_EQ(list().size(), 1U);
  pin("b", tokens(9, 16));
}

TEST(PrefixesWithoutAShare, AreRefused) {
  TestService service;
  const auto refused =
      begin_exchange(
          prefix_routes(service.service()),
          post_request("/v1/prefixes", R"({"name": "a", "prompt": "The cat sat on a mat, )"
                                       R"(and the dog lay beside it, and both slept."})"))
          ->wait();
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("--max-pinned-share"));
}

TEST_F(Prefixes, EmptyingTheCacheUnpins) {
  pin("a", tokens(7, 16));
  service_.engine().reset_prefix_cache();
  EXPECT_TRUE(list().empty());
  expect_pinned(0);
  EXPECT_EQ(cached(tokens(7, 24)), 0);
}

TEST_F(Prefixes, WhatCannotBePinnedIsRefused) {
  const auto post = [&](const std::string& body) { return call("POST", "/v1/prefixes", body); };
  expect_refused(post(R"({"prompt": [4, 5, 6, 7]})"), 400, "name: expected a string");
  expect_refused(post(R"({"name": "a/b", "prompt": [4, 5, 6, 7]})"), 400, "name: expected 1 to 64");
  expect_refused(post(R"({"name": "a"})"), 400, "messages: give either");
  expect_refused(post(R"({"name": "a", "prompt": "x", "messages": []})"), 400,
                 "messages: give either");
  expect_refused(post(R"({"name": "a", "prompt": 7})"), 400, "prompt: expected a string or a list");
  expect_refused(post(R"({"name": "a", "prompt": [4, 5, 6]})"), 400, "has 3 tokens");
  expect_refused(post(R"({"name": "a", "prompt": [4, 5, 6, 70000]})"), 400, "70000");
  for (const char* ttl : {"0", "-9223372036854775808", "86401", "9223372036854775807"}) {
    expect_refused(
        post(R"({"name": "a", "prompt": [4, 5, 6, 7], "ttl_seconds": )" + std::string(ttl) + "}"),
        400, "ttl_seconds: expected 1 to 86400");
  }
  expect_refused(post(R"({"name": "a", "model": "other", "prompt": [4, 5, 6, 7]})"), 404, "other");
  expect_refused(post(R"({"name": "a", "prompt": )" + tokens(5, 97) + "}"), 400, "at most 95");
  EXPECT_TRUE(list().empty());
}

}  // namespace prefixes_test
}  // namespace quire
