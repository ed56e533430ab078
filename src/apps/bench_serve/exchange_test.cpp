#include "apps/bench_serve/exchange.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

TEST(MessageOf, FindsTheServersWords) {
  EXPECT_EQ(message_of(R"({"error":{"message":"queue full","code":429}})"), "queue full");
  EXPECT_EQ(message_of(R"({"error":"queue full"})"), "queue full");
  EXPECT_EQ(message_of(R"({"object":"error","message":"queue full"})"), "queue full");
  EXPECT_EQ(message_of(R"({"detail":"Not Found"})"), "Not Found");
  EXPECT_EQ(message_of(R"({"status":1})"), R"({"status":1})");
  EXPECT_EQ(message_of("<html>\nno\x1b[31m"), "<html> no [31m");
  EXPECT_EQ(message_of(""), "");
}

TEST(MessageOf, IsBoundedAndWhole) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xC3\xA9x";  // 160 bytes end within a character
  const std::string message = message_of(text);
  EXPECT_LE(message.size(), 163U);
  EXPECT_TRUE(message.ends_with("..."));
  const std::string kept = message.substr(0, message.size() - 3);
  EXPECT_EQ(kept, text.substr(0, kept.size()));
  EXPECT_NE(kept.size() % 3, 1U);  // not between the bytes of a character
}

TEST(RequestHead, CarriesTheKeyAndTheLength) {
  const auto url = parse_base_url("http://host:1/base/v1");
  ASSERT_TRUE(url.ok());
  const std::string head = request_head(*url, "/v1/completions", "key", 12, "text/event-stream");
  EXPECT_TRUE(head.starts_with("POST /base/v1/completions HTTP/1.1\r\nHost: host:1\r\n")) << head;
  EXPECT_NE(head.find("\r\nAuthorization: Bearer key\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nContent-Length: 12\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_TRUE(request_head(*url, "/v1/models", "", 0, "application/json").starts_with("GET "));
}

}  // namespace
}  // namespace quire::bench
