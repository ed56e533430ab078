#include "draft/token_index.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

using Match = TokenIndex::Match;

std::vector<TokenId> tokens_of(std::string_view text) { return {text.begin(), text.end()}; }

std::vector<TokenId> random_tokens(std::uint64_t seed, std::size_t count, std::uint64_t kinds) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random_bits(seed, i) % kinds));
  }
  return tokens;
}

// All places where at least `gram` of the text's last tokens stand before, the latest first.
std::vector<Match> all_matches(std::span<const TokenId> text, std::int32_t gram,
                               std::int32_t max_length) {
  std::vector<Match> matches;
  for (std::size_t end = text.size() - 1; end > 0; --end) {
    std::int32_t length = 0;
    while (length < max_length && static_cast<std::size_t>(length) < end &&
           text[end - 1 - static_cast<std::size_t>(length)] ==
               text[text.size() - 1 - static_cast<std::size_t>(length)]) {
      ++length;
    }
    if (length >= gram) matches.push_back({static_cast<std::int32_t>(end), length});
  }
  return matches;
}

TEST(TokenIndex, FindsWhatALookThroughTheWholeTextFinds) {
  constexpr std::array<std::int32_t, 3> kGrams = {1, 2, 4};
  int found = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto text = random_tokens(seed, 120, 2 + seed % 30);
    TokenIndex index(text.size(), kGrams);
    std::vector<Match> matches;
    for (std::size_t size = 1; size <= text.size(); ++size) {
      const auto known = std::span(text).first(size);
      index.extend(known, size - 1);
      index.find(known, known, 8, matches);
      std::vector<Match> expected;
      for (const std::int32_t gram : {4, 2, 1}) {
        expected = all_matches(known, gram, 8);
        if (!expected.empty()) break;
      }
      // Of very frequent grams the latest: other grams of the same hash count as visited, too.
      ASSERT_LE(matches.size(), expected.size());
      for (std::size_t i = 0; i < matches.size(); ++i) {
        ASSERT_EQ(matches[i].end, expected[i].end) << seed << " " << size;
        ASSERT_EQ(matches[i].length, expected[i].length);
      }
      if (expected.size() < 20) {
        ASSERT_EQ(matches.size(), expected.size()) << seed << " " << size;
      }
      found += matches.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(found, 2000);
}

TEST(TokenIndex, VisitsABoundedNumberOfPlaces) {
  constexpr std::array<std::int32_t, 1> kGrams = {2};
  const std::vector<TokenId> text(10'000, 7);
  TokenIndex index(text.size(), kGrams);
  index.extend(text, text.size() - 1);
  std::vector<Match> matches;
  index.find(text, text, 4, matches);
  ASSERT_EQ(matches.size(), static_cast<std::size_t>(TokenIndex::kMaxVisited));
  EXPECT_EQ(matches[0].end, 9'999);
  EXPECT_EQ(matches[0].length, 4);
}

TEST(TokenIndex, LooksUpTheEndOfAnotherText) {
  constexpr std::array<std::int32_t, 1> kGrams = {3};
  const auto text = tokens_of("the cat sat; the dog sat");
  TokenIndex index(text.size(), kGrams);
  index.extend(text, text.size());
  std::vector<Match> matches;
  index.find(text, tokens_of("so the "), 64, matches);
  ASSERT_EQ(matches.size(), 2U);
  EXPECT_EQ(matches[0].end, 17);
  EXPECT_EQ(matches[0].length, 5);  // " the "
  EXPECT_EQ(matches[1].end, 4);
  EXPECT_EQ(matches[1].length, 4);
  index.clear();
  index.find(text, tokens_of("so the "), 64, matches);
  EXPECT_TRUE(matches.empty());
}

TEST(TokenIndex, SaysWhatItTakes) {
  EXPECT_EQ(TokenIndex::bytes(1000, 2), 2 * (1024 + 1001) * sizeof(std::int32_t));
}

}  // namespace
}  // namespace quire
