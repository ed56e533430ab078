// How few tokens end a text, and that who keeps to it can always end.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/grammar/json_schema.h"
#include "text/grammar/matcher_test_support.h"

namespace quire {
namespace {

CompiledPtr compiled_schema(std::string_view schema) {
  GrammarBudget budget;
  return compiled(json_schema_grammar(schema, JsonSchemaOptions(), budget));
}

std::uint32_t tokens_to_end(GrammarMatcher& matcher) {
  const auto tokens = matcher.tokens_to_end();
  EXPECT_TRUE(tokens.ok() && *tokens) << tokens.status().to_string();
  return tokens.ok() && *tokens ? **tokens : 0;
}

// Random tokens out of those behind which the text can be closed with what is left.
void close_within(const CompiledPtr& grammar, std::uint32_t room, unsigned seed) {
  std::mt19937 random(seed);
  GrammarMatcher matcher(grammar);
  std::string text;
  for (std::uint32_t left = room;; --left) {
    ASSERT_LE(tokens_to_end(matcher), left) << text;
    std::vector<std::uint32_t> words = mask_of(matcher);
    if (left == 0) {
      ASSERT_TRUE(matcher.can_end()) << text;
      return;
    }
    ASSERT_TRUE(matcher.keep_closable(left - 1, words).ok());
    std::vector<TokenId> tokens = tokens_of(words);
    // The end is no way on.
    std::erase_if(tokens, [&](TokenId id) { return vocabulary()->is_end(id); });
    if (tokens.empty()) {
      ASSERT_TRUE(matcher.can_end()) << text;
      return;
    }
    const TokenId token = tokens[random() % tokens.size()];
    ASSERT_TRUE(matcher.accept(token));
    text += vocabulary()->bytes(token);
  }
}

TEST(ParseClosing, CountsTheTokensOfTheShortestText) {
  const auto first = [](const Result<Grammar>& grammar) {
    GrammarMatcher matcher(compiled(grammar));
    return tokens_to_end(matcher);
  };
  EXPECT_EQ(first(ebnf("root ::= \"\"")), 0U);
  EXPECT_EQ(first(ebnf("root ::= \"x\" | \"yyyy\"")), 1U);
  EXPECT_EQ(first(ebnf("root ::= \"abab\"")), 1U);    // a token
  EXPECT_EQ(first(ebnf("root ::= \"ababab\"")), 2U);  // two
  EXPECT_EQ(first(ebnf("root ::= \"(\" root \")\" | \"hello world\"")), 2U);
  EXPECT_EQ(first(ebnf("root ::= a a\na ::= \"\" | \"x\" a")), 0U);
  EXPECT_EQ(first(ebnf("root ::= <s> \"x\" <s>")), 3U);  // tokens by name
}

TEST(ParseClosing, FallsByOneTokenAtATime) {
  const CompiledPtr grammar =
      compiled(ebnf("root ::= \"{\" pair (\",\" pair)* \"}\"\npair ::= [a-z]{3,} \":\" (root | "
                    "\"true\" | [0-9]{4})"));
  GrammarMatcher matcher(grammar);
  ASSERT_TRUE(matcher.accept_text("{abc:{hello:{ab"));
  for (std::uint32_t left = tokens_to_end(matcher); left > 0; --left) {
    std::vector<std::uint32_t> words = mask_of(matcher);
    ASSERT_TRUE(matcher.keep_closable(left - 1, words).ok());
    const std::vector<TokenId> tokens = tokens_of(words);
    ASSERT_FALSE(tokens.empty());
    ASSERT_TRUE(matcher.accept(tokens.front()));
    ASSERT_LE(tokens_to_end(matcher), left - 1);
  }
  EXPECT_TRUE(matcher.can_end());
}

TEST(ParseClosing, WhoKeepsToItEndsInTime) {
  const std::vector<CompiledPtr> grammars = {
      compiled(ebnf("root ::= \"(\" root \")\" | root root | \"ab\" | \"\"")),
      compiled(ebnf("root ::= (\"a\" | \"bb\" root \"b\")* \"aab\"")),
      compiled(ebnf("root ::= <s> [a-z]* (<s> \"hello\")+")),
      compiled_schema(R"({"type": "object", "properties": {"a": {"type": "array", "items": {
          "type": "string", "minLength": 2}}, "b": {"$ref": "#"}, "c": {"type": "number"}},
          "required": ["a", "c"]})")};
  for (const CompiledPtr& grammar : grammars) {
    GrammarMatcher matcher(grammar);
    const std::uint32_t least = tokens_to_end(matcher);
    for (unsigned seed = 0; seed < 12; ++seed) close_within(grammar, least + seed * seed, seed);
  }
}

TEST(ParseClosing, SaysWhereNothingClosesInTime) {
  const CompiledPtr grammar = compiled(ebnf("root ::= [a-z]{10001}"));
  GrammarMatcher matcher(grammar);
  const auto tokens = matcher.tokens_to_end();
  ASSERT_TRUE(tokens.ok()) << tokens.status().to_string();
  EXPECT_FALSE(tokens->has_value());
}

}  // namespace
}  // namespace quire
