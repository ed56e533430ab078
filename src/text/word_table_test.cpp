// The cache of short words: what it finds is what was put in for that word, whatever has happened
// to other words in between.
#include "text/word_table.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

TEST(ShortWordCache, FindsWhatWasPutInAndNothingElse) {
  ShortWordCache cache;
  std::map<std::string, std::vector<TokenId>> put_in;
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    // Few bytes, so that words share beginnings and ends; zeros, which pad numbers, are among them.
    std::string word(1 + random_bits(1, i) % ShortWordCache::kMaxBytes, 'a');
    for (std::size_t at = 0; at < word.size(); ++at) {
      const std::uint64_t bits = random_bits(i, at);
      if (bits % 4 == 0) word[at] = static_cast<char>(bits >> 8 & 1);
    }
    const ShortWordCache::Key key(word);
    const auto ids = cache.find(key);
    if (!ids.empty()) {
      ASSERT_THAT(ids, ElementsAreArray(put_in.at(word)));
      ++found;
      continue;
    }
    std::vector<TokenId>& mine = put_in[word];
    mine.assign(1 + i % 3, static_cast<TokenId>(i));
    cache.insert(key, mine);
  }
  EXPECT_GT(found, 10'000U);
}

TEST(ShortWordCache, WordsOfMoreIdsAreNotKept) {
  ShortWordCache cache;
  for (int i = 0; i < 100; ++i) {
    cache.insert(ShortWordCache::Key("many"), std::vector<TokenId>{1, 2, 3, 4});
    cache.insert(ShortWordCache::Key("few"), std::vector<TokenId>{1, 2, 3});
  }
  EXPECT_THAT(cache.find(ShortWordCache::Key("many")), IsEmpty());
  EXPECT_THAT(cache.find(ShortWordCache::Key("few")), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace quire
