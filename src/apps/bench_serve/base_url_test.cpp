#include "apps/bench_serve/base_url.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

TEST(BaseUrl, TakesWhatServersAreWrittenAs) {
  const auto plain = parse_base_url("http://localhost:8000");
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->tls);
  EXPECT_EQ(plain->host, "localhost");
  EXPECT_EQ(plain->port, "8000");
  EXPECT_EQ(plain->authority, "localhost:8000");
  EXPECT_EQ(plain->target("/v1/models"), "/v1/models");

  const auto with_path = parse_base_url("https://example.org/models/a/v1/");
  ASSERT_TRUE(with_path.ok());
  EXPECT_TRUE(with_path->tls);
  EXPECT_EQ(with_path->port, "443");
  EXPECT_EQ(with_path->target("/v1/completions"), "/models/a/v1/completions");
  EXPECT_EQ(with_path->target("/tokenize"), "/models/a/tokenize");

  const auto v6 = parse_base_url("http://[::1]:81");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, "81");
  const auto v6_plain = parse_base_url("http://[::1]/v1");
  ASSERT_TRUE(v6_plain.ok());
  EXPECT_EQ(v6_plain->host, "::1");
  EXPECT_EQ(v6_plain->port, "80");
}

TEST(BaseUrl, RefusesWhatIsNone) {
  for (const char* text :
       {"", "localhost:8000", "ftp://a", "http://", "http://:80", "http://a:", "http://a:0",
        "http://a:65536", "http://a:8x", "http://[::1", "http://[::1]x", "http://a b",
        "http://u:p@a", "http://a?x", "http://a#x", "http://a\r\nX: y"}) {
    const auto url = parse_base_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace quire::bench
