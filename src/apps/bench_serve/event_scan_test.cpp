#include "apps/bench_serve/event_scan.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

TEST(EventScan, FindsTextOfBothRoutes) {
  EXPECT_TRUE(scan_event(R"({"choices":[{"index":0,"text":" a","finish_reason":null}]})").has_text);
  EXPECT_TRUE(scan_event(R"({"choices": [{"delta": {"content": "x"}}], "usage": null})").has_text);
  EXPECT_TRUE(scan_event(R"({"choices":[{"delta":{"reasoning_content":"x"}}]})").has_text);
  EXPECT_TRUE(scan_event(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})").has_text);
}

TEST(EventScan, WhatHasNoTextHasNone) {
  for (const char* event :
       {R"({"choices":[{"delta":{"role":"assistant","content":""}}]})",
        R"({"choices":[{"delta":{"content":null}}]})", R"({"choices":[{"text":""}]})",
        R"({"choices":[],"object":"text"})", R"({"object":"text_completion","id":"content"})",
        R"({"choices":[{"delta":{"tool_calls":[]}}]})", "", "{", "\"text", "nonsense"}) {
    EXPECT_FALSE(scan_event(event).has_text) << event;
  }
}

TEST(EventScan, ATextThatLooksLikeAKeyIsNone) {
  const EventFacts facts = scan_event(
      R"({"choices":[{"text":"\"error\":{\"finish_reason\":\"stop\",\"usage\":{\\","x":"\"}]})");
  EXPECT_TRUE(facts.has_text);
  EXPECT_FALSE(facts.finished);
  EXPECT_FALSE(facts.is_error);
  EXPECT_FALSE(facts.usage.has_value());
  // A backslash before the closing mark does not hide what follows.
  EXPECT_TRUE(scan_event(R"({"id":"\\","text":"x"})").has_text);
}

TEST(EventScan, FinishErrorAndUsage) {
  EXPECT_TRUE(scan_event(R"({"choices":[{"text":"","finish_reason":"length"}]})").finished);
  EXPECT_FALSE(scan_event(R"({"choices":[{"text":"a","finish_reason":null}]})").finished);
  EXPECT_TRUE(scan_event(R"({"error":{"message":"no"}})").is_error);
  EXPECT_TRUE(scan_event(R"({"error": "no"})").is_error);
  EXPECT_FALSE(scan_event(R"({"error":null,"choices":[]})").is_error);

  const EventFacts facts = scan_event(
      R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,)"
      R"("prompt_tokens_details":{"cached_tokens":4}}})");
  ASSERT_TRUE(facts.usage.has_value());
  EXPECT_EQ(facts.usage->prompt_tokens, 7);
  EXPECT_EQ(facts.usage->completion_tokens, 3);
  EXPECT_EQ(facts.usage->cached_tokens, 4);
  EXPECT_FALSE(scan_event(R"({"usage":{"prompt_tokens":"7"}})").usage.has_value());
  EXPECT_FALSE(scan_event(R"({"usage":null})").usage.has_value());
}

}  // namespace
}  // namespace quire::bench
