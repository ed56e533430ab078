#include "core/prefix_index.h"

#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "base/random.h"

namespace quire {
namespace {

TEST(PrefixIndex, FindsABlockByItsTokensAndTheNodeBefore) {
  PrefixIndex index(4, 2);
  const std::vector<TokenId> tokens = {7, 8};
  const std::vector<TokenId> swapped = {8, 7};
  EXPECT_FALSE(index.find(PrefixIndex::kRoot, tokens));
  const auto first = index.insert(3, PrefixIndex::kRoot, tokens);
  const auto second = index.insert(1, first, tokens);  // the same tokens, further on
  EXPECT_EQ(index.find(PrefixIndex::kRoot, tokens)->block_id, 3);
  EXPECT_EQ(index.find(first, tokens)->block_id, 1);
  EXPECT_EQ(index.find(first, tokens)->node, second);
  EXPECT_FALSE(index.find(PrefixIndex::kRoot, swapped));
  EXPECT_FALSE(index.find(second, tokens));
  EXPECT_TRUE(index.contains(3));
  EXPECT_FALSE(index.contains(0));
  EXPECT_EQ(index.check_invariants().message(), "");
}

// A node is never used twice: what hung below the old one is not below the new one.
TEST(PrefixIndex, WhatFollowedAnErasedBlockIsOutOfReach) {
  PrefixIndex index(4, 1);
  const std::vector<TokenId> token = {5};
  const auto old = index.insert(0, PrefixIndex::kRoot, token);
  index.insert(1, old, token);
  index.erase(0);
  EXPECT_FALSE(index.find(PrefixIndex::kRoot, token));
  const auto again = index.insert(2, PrefixIndex::kRoot, token);
  EXPECT_NE(again, old);
  EXPECT_FALSE(index.find(again, token));
  EXPECT_EQ(index.size(), 2);
  EXPECT_EQ(index.check_invariants().message(), "");
}

TEST(PrefixIndex, AgreesWithAMapOnRandomOperations) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    constexpr std::int32_t kNumBlocks = 32;
    PrefixIndex index(kNumBlocks, 1);
    std::map<std::pair<PrefixIndex::NodeId, TokenId>, BlockId> model;
    std::vector<PrefixIndex::NodeId> nodes(kNumBlocks, PrefixIndex::kRoot);
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t bits = random_bits(seed, i);
      const auto block_id = static_cast<BlockId>(bits % kNumBlocks);
      const PrefixIndex::NodeId parent = nodes[(bits >> 8) % kNumBlocks];
      const std::vector<TokenId> token = {static_cast<TokenId>((bits >> 16) % 3)};
      const auto found = index.find(parent, token);
      const auto expected = model.find({parent, token[0]});
      ASSERT_EQ(found.has_value(), expected != model.end());
      ASSERT_TRUE(!found || found->block_id == expected->second);
      if (index.contains(block_id)) {
        index.erase(block_id);
        std::erase_if(model, [&](const auto& entry) { return entry.second == block_id; });
        nodes[static_cast<std::size_t>(block_id)] = PrefixIndex::kRoot;
      } else if (!found) {
        nodes[static_cast<std::size_t>(block_id)] = index.insert(block_id, parent, token);
        model[{parent, token[0]}] = block_id;
      }
      ASSERT_EQ(index.check_invariants().message(), "");
    }
  }
}

}  // namespace
}  // namespace quire
