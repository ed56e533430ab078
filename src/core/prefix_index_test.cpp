#include "core/prefix_index.h"

#include <array>
#include <map>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace prefix_index_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array kOneGroup = {KvGroup{}};
constexpr std::array kTwoGroups = {KvGroup{}, KvGroup{.window = 2, .pages_per_block = 2}};

PrefixIndex::Node add(PrefixIndex& index, PrefixIndex::Node parent,
                      const std::vector<TokenId>& tokens, BlockId page) {
  const auto node = index.insert(parent, tokens);
  EXPECT_TRUE(node);
  index.put(*node, 0, std::array{page});
  return *node;
}

TEST(PrefixIndex, FindsABlockByItsTokensAndTheNodeBefore) {
  PrefixIndex index(4, 2, kOneGroup);
  const std::vector<TokenId> tokens = {7, 8};
  const std::vector<TokenId> swapped = {8, 7};
  EXPECT_FALSE(index.find({}, tokens));
  const auto first = add(index, {}, tokens, 3);
  const auto second = add(index, first, tokens, 1);  // the same tokens, further on
  EXPECT_EQ(index.find({}, tokens), first);
  EXPECT_THAT(index.block(first, 0), ElementsAre(3));
  EXPECT_EQ(index.find(first, tokens), second);
  EXPECT_THAT(index.block(second, 0), ElementsAre(1));
  EXPECT_EQ(index.parent(second), first);
  EXPECT_FALSE(index.find({}, swapped));
  EXPECT_FALSE(index.find(second, tokens));
  EXPECT_TRUE(index.contains(3));
  EXPECT_FALSE(index.contains(0));
  EXPECT_EQ(index.check_invariants().message(), "");
}

// The way to what follows stays, and the block may be given again.
TEST(PrefixIndex, ANodeOutlivesItsBlockWhileItHasDescendants) {
  PrefixIndex index(4, 1, kOneGroup);
  const std::vector<TokenId> token = {5};
  const auto first = add(index, {}, token, 0);
  const auto second = add(index, first, token, 1);
  index.erase(0);
  EXPECT_EQ(index.find({}, token), first);
  EXPECT_THAT(index.block(first, 0), IsEmpty());
  EXPECT_EQ(index.find(first, token), second);
  index.put(first, 0, std::array<BlockId, 1>{2});
  EXPECT_EQ(index.check_invariants().message(), "");
  index.erase(2);
  index.erase(1);
  EXPECT_EQ(index.size(), 0);
  EXPECT_FALSE(index.alive(first));
  EXPECT_FALSE(index.alive(second));
  EXPECT_NE(add(index, {}, token, 0).id, first.id);  // no id is given twice
}

TEST(PrefixIndex, KeepsOneBlockOfEachGroup) {
  PrefixIndex index(8, 1, kTwoGroups);
  const std::vector<TokenId> token = {5};
  const auto node = add(index, {}, token, 6);
  EXPECT_FALSE(index.has_block(node, 1));
  index.put(node, 1, std::array<BlockId, 2>{4, 2});
  EXPECT_THAT(index.block(node, 1), ElementsAre(4, 2));
  EXPECT_THAT(index.block_of(2), ElementsAre(4, 2));
  EXPECT_EQ(index.group_of(2), 1U);
  EXPECT_EQ(index.group_of(6), 0U);
  index.erase(4);  // and with it the block's other page
  EXPECT_FALSE(index.contains(2));
  EXPECT_TRUE(index.alive(node));
  EXPECT_EQ(index.check_invariants().message(), "");
  index.erase(6);
  EXPECT_FALSE(index.alive(node));
}

TEST(PrefixIndex, AFullIndexTakesNoMore) {
  PrefixIndex index(2, 1, kOneGroup);
  const auto first = add(index, {}, {1}, 0);
  const auto second = *index.insert(first, std::array{2});
  EXPECT_FALSE(index.insert(second, std::array{3}));
  index.prune(second);  // it has nothing; the first has a block
  EXPECT_TRUE(index.alive(first));
  EXPECT_TRUE(index.insert(first, std::array{3}));
}

TEST(PrefixIndex, FindsWhatBeginsAlikeForLongest) {
  PrefixIndex index(8, 4, kOneGroup);
  const auto full = add(index, {}, {1, 2, 3, 4}, 0);
  const auto end = add(index, {}, {1, 2, 9}, 1);
  add(index, full, {1, 2, 9, 9}, 2);  // further on
  EXPECT_EQ(index.num_tokens(end), 3);
  EXPECT_EQ(index.num_tokens_of(1), 3);
  const auto longest = [&](const std::vector<TokenId>& tokens) {
    return index.find_longest({}, tokens);
  };
  EXPECT_EQ(longest({1, 2, 3, 5})->node, full);
  EXPECT_EQ(longest({1, 2, 3, 5})->num_tokens, 3);
  EXPECT_EQ(longest({1, 2, 9, 9})->node, end);
  EXPECT_EQ(longest({1, 2, 9, 9})->num_tokens, 3);
  EXPECT_EQ(longest({1, 2})->node, end);  // of two as good the later one
  EXPECT_FALSE(longest({2, 2, 3}));
  EXPECT_FALSE(longest({}));
  EXPECT_FALSE(index.find({}, std::array{1, 2}));
  EXPECT_EQ(index.find({}, std::array{1, 2, 9}), end);
  index.erase(1);
  EXPECT_EQ(longest({1, 2, 9, 9})->node, full);
  EXPECT_EQ(longest({1, 2, 9, 9})->num_tokens, 2);
  EXPECT_EQ(index.check_invariants().message(), "");
  index.erase(0);  // the node stays, for what is below
  EXPECT_FALSE(longest({1, 2, 3, 4}));
  EXPECT_EQ(index.check_invariants().message(), "");
}

// Nobody finds what another scope has left, by whole blocks or by parts.
TEST(PrefixIndex, EachScopeHasATreeOfItsOwn) {
  PrefixIndex index(8, 2, kOneGroup);
  constexpr CacheScope kOwn = {.high = 1, .low = 2};
  constexpr CacheScope kOther = {.high = 2, .low = 1};
  const std::array tokens = {7, 8};
  const auto own = index.insert({}, tokens, kOwn);
  index.put(*own, 0, std::array<BlockId, 1>{3});
  const auto below = index.insert(*own, tokens, kOwn);
  index.put(*below, 0, std::array<BlockId, 1>{4});
  EXPECT_EQ(index.find({}, tokens, kOwn), own);
  EXPECT_EQ(index.find(*own, tokens, kOwn), below);
  EXPECT_EQ(index.find_longest({}, tokens, kOwn)->node, *own);
  for (const CacheScope& scope : {kOther, CacheScope{}}) {
    EXPECT_FALSE(index.find({}, tokens, scope));
    EXPECT_FALSE(index.find_longest({}, tokens, scope));
    const auto node = index.insert({}, tokens, scope);
    ASSERT_TRUE(node);
    index.put(*node, 0, std::array<BlockId, 1>{scope == kOther ? 5 : 6});
    EXPECT_NE(index.find({}, tokens, scope), own);
  }
  EXPECT_EQ(index.check_invariants().message(), "");
  PrefixIndex restored(8, 2, kOneGroup);
  ASSERT_EQ(restored.restore(index.snapshot()).message(), "");
  EXPECT_TRUE(restored.find({}, tokens, kOther));
  EXPECT_FALSE(restored.find({}, tokens, CacheScope{.high = 1, .low = 1}));
}

// Many prompts that begin alike cost each search no more than so many looks.
TEST(PrefixIndex, LooksAtTheLatestOnly) {
  constexpr std::int32_t kNumNodes = PrefixIndex::kMaxLooks + 1;
  PrefixIndex index(kNumNodes, 3, kOneGroup);
  for (std::int32_t i = 0; i < kNumNodes; ++i) add(index, {}, {7, i}, i);
  EXPECT_EQ(index.find_longest({}, std::array{7, 1, 5})->num_tokens, 2);
  EXPECT_EQ(index.find_longest({}, std::array{7, 0, 5})->num_tokens, 1);
  index.erase(kNumNodes - 1);
  EXPECT_EQ(index.find_longest({}, std::array{7, 0, 5})->num_tokens, 2);
  EXPECT_EQ(index.check_invariants().message(), "");
}

TEST(PrefixIndex, AgreesWithAMapOnRandomOperations) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    constexpr std::int32_t kNumPages = 32;
    PrefixIndex index(kNumPages, 1, kOneGroup);
    struct Known {
      PrefixIndex::Node node;
      PrefixIndex::Node parent;
      TokenId token = 0;
      BlockId page = kNullBlock;
    };
    std::map<PrefixIndex::NodeId, Known> model;
    const auto has_child = [&](PrefixIndex::NodeId id) {
      return std::ranges::any_of(model,
                                 [&](const auto& each) { return each.second.parent.id == id; });
    };
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t bits = random_bits(seed, i);
      const auto page = static_cast<BlockId>(bits % kNumPages);
      PrefixIndex::Node parent;
      if (!model.empty()) {
        const auto among = static_cast<std::ptrdiff_t>((bits >> 8) % (model.size() + 1));
        if (among > 0) parent = std::next(model.begin(), among - 1)->second.node;
      }
      const std::vector<TokenId> token = {static_cast<TokenId>((bits >> 16) % 3)};
      const auto expected = std::ranges::find_if(model, [&](const auto& each) {
        return each.second.parent == parent && each.second.token == token[0];
      });
      const auto found = index.find(parent, token);
      ASSERT_EQ(found.has_value(), expected != model.end());
      if (found) {
        ASSERT_EQ(*found, expected->second.node);
      }
      if (index.contains(page)) {
        index.erase(page);
        auto gone =
            std::ranges::find_if(model, [&](const auto& each) { return each.second.page == page; });
        gone->second.page = kNullBlock;
        for (PrefixIndex::NodeId id = gone->first; id != PrefixIndex::kRoot;) {
          if (model.at(id).page != kNullBlock || has_child(id)) break;
          const PrefixIndex::NodeId next = model.at(id).parent.id;
          model.erase(id);
          id = next;
        }
      } else if (found && expected->second.page == kNullBlock) {
        index.put(*found, 0, std::array{page});
        expected->second.page = page;
      } else if (!found) {
        if (const auto node = index.insert(parent, token)) {
          index.put(*node, 0, std::array{page});
          model[node->id] = {*node, parent, token[0], page};
        } else {
          ASSERT_EQ(model.size(), std::size_t{kNumPages});
        }
      }
      ASSERT_EQ(index.size(), static_cast<std::int32_t>(model.size()));
      ASSERT_EQ(index.check_invariants().message(), "");
    }
  }
}

}  // namespace prefix_index_test
}  // namespace quire
