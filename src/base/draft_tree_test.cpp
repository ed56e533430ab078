#include "base/draft_tree.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int32_t kRoot = DraftTreeView::kRoot;

// The tree of draft_tree.h, in an order in which probable tokens come first.
//   1 -> 2 -> 3 -> 4
//    \    \-> 7
//     \-> 5 -> 6
const std::vector<TokenId> kTokens = {1, 5, 2, 6, 7, 3, 4};
const std::vector<std::int32_t> kParents = {kRoot, 0, 0, 1, 2, 2, 5};

TEST(DraftTree, AChainNeedsNoParents) {
  const std::vector<TokenId> tokens = {8, 9};
  const DraftTreeView chain(tokens);
  EXPECT_TRUE(chain.valid());
  EXPECT_EQ(chain.parent(0), kRoot);
  EXPECT_EQ(chain.parent(1), 0);
  EXPECT_EQ(chain.child(kRoot, 8), 0);
  EXPECT_EQ(chain.child(0, 9), 1);
  EXPECT_FALSE(chain.child(kRoot, 9));
  EXPECT_FALSE(chain.child(1, 9));
  std::vector<DraftPath> paths;
  DraftTree ordered;
  order_by_paths(chain, 10, 3, ordered);
  EXPECT_EQ(ordered.tokens, tokens);
  paths_of(ordered.view(), paths);
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_EQ(paths[0].count, 2);
}

TEST(DraftTree, ChildrenAreFoundByTheirTokens) {
  const DraftTreeView tree(kTokens, kParents);
  EXPECT_TRUE(tree.valid());
  EXPECT_EQ(tree.child(0, 2), 2);
  EXPECT_EQ(tree.child(0, 5), 1);
  EXPECT_FALSE(tree.child(0, 3));
  const DraftDepths depths = depths_of(tree);
  EXPECT_THAT(std::vector<int>(depths.begin(), depths.begin() + 7),
              ElementsAre(1, 2, 2, 3, 3, 3, 4));
  EXPECT_TRUE(tree.first(3).valid());
}

TEST(DraftTree, IsOrderedByItsPaths) {
  DraftTree ordered;
  order_by_paths({kTokens, kParents}, 10, 10, ordered);
  EXPECT_THAT(ordered.tokens, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ordered.parents, ElementsAre(kRoot, 0, 1, 2, 0, 4, 1));
  EXPECT_EQ(num_on_first_path(ordered.view()), 4);
  std::vector<DraftPath> paths;
  paths_of(ordered.view(), paths);
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(paths[1].first, 4);
  EXPECT_EQ(paths[1].depth, 2);
  EXPECT_EQ(paths[1].end_depth(), 4);
  EXPECT_EQ(paths[1].parent, 0);
  EXPECT_EQ(paths[2].depth, 3);
  EXPECT_EQ(paths[2].parent, 0);
  EXPECT_EQ(path_with(paths, 0), 0);
  EXPECT_EQ(path_with(paths, 3), 0);
  EXPECT_EQ(path_with(paths, 5), 1);
  EXPECT_EQ(path_with(paths, 6), 2);
}

TEST(DraftTree, APathMayLeaveAnotherThanTheFirst) {
  // 1 -> 2 -> 3 | 4 -> 5 | 6 behind 4
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> parents = {kRoot, 0, 1, kRoot, 3, 3};
  std::vector<DraftPath> paths;
  paths_of({tokens, parents}, paths);
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(paths[1].depth, 1);
  EXPECT_EQ(paths[1].parent, 0);
  EXPECT_EQ(paths[2].depth, 2);
  EXPECT_EQ(paths[2].parent, 1);
}

TEST(DraftTree, IsCutToADepthAndToSoManyPaths) {
  DraftTree ordered;
  order_by_paths({kTokens, kParents}, 2, 10, ordered);
  EXPECT_THAT(ordered.tokens, ElementsAre(1, 5, 2));
  EXPECT_THAT(ordered.parents, ElementsAre(kRoot, 0, 0));
  order_by_paths({kTokens, kParents}, 10, 1, ordered);
  EXPECT_THAT(ordered.tokens, ElementsAre(1, 2, 3, 4));
  order_by_paths({kTokens, kParents}, 0, 10, ordered);
  EXPECT_THAT(ordered.tokens, IsEmpty());
}

TEST(DraftTree, ATokenComesAfterItsParent) {
  const std::vector<TokenId> tokens = {1, 2};
  const auto valid = [&](std::vector<std::int32_t> parents) {
    return DraftTreeView(tokens, parents).valid();
  };
  EXPECT_TRUE(valid({kRoot, kRoot}));
  EXPECT_FALSE(valid({kRoot, 1}));
  EXPECT_FALSE(valid({0, 0}));
  EXPECT_FALSE(valid({-2, 0}));
  EXPECT_FALSE(valid({kRoot}));
  EXPECT_FALSE(DraftTreeView(std::vector<TokenId>(kMaxTreeDrafts + 1, 1)).valid());
}

}  // namespace
}  // namespace quire
