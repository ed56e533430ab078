// Words that only merges say the ends of: text that is cut at them has the tokens that it has
// whole.
#include "text/merged_words.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace quire {
namespace merged_words_test {

const std::string kSpace(kSpaceSymbol);

std::unique_ptr<const Tokenizer> create(VocabData data) {
  auto tokenizer = Tokenizer::create(std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::size_t below(std::mt19937_64& random, std::size_t count) { return random() % count; }

std::string joined(std::mt19937_64& random, const std::vector<std::string>& parts,
                   std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += parts[below(random, parts.size())];
  return text;
}

// Made-up tokens of a few characters, runs of spaces often among them, with scores or merges.
VocabData vocabulary(std::mt19937_64& random) {
  VocabData data;
  data.style = BpeStyle::kCharacters;
  data.tokens = {"<unk>", "a", "b", "\xE2\x82\xAC", kSpace, kSpace + kSpace};
  data.unk_id = 0;
  data.normalizers = {{.kind = NormalizerStep::Kind::kPrepend, .content = kSpace},
                      {.kind = NormalizerStep::Kind::kReplace,
                       .pattern = {" ", /*is_regex=*/false},
                       .content = kSpace}};
  std::vector<BpeMerge> merges = {{kSpace, kSpace}};
  for (int tries = 0; tries < 12; ++tries) {
    const auto any = [&] { return data.tokens[1 + below(random, data.tokens.size() - 1)]; };
    const BpeMerge merge = {any(), any()};
    const bool to_space = !merge.left.ends_with(kSpace) && merge.right.starts_with(kSpace);
    std::string token = merge.left + merge.right;
    if (to_space || token.size() > 24 || std::ranges::count(data.tokens, token) != 0) continue;
    merges.push_back(merge);
    data.tokens.push_back(std::move(token));
  }
  if (below(random, 2) == 0) {
    std::ranges::shuffle(merges, random);
    data.merges = std::move(merges);
  } else {
    for (std::size_t i = 0; i < data.tokens.size(); ++i) {
      data.scores.push_back(-static_cast<float>(below(random, 6)));
    }
  }
  data.kinds.assign(data.tokens.size(), TokenKind::kNormal);
  data.kinds[0] = TokenKind::kUnknown;
  return data;
}

// The same with a token that no text here has, whose merge comes last and leads from another
// character to a space: then a text is one word, and is normalized.
VocabData without_cuts(VocabData data) {
  constexpr const char* kSnowman = "\xE2\x98\x83";
  data.tokens.emplace_back(kSnowman);
  data.tokens.push_back(kSnowman + kSpace);
  data.kinds.resize(data.tokens.size(), TokenKind::kNormal);
  if (data.scores.empty()) {
    data.merges.push_back({kSnowman, kSpace});
  } else {
    data.scores.resize(data.tokens.size(), -100);
  }
  return data;
}

TEST(MergedWords, HaveTheTokensOfTheWholeText) {
  std::mt19937_64 random(20261126);
  const std::vector<std::string> pieces = {" ",  "  ", "    ", kSpace, "a",    "b",
                                           "ab", "z",  "\n",   "\x81", "\xE2", "\xE2\x82\xAC"};
  for (int round = 0; round < 300; ++round) {
    const VocabData data = vocabulary(random);
    const auto cut = create(data);
    const auto whole = create(without_cuts(data));
    for (int i = 0; i < 60; ++i) {
      const std::string text = joined(random, pieces, 1 + below(random, 20));
      ASSERT_EQ(*cut->encode(text), *whole->encode(text)) << "vocabulary " << round << ": " << text;
    }
  }
}

TEST(MergedWords, EndBehindPairsOfSpacesIfTheseMergeFirst) {
  const std::string four = kSpace + kSpace + kSpace + kSpace;
  const auto first_end = [&](std::uint32_t pair, std::uint32_t other, bool joins_from_spaces) {
    MergedWords words;
    words.add(kSpace, kSpace, pair);
    words.add(kSpace, "a", other);
    if (joins_from_spaces) words.add(kSpace + kSpace, "a", 9);
    return words.end(four + "a", 0);
  };
  EXPECT_EQ(first_end(0, 1, false), four.size());
  EXPECT_EQ(first_end(1, 1, false), four.size() + 1);
  EXPECT_EQ(first_end(1, 0, false), four.size() + 1);
  EXPECT_EQ(first_end(0, 1, true), four.size() + 1);
}

TEST(MergedWords, ReadSpacesOnlyWhereTheyAreTold) {
  MergedWords words;
  words.add(kSpace, "a", 1);
  words.add("a", "a", 2);
  EXPECT_EQ(words.end(" a" + kSpace, 0), 1U);
  words.read_spaces();
  EXPECT_EQ(words.end(" a" + kSpace, 0), 2U);
  EXPECT_EQ(words.end(" " + kSpace + "aa b", 0), 6U);
}

}  // namespace merged_words_test
}  // namespace quire
