#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(StopMatcher, EndsBeforeAStringSpreadOverPieces) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.add("abcE").text, "abc");
  EXPECT_EQ(matcher.add("N").text, "");
  const auto match = matcher.add("Dx");
  EXPECT_EQ(match.text, "");
  EXPECT_EQ(match.stop, "END");
}

TEST(StopMatcher, HeldTextComesOutWhenNoMatchFollows) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.add("aEN").text, "a");
  EXPECT_EQ(matcher.add("x").text, "ENx");
  EXPECT_EQ(matcher.add("E").text, "");
  EXPECT_EQ(matcher.flush(), "E");
}

TEST(StopMatcher, OverlappingPrefixIsNotLost) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.add("aa").text, "");
  EXPECT_EQ(matcher.add("a").text, "a");
  EXPECT_EQ(matcher.add("b").stop, "aab");
}

TEST(StopMatcher, TheMatchThatEndsFirstWins) {
  StopMatcher matcher({"late", "la"});
  const auto match = matcher.add("x late");
  EXPECT_EQ(match.text, "x ");
  EXPECT_EQ(match.stop, "la");
}

TEST(StopMatcher, WithoutStopStringsNothingIsHeld) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.add("anything").text, "anything");
}

}  // namespace
}  // namespace quire
