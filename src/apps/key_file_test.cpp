#include "apps/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string error_of(std::string_view text) {
  return parse_key_file(text, "keys.txt", {}).status().message();
}

TEST(KeyFile, AKeyHasTheLimitsOfItsLineAndThoseOfAllKeys) {
  const QuotaLimits defaults = {
      .requests_per_minute = 60, .tokens_per_minute = {}, .parallel_requests = 4};
  const auto keys = parse_key_file(
      "# who may\n\n  plain\nsome \trpm-limit=6 tpm-limit=20k\r\n"
      "all== rpm-limit=none max-parallel-requests=1",
      "keys.txt", defaults);
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  ASSERT_EQ(keys->size(), 3U);
  EXPECT_EQ((*keys)[0].key, "plain");
  EXPECT_EQ((*keys)[0].limits, defaults);
  EXPECT_EQ((*keys)[1].key, "some");
  EXPECT_EQ(
      (*keys)[1].limits,
      (QuotaLimits{.requests_per_minute = 6, .tokens_per_minute = 20'000, .parallel_requests = 4}));
  EXPECT_EQ((*keys)[2].key, "all==");
  EXPECT_EQ(
      (*keys)[2].limits,
      (QuotaLimits{.requests_per_minute = {}, .tokens_per_minute = {}, .parallel_requests = 1}));
}

TEST(KeyFile, WhatIsWrongIsNamedByItsLineAndNoKeyIsRepeated) {
  EXPECT_THAT(error_of("a\n\nsecret rpm-limit=0"),
              HasSubstr("keys.txt, line 3: rpm-limit: expected a count of 1 to 1000000000, or"));
  EXPECT_THAT(error_of("a tpm-limit=many"), HasSubstr("line 1: tpm-limit: expected a count"));
  EXPECT_THAT(error_of("a tpm-limit="), HasSubstr("line 1: tpm-limit: expected a count"));
  EXPECT_THAT(error_of("a rpm-limit"), HasSubstr("line 1: expected rpm-limit=N, tpm-limit=N"));
  EXPECT_THAT(error_of("secret secret=\n"), HasSubstr("line 1: expected rpm-limit=N"));
  EXPECT_THAT(error_of("secret\nb\nsecret tpm-limit=5"),
              HasSubstr("line 3: the key is that of line 1"));
  EXPECT_THAT(error_of("s\xc3\xa4"), HasSubstr("line 1: expected a key"));
  EXPECT_THAT(error_of(std::string(1025, 'a')), HasSubstr("line 1: expected a key"));
  for (const char* text : {"secret rpm-limit=0", "secret secret=1", "secret\nsecret", "x secret"}) {
    EXPECT_THAT(error_of(text), Not(HasSubstr("secret"))) << text;
  }
}

// Or the server would need no key.
TEST(KeyFile, AFileWithoutAKeyIsRefused) {
  EXPECT_THAT(error_of(""), HasSubstr("there is no key in it"));
  EXPECT_THAT(error_of("# nothing yet\n\n"), HasSubstr("there is no key in it"));
}

TEST(KeyFile, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(read_key_file("/nowhere/keys.txt", {}).status().message(),
              HasSubstr("/nowhere/keys.txt"));
}

}  // namespace
}  // namespace quire
