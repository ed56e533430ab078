#include "apps/chat/line_source.h"

#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using Kind = InputLine::Kind;

InputLine line(std::string text) { return {.kind = Kind::kLine, .text = std::move(text)}; }

// Gives lines that a test has written down, then the end; notes the prompts.
class ScriptedLines final : public LineSource {
 public:
  explicit ScriptedLines(std::deque<InputLine> lines) : lines_(std::move(lines)) {}

  Result<InputLine> read(const std::string& prompt) override {
    prompts += prompt;
    if (lines_.empty()) return InputLine{.kind = Kind::kEnd, .text = {}};
    InputLine next = lines_.front();
    lines_.pop_front();
    return next;
  }

  void remember(const std::string& text) override { remembered.push_back(text); }

  std::string prompts;
  std::vector<std::string> remembered;

 private:
  std::deque<InputLine> lines_;
};

UserInput input_of(std::deque<InputLine> lines) {
  ScriptedLines source(std::move(lines));
  return read_input(source).value();
}

TEST(ReadInput, WhatIsRememberedComesBackWhole) {
  ScriptedLines source(
      {line("one\\"), line("two"), line("\"\"\"/a"), line("b\"\"\""), line(" x ")});
  std::vector<UserInput> entered;
  for (int i = 0; i < 3; ++i) entered.push_back(read_input(source).value());
  EXPECT_THAT(source.remembered, testing::ElementsAre("one\ntwo", "\"\"\"/a\nb\"\"\"", "x"));
  for (std::size_t i = 0; i < entered.size(); ++i) {
    const UserInput again = input_of({line(source.remembered[i])});
    EXPECT_EQ(again.text, entered[i].text);
    EXPECT_EQ(again.quoted, entered[i].quoted);
  }
}

TEST(ReadInput, OneLineIsTrimmed) {
  const UserInput input = input_of({line("  hello\tyou \t")});
  EXPECT_EQ(input.kind, Kind::kLine);
  EXPECT_EQ(input.text, "hello\tyou");
  EXPECT_FALSE(input.quoted);
  EXPECT_EQ(input_of({line(" ")}).text, "");
}

TEST(ReadInput, BackslashesGoOn) {
  ScriptedLines source({line("a\\"), line("  b\\"), line("c"), line("d")});
  EXPECT_EQ(read_input(source)->text, "a\n  b\nc");
  EXPECT_EQ(source.prompts, "> ... ... ");
  EXPECT_EQ(read_input(source)->text, "d");
  EXPECT_EQ(read_input(source)->kind, Kind::kEnd);
}

TEST(ReadInput, QuotesHoldAnything) {
  const UserInput block =
      input_of({line("\"\"\""), line("/a\\"), line(""), line("b "), line("\"\"\"")});
  EXPECT_EQ(block.text, "/a\\\n\nb ");
  EXPECT_TRUE(block.quoted);
  EXPECT_EQ(input_of({line("\"\"\"a"), line("b\"\"\"")}).text, "a\nb");
  EXPECT_EQ(input_of({line("\"\"\"/help\"\"\"")}).text, "/help");
  EXPECT_TRUE(input_of({line("\"\"\"/help\"\"\"")}).quoted);
  EXPECT_EQ(input_of({line("\"\"\""), line("\"\"\"")}).text, "");
}

TEST(ReadInput, InterruptsDropTheMessage) {
  const InputLine interrupt = {.kind = Kind::kInterrupted, .text = {}};
  EXPECT_EQ(input_of({interrupt}).kind, Kind::kInterrupted);
  EXPECT_FALSE(input_of({interrupt}).typed);
  EXPECT_TRUE(input_of({{.kind = Kind::kInterrupted, .text = {}, .typed = true}}).typed);
  for (const char* begin : {"a\\", "\"\"\"a"}) {
    const UserInput input = input_of({line(begin), interrupt});
    EXPECT_EQ(input.kind, Kind::kInterrupted);
    EXPECT_TRUE(input.typed);
  }
}

TEST(ReadInput, WhatCannotBeAMessage) {
  const std::string long_line(LineSource::kMaxLineBytes / 2 + 1, 'x');
  for (const auto& lines : {std::deque<InputLine>{line("a\\")},
                            {line("\"\"\"a")},
                            {line("\xC3")},
                            {line(long_line + "\\"), line(long_line)}}) {
    ScriptedLines source(lines);
    const auto input = read_input(source);
    ASSERT_FALSE(input.ok());
    EXPECT_EQ(input.status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace quire
