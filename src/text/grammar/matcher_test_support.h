// What tests of matchers have in common: a vocabulary, and walks whose texts a second recognizer
// checks.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/grammar/grammar_matcher.h"
#include "text/grammar/grammar_test_support.h"
#include "text/grammar/grammar_text.h"

namespace quire {

using VocabularyPtr = std::shared_ptr<const GrammarVocabulary>;
using CompiledPtr = std::shared_ptr<const CompiledGrammar>;

// All bytes, some pieces with whatever a grammar may have at their seams, two alike, one without
// bytes, and special tokens: <s> and one that ends.
inline VocabularyPtr test_vocabulary() {
  std::vector<GrammarVocabulary::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({.bytes = std::string(1, static_cast<char>(byte)), .name = ""});
  }
  for (const char* piece : {"aa",
                            "ab",
                            "ba",
                            "aba",
                            "bbb",
                            "abab",
                            "aab",
                            "{\"",
                            "\":",
                            "\",\"",
                            "\"}",
                            "},{",
                            "true",
                            "false",
                            "null",
                            "hello",
                            " hello",
                            " world",
                            "hello\"",
                            ".\"",
                            "\\\"",
                            "\\n",
                            "12",
                            "345",
                            "-1",
                            "0.5",
                            "e+",
                            ", ",
                            "\": \"",
                            "\",\n ",
                            "\n  ",
                            "\xC3",
                            "\xA9",
                            "\u00E9t\u00E9",
                            "\u20AC\xE2\x82",
                            "aa",
                            "<",
                            "</s>",
                            " a longer piece of plain text, without an end"}) {
    tokens.push_back({.bytes = piece, .name = piece});
  }
  tokens.push_back({.bytes = "", .name = "empty"});
  tokens.push_back({.bytes = "", .name = "<s>"});
  tokens.push_back({.bytes = "</s>", .name = "<end>", .is_end = true});
  return GrammarVocabulary::create(tokens, tokens.size() + 40);
}

inline const VocabularyPtr& vocabulary() {
  static const VocabularyPtr made = test_vocabulary();
  return made;
}

inline CompiledPtr compiled(const Result<Grammar>& grammar, const GrammarLimits& limits = {}) {
  EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
  if (!grammar.ok()) return nullptr;
  Result<CompiledPtr> result = compile_grammar(*grammar, vocabulary(), limits);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *std::move(result) : nullptr;
}

inline Result<Grammar> ebnf(std::string_view text) {
  GrammarBudget budget;
  return ebnf_grammar(text, budget);
}

inline std::vector<std::uint32_t> mask_of(GrammarMatcher& matcher) {
  std::vector<std::uint32_t> words(vocabulary()->mask_words(), 0xDEADBEEF);
  const Status status = matcher.fill_mask(words);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return words;
}

inline bool has(const std::vector<std::uint32_t>& words, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  return (words[id / 32] >> (id % 32) & 1) != 0;
}

inline std::vector<TokenId> tokens_of(const std::vector<std::uint32_t>& words) {
  std::vector<TokenId> tokens;
  for (std::size_t id = 0; id < words.size() * 32; ++id) {
    if (has(words, static_cast<TokenId>(id))) tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

// The mask is what accept() accepts, token by token.
inline void expect_mask_agrees(GrammarMatcher& matcher) {
  const std::vector<std::uint32_t> words = mask_of(matcher);
  for (TokenId id = 0; id < static_cast<TokenId>(words.size() * 32); ++id) {
    ASSERT_EQ(has(words, id), matcher.allows(id)) << "token " << id;
    GrammarMatcher fork = matcher;
    ASSERT_EQ(has(words, id), fork.accept(id)) << "token " << id;
  }
}

// Follows random tokens of the mask; then ends as soon as it can.
inline void walk_randomly(const Grammar& grammar, const CompiledPtr& compiled_grammar,
                          unsigned seed, bool check_masks) {
  std::mt19937 random(seed);
  GrammarMatcher matcher(compiled_grammar);
  std::string text;
  for (int step = 0; step < 400; ++step) {
    if (check_masks && step < 6) expect_mask_agrees(matcher);
    std::vector<TokenId> tokens = tokens_of(mask_of(matcher));
    ASSERT_FALSE(tokens.empty()) << text;
    const bool can_end = matcher.can_end();
    if (can_end && (step > 8 || random() % 4 == 0)) {
      ASSERT_TRUE(vocabulary()->is_end(tokens.back())) << "the end is the last token's id";
      ASSERT_TRUE(matcher.accept(tokens.back()));
      ASSERT_TRUE(matcher.is_finished());
      ASSERT_TRUE(reference_matches(grammar, text)) << "seed " << seed << ": " << text;
      return;
    }
    ASSERT_EQ(can_end, vocabulary()->is_end(tokens.back())) << text;
    if (can_end) tokens.pop_back();
    if (tokens.empty()) continue;
    const TokenId token = tokens[random() % tokens.size()];
    ASSERT_TRUE(matcher.accept(token));
    text += vocabulary()->bytes(token);
  }
}

// A text of the grammar, cut at random into tokens.
inline void accept_randomly(const CompiledPtr& compiled_grammar, const std::string& text,
                            unsigned seed) {
  std::mt19937 random(seed);
  GrammarMatcher matcher(compiled_grammar);
  for (std::size_t at = 0; at < text.size();) {
    std::vector<TokenId> fitting;
    for (TokenId id = 0; id < static_cast<TokenId>(vocabulary()->size()); ++id) {
      const std::string_view bytes = vocabulary()->bytes(id);
      if (!bytes.empty() && std::string_view(text).substr(at).starts_with(bytes)) {
        fitting.push_back(id);
      }
    }
    const std::vector<std::uint32_t> words = mask_of(matcher);
    for (const TokenId id : fitting) ASSERT_TRUE(has(words, id)) << text << " at " << at;
    const TokenId token = fitting[random() % fitting.size()];
    ASSERT_TRUE(matcher.accept(token)) << text << " at " << at;
    at += vocabulary()->bytes(token).size();
  }
  ASSERT_TRUE(matcher.can_end()) << text;
}

inline constexpr const char* kJson = R"(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair ::= string ws ":" ws value ws
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f\x7f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\n\r]*
)";

}  // namespace quire
