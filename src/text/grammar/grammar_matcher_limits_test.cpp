// What matchers keep, share and refuse.
#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/cpu_time.h"
#include "text/grammar/matcher_test_support.h"

namespace quire {
namespace {

TEST(GrammarMatcherLimits, WhatIsKeptDecidesNothing) {
  GrammarLimits small;
  small.max_cache_bytes = 20'000;
  const Result<Grammar> grammar = ebnf(kJson);
  const CompiledPtr often_new = compiled(grammar, small);
  const CompiledPtr usual = compiled(grammar);
  std::mt19937 random(3);
  std::vector<GrammarMatcher> pair = {GrammarMatcher(often_new), GrammarMatcher(usual)};
  for (int step = 0; step < 600; ++step) {
    const std::vector<std::uint32_t> mask = mask_of(pair[0]);
    ASSERT_EQ(mask, mask_of(pair[1])) << step;
    const std::vector<TokenId> tokens = tokens_of(mask);
    const TokenId token = tokens[random() % tokens.size()];
    if (vocabulary()->is_end(token) || random() % 20 == 0) {
      const std::size_t count = pair[0].num_accepted() / 2;
      for (GrammarMatcher& matcher : pair) matcher.rollback(count);
      continue;
    }
    for (GrammarMatcher& matcher : pair) ASSERT_TRUE(matcher.accept(token));
  }
}

TEST(GrammarMatcherLimits, ManyThreadsFollowOneGrammar) {
  GrammarLimits small;
  small.max_cache_bytes = 50'000;
  const Result<Grammar> grammar = ebnf(kJson);
  const CompiledPtr shared = compiled(grammar, small);
  std::vector<std::vector<TokenId>> results(4);
  {
    std::vector<std::jthread> threads;
    for (std::vector<TokenId>& result : results) {
      threads.emplace_back([&result, &shared] {
        std::mt19937 random(11);
        GrammarMatcher matcher(shared);
        for (int step = 0; step < 200; ++step) {
          const std::vector<TokenId> tokens = tokens_of(mask_of(matcher));
          const TokenId token = tokens[random() % tokens.size()];
          if (vocabulary()->is_end(token)) break;
          if (!matcher.accept(token)) break;
          result.push_back(token);
        }
      });
    }
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_FALSE(results[0].empty());
}

TEST(GrammarMatcherLimits, TooDeepNestingIsMaskedAndCanAlwaysEnd) {
  GrammarLimits limits;
  limits.max_depth = 12;
  const Result<Grammar> grammar =
      ebnf("root ::= x\nx ::= \"(\" y \")\" | \"a\"\ny ::= x | x \",\" x");
  const CompiledPtr made = compiled(grammar, limits);
  GrammarMatcher deepest(made);
  int depth = 0;
  while (deepest.accept('(')) ++depth;
  EXPECT_GT(depth, 2);
  EXPECT_LE(depth, 12);
  EXPECT_TRUE(deepest.accept('a'));
  for (int i = 0; i < depth; ++i) EXPECT_TRUE(deepest.accept(')')) << i;
  EXPECT_TRUE(deepest.can_end());
  for (unsigned seed = 0; seed < 20; ++seed) walk_randomly(*grammar, made, seed, false);
  limits.max_depth = 1;
  const Status status = compile_grammar(*grammar, vocabulary(), limits).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("max_depth"), std::string::npos) << status.message();
}

TEST(GrammarMatcherLimits, LimitsWhileFollowingAreNamed) {
  GrammarLimits limits;
  limits.max_set_items = 5;
  GrammarMatcher ambiguous(
      compiled(ebnf("root ::= x x\nx ::= x x | y x | y\ny ::= \"a\" x? \"b\" | x"), limits));
  std::vector<std::uint32_t> words(vocabulary()->mask_words());
  const Status status = ambiguous.fill_mask(words);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.to_string();
  EXPECT_NE(status.message().find("max_set_items"), std::string::npos) << status.message();

  // No token has these bytes.
  const std::vector<GrammarVocabulary::Token> letters = {{.bytes = "a", .name = "a"}};
  const Result<CompiledPtr> made =
      compile_grammar(*ebnf("root ::= \"ab\""), GrammarVocabulary::create(letters));
  GrammarMatcher matcher(*made);
  EXPECT_TRUE(matcher.accept(0));
  std::vector<std::uint32_t> word(1);
  EXPECT_EQ(matcher.fill_mask(word).code(), StatusCode::kInvalidArgument);
}

// What compiling may be asked for by a request: each ends in a limit's name, soon.
TEST(GrammarMatcherLimits, HostileGrammarsEndInANamedLimit) {
  const auto status_of = [](const Result<Grammar>& grammar) {
    if (!grammar.ok()) return grammar.status();
    return compile_grammar(*grammar, vocabulary()).status();
  };
  std::string nested = "root ::= a0\n";
  for (int i = 0; i < 30; ++i) {
    const std::string next = "a" + std::to_string(i + 1);
    nested += "a" + std::to_string(i) + " ::= " + next + " " + next + "\n";
  }
  nested += "a30 ::= [a-z]";
  for (const std::string& source :
       {std::string("root ::= ((([a-z]{99} x){99}){99}){99}\nx ::= \"(\" root \")\" | \"\""),
        std::string("root ::= x{99999999}\nx ::= \"(\" x \")\" | \"a\""),
        std::string("root ::= ([ab]* \"a\" [ab]{40}) | \"c\" root \"d\"")}) {
    const auto begin = thread_cpu_time();
    const Status status = status_of(ebnf(source));
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << source << status.to_string();
    EXPECT_NE(status.message().find("limit max_"), std::string::npos) << status.message();
    EXPECT_LT(thread_cpu_time() - begin, std::chrono::seconds(10)) << source;
  }
  // Two to the thirtieth letters, by rules that are small: no limit is hit, and none has to be.
  const CompiledPtr long_text = compiled(ebnf(nested));
  ASSERT_NE(long_text, nullptr);
  GrammarMatcher matcher(long_text);
  EXPECT_TRUE(matcher.accept_text("abcdefghijklmnopqrstuvwxyz"));
  EXPECT_FALSE(matcher.can_end());
}

}  // namespace
}  // namespace quire
