// What a choice says of its end, with a model that draws the tokens that it may.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/protocols/openai/completions.h"
#include "serve/protocols/openai/test_service.h"

namespace quire {
namespace stop_reason_test {

// Null at an end-of-sequence token, the id of one that the request named.
TEST(Completions, StopReasonIsTheRequestsOwn) {
  TestService tiny;
  const auto routes = completion_routes(tiny.service());
  const auto ends = tiny.engine().tokenizer().eos_ids();
  ASSERT_FALSE(ends.empty());
  const auto reason = [&](const std::string& more) {
    const std::string body = fmt::format(
        R"({{"prompt": "a", "max_tokens": 3, "allowed_token_ids": [{}]{}}})", ends.front(), more);
    const json::value answer =
        parse_body(begin_exchange(routes, post_request("/v1/completions", body))->wait());
    const json::value& choice = answer.at("choices").at(0);
    EXPECT_EQ(choice.at("finish_reason"), "stop");
    return choice.at("stop_reason");
  };
  EXPECT_TRUE(reason("").is_null());
  EXPECT_EQ(reason(fmt::format(R"(, "stop_token_ids": [{}])", ends.front())), ends.front());
}

}  // namespace stop_reason_test
}  // namespace quire
