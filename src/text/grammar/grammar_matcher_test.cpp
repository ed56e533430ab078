// Matchers: their masks are sound and complete, by a recognizer that knows nothing of them.
#include "text/grammar/grammar_matcher.h"

#include <functional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "text/grammar/matcher_test_support.h"

namespace quire {
namespace {

constexpr const char* kGrammars[] = {
    "root ::= \"a\"",
    "root ::= \"\"",
    "root ::= \"a\"* \"b\"",
    "root ::= root \"a\" | \"b\"",                           // on the left
    "root ::= \"a\" root | \"b\"",                           // on the right
    "root ::= \"a\" root \"b\" | \"\"",                      // in the middle
    "root ::= root root | \"a\"",                            // ambiguous without end
    "root ::= root root | root \"b\" root | \"a\" | \"\"",   // the same, and empty
    "root ::= x\nx ::= y \"a\" | \"b\"\ny ::= x | y \"b\"",  // indirectly on the left
    "root ::= x y\nx ::= \"a\"?\ny ::= x x | \"b\" root?",   // empty parts
    "root ::= x | y\nx ::= \"a\" x \"b\" | \"ab\"\ny ::= \"a\" y \"bb\" | \"abb\"",
    "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"\"",  // palindromes
    "root ::= x x\nx ::= x \"a\" | \"a\" x | \"b\"",
    "root ::= (\"a\" | \"ab\") (\"b\" | \"bb\")? root?",
    "root ::= ([ab]{2,3} - \"ab\")+",
    "root ::= x\nx ::= x",  // nothing at all: refused
    "root ::= x \"b\"\nx ::= y\ny ::= z*\nz ::= \"a\" | x \"a\" x",
    "root ::= y{2,3}\ny ::= \"a\" y? \"b\"",
};

// Exact on all short texts: what may come next is what some text goes on with.
TEST(GrammarMatcher, FollowsContextFreeGrammarsExactly) {
  const std::vector<std::string> texts = all_texts("ab", 7);
  for (const char* source : kGrammars) {
    SCOPED_TRACE(source);
    const Result<Grammar> grammar = ebnf(source);
    ASSERT_TRUE(grammar.ok()) << grammar.status().to_string();
    std::set<std::string> prefixes;
    std::set<std::string> members;
    for (const std::string& text : texts) {
      if (!reference_matches(*grammar, text)) continue;
      members.insert(text);
      for (std::size_t size = 0; size <= text.size(); ++size) prefixes.insert(text.substr(0, size));
    }
    const Result<CompiledPtr> made = compile_grammar(*grammar, vocabulary());
    if (members.empty()) {
      EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << made.status().to_string();
      continue;
    }
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    for (const std::string& text : texts) {
      GrammarMatcher matcher(*made);
      const bool accepted = matcher.accept_text(text);
      ASSERT_EQ(accepted && matcher.can_end(), members.contains(text)) << text;
      ASSERT_TRUE(accepted || !prefixes.contains(text)) << text;
      // Texts of up to 2 letters that go on at all do so within 7 in these grammars.
      ASSERT_TRUE(text.size() > 2 || accepted == prefixes.contains(text)) << text;
    }
    for (unsigned seed = 0; seed < 10; ++seed) walk_randomly(*grammar, *made, seed, seed < 3);
    unsigned seed = 0;
    for (const std::string& text : members) accept_randomly(*made, text, seed++);
  }
}

TEST(GrammarMatcher, FollowsJson) {
  const Result<Grammar> grammar = ebnf(kJson);
  const CompiledPtr json = compiled(grammar);
  ASSERT_NE(json, nullptr);
  for (unsigned seed = 0; seed < 30; ++seed) walk_randomly(*grammar, json, seed, seed < 4);
  unsigned seed = 0;
  for (const char* text :
       {R"({"hello": "hello world", "a": [1, -12.5e+3, true, false, null, {}], "": ""})",
        "[\n  \"\u00E9t\u00E9 \u20AC\u20AC\", \"a \\\"quote\\\" \\u00e9\\n\" ]", "0.5", "\"\"",
        "{\"\":{\"\":{\"\":[[[]]]}}}"}) {
    for (int i = 0; i < 10; ++i) accept_randomly(json, text, seed++);
  }
}

TEST(GrammarMatcher, RandomGrammarsAreFollowedExactly) {
  const std::vector<std::string> texts = all_texts("ab", 5);
  int followed = 0;
  for (unsigned seed = 0; seed < 250; ++seed) {
    std::mt19937 random(seed);
    GrammarBudget budget;
    GrammarBuilder builder(budget);
    std::vector<RuleId> rules;
    for (int i = 0; i < 3; ++i) rules.push_back(builder.add_rule("r" + std::to_string(i)));
    const std::function<ExprId(int)> expression = [&](int depth) -> ExprId {
      switch (random() % (depth == 0 ? 4 : 8)) {
        case 0:
          return builder.literal("a");
        case 1:
          return builder.literal("b");
        case 2:
          return builder.literal(random() % 3 == 0 ? "" : "ab");
        case 3:
          return builder.rule(rules[random() % rules.size()]);
        case 4:
          return builder.repeat(expression(depth - 1), random() % 2, random() % 2 + 1);
        case 5:
          return builder.choice({expression(depth - 1), expression(depth - 1)});
        default:
          return builder.seq({expression(depth - 1), expression(depth - 1)});
      }
    };
    for (const RuleId rule : rules) {
      builder.define(rule, builder.choice({expression(2), expression(1)}));
    }
    const Result<Grammar> grammar = builder.build(rules[0]);
    ASSERT_TRUE(grammar.ok());
    const Result<CompiledPtr> made = compile_grammar(*grammar, vocabulary());
    if (!made.ok()) {
      ASSERT_EQ(made.status().code(), StatusCode::kInvalidArgument);
      for (const std::string& text : texts) ASSERT_FALSE(reference_matches(*grammar, text)) << seed;
      continue;
    }
    ++followed;
    for (const std::string& text : texts) {
      GrammarMatcher matcher(*made);
      const bool accepted = matcher.accept_text(text) && matcher.can_end();
      ASSERT_EQ(accepted, reference_matches(*grammar, text)) << "seed " << seed << ": " << text;
    }
    walk_randomly(*grammar, *made, seed, true);
  }
  EXPECT_GT(followed, 150);
}

TEST(GrammarMatcher, TakesTokensBack) {
  const CompiledPtr json = compiled(ebnf(kJson));
  std::mt19937 random(7);
  GrammarMatcher matcher(json);
  std::vector<std::vector<std::uint32_t>> masks;
  for (int step = 0; step < 200; ++step) {
    masks.push_back(mask_of(matcher));
    const std::vector<TokenId> tokens = tokens_of(masks.back());
    ASSERT_TRUE(matcher.accept(tokens[random() % tokens.size()]));
    if (random() % 3 == 0) {
      const std::size_t count = random() % (matcher.num_accepted() + 1);
      matcher.rollback(count);
      masks.resize(masks.size() - count);
      masks.push_back(mask_of(matcher));
      GrammarMatcher again(json);
      ASSERT_EQ(masks.size(), matcher.num_accepted() + 1);
      ASSERT_EQ(masks.front(), mask_of(again));
      masks.pop_back();
    }
    ASSERT_EQ(masks.size(), matcher.num_accepted());
  }
  matcher.rollback(matcher.num_accepted());
  GrammarMatcher fresh(json);
  EXPECT_EQ(mask_of(matcher), mask_of(fresh));
}

TEST(GrammarMatcher, TheEndIsTakenBackToo) {
  const CompiledPtr made = compiled(ebnf("root ::= \"a\""));
  GrammarMatcher matcher(made);
  const TokenId end = vocabulary()->end_ids()[0];
  EXPECT_FALSE(matcher.accept(end));
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(matcher.must_end());
  EXPECT_TRUE(matcher.accept(end));
  EXPECT_TRUE(matcher.is_finished());
  EXPECT_FALSE(matcher.accept('a'));
  EXPECT_EQ(tokens_of(mask_of(matcher)), std::vector<TokenId>{end});
  matcher.rollback(1);
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_EQ(tokens_of(mask_of(matcher)), std::vector<TokenId>{end});
  matcher.rollback(1);
  EXPECT_EQ(tokens_of(mask_of(matcher)), std::vector<TokenId>{'a'});
}

TEST(GrammarMatcher, SpecialTokensAreNeverText) {
  // The text of <end> is "</s>" and so is that of an ordinary token.
  const CompiledPtr text = compiled(ebnf("root ::= \"</s>\" \"<s>\""));
  GrammarMatcher matcher(text);
  const TokenId end = vocabulary()->end_ids()[0];
  const TokenId begin = *vocabulary()->find("<s>");
  EXPECT_FALSE(has(mask_of(matcher), end));
  EXPECT_TRUE(has(mask_of(matcher), *vocabulary()->find("</s>")));
  EXPECT_TRUE(matcher.accept_text("</s>"));
  EXPECT_FALSE(has(mask_of(matcher), begin));
  EXPECT_FALSE(matcher.accept(begin));

  const CompiledPtr token = compiled(ebnf("root ::= \"a\" <s> \"b\""));
  GrammarMatcher follows(token);
  EXPECT_TRUE(follows.accept('a'));
  EXPECT_EQ(follows.forced_token(), begin);
  EXPECT_EQ(tokens_of(mask_of(follows)), std::vector<TokenId>{begin});
  EXPECT_FALSE(follows.accept_text("<s>"));
  EXPECT_TRUE(follows.accept(begin));
  EXPECT_EQ(follows.forced_text(), "b");

  const Status missing = compile_grammar(*ebnf("root ::= <|nobody|>"), vocabulary()).status();
  EXPECT_EQ(missing.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(missing.message().find("<|nobody|>"), std::string::npos);
  EXPECT_EQ(compile_grammar(*ebnf("root ::= <[9999]>"), vocabulary()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(GrammarMatcher, ForcedTextEndsWhereThereIsAChoice) {
  const CompiledPtr made = compiled(ebnf("root ::= \"name: \" (\"Ann\" | \"Anton\") \"!\""));
  GrammarMatcher matcher(made);
  EXPECT_EQ(matcher.forced_text(), "name: An");
  EXPECT_EQ(matcher.forced_text(3), "nam");
  EXPECT_TRUE(matcher.accept_text("name: Ant"));
  EXPECT_EQ(matcher.forced_text(), "on!");
  EXPECT_TRUE(matcher.accept_text("on!"));
  EXPECT_EQ(matcher.forced_text(), "");
  // To end is a choice.
  GrammarMatcher optional_end(compiled(ebnf("root ::= \"a\" \"b\"?")));
  EXPECT_EQ(optional_end.forced_text(), "a");
}

}  // namespace
}  // namespace quire
