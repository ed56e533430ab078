#include "text/jinja/lexer.h"

#include <string>

#include <gtest/gtest.h>

namespace quire::jinja {
namespace {

std::string data_of(std::string_view source) {
  const auto tokens = tokenize(source);
  EXPECT_TRUE(tokens.ok()) << tokens.status().to_string();
  std::string out;
  if (!tokens.ok()) return out;
  for (const Token& token : *tokens) {
    if (token.type == TokenType::kData) out += "[" + token.text + "]";
  }
  return out;
}

TEST(JinjaLexer, WhiteSpaceAroundStatements) {
  EXPECT_EQ(data_of("a\n  {% x %}  \nb"), "[a\n][  \nb]");
  EXPECT_EQ(data_of("a\n  {%+ x %}\nb"), "[a\n  ][b]");
  EXPECT_EQ(data_of("a\n  {%- x -%}\n  b"), "[a][b]");
  EXPECT_EQ(data_of("a {% x +%}\nb"), "[a ][\nb]");
  EXPECT_EQ(data_of("a {{ x }}\nb"), "[a ][\nb]");
  EXPECT_EQ(data_of("a\n  {{ x }}"), "[a\n  ]");
  EXPECT_EQ(data_of("a\n  {# x #}\nb"), "[a\n][b]");
}

TEST(JinjaLexer, LineBreaksAreNormalizedAndTheLastOneDropped) {
  EXPECT_EQ(data_of("a\r\nb\rc\n"), "[a\nb\nc]");
  EXPECT_EQ(data_of("a\n\n"), "[a\n]");
}

TEST(JinjaLexer, RawKeepsTags) {
  EXPECT_EQ(data_of("{% raw %}\n{{ x }}{% endraw %}\nb"), "[\n{{ x }}][b]");
  EXPECT_EQ(data_of("{% raw -%} {% y %} {%- endraw %}"), "[{% y %}]");
}

TEST(JinjaLexer, NumbersAndLines) {
  const auto tokens = tokenize("{{ 1_000 0x_1F\n1.5e1 }}");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(static_cast<int>((*tokens)[1].integer), 1000);
  EXPECT_EQ(static_cast<int>((*tokens)[2].integer), 31);
  EXPECT_EQ((*tokens)[3].number, 15.0);
  EXPECT_EQ((*tokens)[1].line, 1);
  EXPECT_EQ((*tokens)[3].line, 2);
}

TEST(JinjaLexer, BracketsHideEndTags) {
  const auto tokens = tokenize("{{ {'a': {}}}}");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->size(), 9U);
  EXPECT_FALSE(tokenize("{{ (] }}").ok());
  EXPECT_FALSE(tokenize("{{ ) }}").ok());
}

TEST(JinjaLexer, Escapes) {
  EXPECT_EQ(*unescape(R"(a\n\x41\u00e9\101\q\'\\)", 1),
            "a\nA\xC3\xA9"
            "A\\q'\\");
  EXPECT_EQ(*unescape("\\\xC3\xA9", 1), "\\xe9");
  EXPECT_FALSE(unescape(R"(\xZ)", 1).ok());
  EXPECT_FALSE(unescape(R"(\ud83d)", 1).ok());
  EXPECT_FALSE(unescape(R"(\N{BULLET})", 1).ok());
}

TEST(JinjaLexer, ErrorsNameTheLine) {
  EXPECT_EQ(tokenize("\n{{ 'a }}").status().message(), "line 2: string without its closing quote");
  EXPECT_EQ(tokenize("\n\n{# a").status().message(), "line 3: missing end of comment tag");
  EXPECT_EQ(tokenize("{{ $ }}").status().message(), "line 1: unexpected character '$'");
}

}  // namespace
}  // namespace quire::jinja
