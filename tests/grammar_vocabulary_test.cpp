// Grammars with vocabularies as they are published: what comes of masks is of the grammar, by a
// reader of JSON that knows nothing of them; and how a tokenizer cuts a text of the grammar is
// allowed, at every token.
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "base/json.h"
#include "load/model_bundle.h"
#include "support/test_models.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/grammar_text.h"
#include "text/utf8.h"

namespace quire::test {
namespace {

constexpr std::string_view kJson = R"g(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}"
pair ::= string ws ":" ws value ws
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" char{0,40} "\""
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-cA-C] [0-9a-fA-F]{3})
number ::= "-"? ("0" | [1-9] [0-9]{0,8}) ("." [0-9]{1,9})? ([eE] [-+]? [0-9]{1,2})?
ws ::= [ \n]{0,8}
)g";

constexpr std::string_view kTexts[] = {
    R"({"name": "Ada Lovelace", "born": 1815, "notes": ["analytical", "engine"], "x": null})",
    "[true, false, -0.5e-3,\n  {\"k\": [1, 22, 333]}, \"caf\u00E9 \u20AC \U0001F600 \\\"q\\\" "
    "\\u00e9\"]",
    "\"\"",
    "{}",
    "[[[[]]],{\"a\":{\"b\":{}}}]",
    "12345.678"};

std::vector<std::string> vocabularies() {
  std::vector<std::string> paths = {smollm2(), gemma3_270m()};
  for (const char* name : {"falcon", "gpt-2", "llama-spm", "phi-3", "deepseek-coder"}) {
    paths.push_back(std::string(QUIRE_SOURCE_DIR "/../shared/data/tokenizers/ggml-vocab-") + name +
                    ".gguf");
  }
  return paths;
}

class GrammarVocabularyTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool shared = GetParam().find("/shared/") != std::string::npos;
    if (shared && !std::filesystem::exists(GetParam()))
      GTEST_SKIP() << GetParam() << " is not there";
    QUIRE_REQUIRE_FILE(GetParam());
    auto bundle = open_text(GetParam());
    ASSERT_TRUE(bundle.ok()) << bundle.status().to_string();
    bundle_ = std::move(*bundle);
    vocabulary_ = GrammarVocabulary::create(*bundle_.tokenizer);
    GrammarBudget budget;
    const auto grammar = ebnf_grammar(kJson, budget);
    ASSERT_TRUE(grammar.ok()) << grammar.status().to_string();
    auto compiled = compile_grammar(*grammar, vocabulary_);
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    json_ = *std::move(compiled);
  }

  TextBundle bundle_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::shared_ptr<const CompiledGrammar> json_;
};

TEST_P(GrammarVocabularyTest, WhatMasksLetThroughIsJson) {
  std::vector<std::uint32_t> words(vocabulary_->mask_words());
  int finished = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    GrammarMatcher matcher(json_);
    std::string text;
    for (int step = 0; step < 400; ++step) {
      const Status status = matcher.fill_mask(words);
      ASSERT_TRUE(status.ok()) << status.to_string() << " after " << text;
      std::vector<TokenId> allowed;
      for (std::size_t id = 0; id < vocabulary_->size(); ++id) {
        if ((words[id / 32] >> (id % 32) & 1) == 0) continue;
        const auto token = static_cast<TokenId>(id);
        if (vocabulary_->is_end(token)) continue;
        ASSERT_FALSE(bundle_.tokenizer->is_special(token)) << token;
        allowed.push_back(token);
      }
      if (matcher.can_end() && (allowed.empty() || random() % 2 == 0)) break;
      ASSERT_FALSE(allowed.empty()) << text;
      // Mostly what leads to an end: tokens of which few are allowed have quotes and brackets.
      TokenId token = allowed[random() % allowed.size()];
      for (const TokenId candidate : allowed) {
        const std::string_view bytes = vocabulary_->bytes(candidate);
        if (step > 60 && (bytes == "\"" || bytes == "]" || bytes == "}")) token = candidate;
      }
      ASSERT_TRUE(matcher.accept(token));
      text += bundle_.tokenizer->token_bytes(token);
    }
    if (!matcher.can_end()) continue;  // a cut
    ++finished;
    ASSERT_TRUE(is_valid_utf8(text)) << text;
    const auto value = parse_json(text, "the text", 2000);
    ASSERT_TRUE(value.ok()) << value.status().to_string() << "\n" << text;
  }
  EXPECT_GT(finished, 3);
}

TEST_P(GrammarVocabularyTest, HowATokenizerCutsATextIsAllowed) {
  std::vector<std::uint32_t> words(vocabulary_->mask_words());
  for (const std::string_view text : kTexts) {
    const auto tokens = bundle_.tokenizer->encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(tokens.ok());
    // What a model is given before may change how the first word is cut, and what its token adds.
    std::string joined;
    for (const TokenId token : *tokens) joined += bundle_.tokenizer->token_bytes(token);
    if (joined != text) continue;
    GrammarMatcher matcher(json_);
    for (const TokenId token : *tokens) {
      ASSERT_TRUE(matcher.fill_mask(words).ok());
      const auto id = static_cast<std::size_t>(token);
      ASSERT_NE(words[id / 32] >> (id % 32) & 1, 0U) << text << " token " << token;
      ASSERT_TRUE(matcher.accept(token)) << text << " token " << token;
    }
    ASSERT_TRUE(matcher.can_end()) << text;
  }
}

// Slices and walks over what is left say what each token alone says.
TEST_P(GrammarVocabularyTest, AMaskIsWhatEachTokenSays) {
  std::vector<std::uint32_t> words(vocabulary_->mask_words());
  for (const char* begin :
       {"", "{\"a", "{\"abc\": \"0123456789012345678901234567890123456", "[1"}) {
    GrammarMatcher matcher(json_);
    ASSERT_TRUE(matcher.accept_text(begin));
    ASSERT_TRUE(matcher.fill_mask(words).ok());
    for (std::size_t id = 0; id < vocabulary_->size(); ++id) {
      const bool in_mask = (words[id / 32] >> (id % 32) & 1) != 0;
      ASSERT_EQ(in_mask, matcher.allows(static_cast<TokenId>(id))) << begin << " token " << id;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Published, GrammarVocabularyTest, testing::ValuesIn(vocabularies()),
                         [](const auto& at) { return "vocabulary" + std::to_string(at.index); });

}  // namespace
}  // namespace quire::test
