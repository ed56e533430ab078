#include "text/jinja/text.h"

#include <gtest/gtest.h>

namespace quire::jinja {
namespace {

TEST(JinjaText, JoinsRunsOfOneOrigin) {
  Text text("ab", true);
  text.append("c", true);
  text.append("de", false);
  text.append("", true);
  text.append("f", false);
  const std::vector<TextSegment> expected = {{"abc", true}, {"def", false}};
  EXPECT_EQ(text.segments(), expected);
}

TEST(JinjaText, PartsKeepTheirOrigin) {
  Text text("ab", true);
  text.append("cd", false);
  text.append("ef", true);
  const std::vector<TextSegment> middle = {{"b", true}, {"cd", false}, {"e", true}};
  EXPECT_EQ(text.substr(1, 5).segments(), middle);
  EXPECT_TRUE(text.substr(3, 3).segments().empty());
  EXPECT_EQ(text.substr(4, 99).view(), "ef");
  EXPECT_TRUE(text.is_template_at(1));
  EXPECT_FALSE(text.is_template_at(2));
  EXPECT_TRUE(text.is_template_at(4));
}

}  // namespace
}  // namespace quire::jinja
