#include "apps/terminal.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(WithoutControlCharacters, TextStaysAndControlsShow) {
  EXPECT_EQ(without_control_characters("Grüße,\n\t日本 👍"), "Grüße,\n\t日本 👍");
  EXPECT_EQ(without_control_characters("\x1b[2J\r\x07\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(without_control_characters("\xC2\x9B"
                                       "2J\xC2\xA0"),
            "\\x9b2J\xC2\xA0");
  EXPECT_EQ(without_control_characters(std::string_view("\0", 1)), "\\x00");
}

}  // namespace
}  // namespace quire
