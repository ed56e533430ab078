#include "draft/token_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;

TEST(TokenTree, TheLikeliestGuessesComeFirst) {
  // (0), (0, 0), (0, 0, 0), (0, 1), (1), and so on: each is a beginning of the next.
  const std::vector<std::int32_t> most = likely_token_tree(kMaxTreeDrafts);
  EXPECT_TRUE(DraftTreeView(std::vector<TokenId>(most.size()), most).valid());
  EXPECT_THAT(std::span(most).first(5), ElementsAre(-1, 0, 1, 0, -1));
  for (std::int32_t count = 1; count <= kMaxTreeDrafts; ++count) {
    const std::vector<std::int32_t> tree = likely_token_tree(count);
    EXPECT_TRUE(std::ranges::equal(tree, std::span(most).first(tree.size())));
  }
}

TEST(TokenTree, APlaceIsADepthAndAChoice) {
  const std::vector<std::int32_t> tree = {-1, 0, -1, 0, 2, -1};
  const GuessPlaces places = places_of(tree, 6);
  const std::vector<std::pair<std::int32_t, std::int32_t>> expected = {{0, 0}, {1, 0}, {0, 1},
                                                                       {1, 1}, {1, 0}, {0, 2}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(places[i].depth, expected[i].first) << i;
    EXPECT_EQ(places[i].choice, expected[i].second) << i;
  }
  EXPECT_EQ(places_of({}, 3)[2].depth, 2);
  EXPECT_EQ(num_leaves(tree), 4);
  EXPECT_EQ(most_choices(tree), 3);
  EXPECT_EQ(most_choices({}), 1);
  EXPECT_FALSE(continues_first_choices(tree));
  EXPECT_TRUE(continues_first_choices(std::vector<std::int32_t>{-1, -1, 0, 0, 2, 2, 0}));
}

TEST(TokenTree, WhatThereIsNotIsLeftOutWithWhatFollows) {
  const std::vector<std::int32_t> tree = {-1, -1, 0, 1, 3, 2};
  const std::vector<std::vector<TokenId>> choices = {{5}, {6, 7}, {8}};
  DraftTree draft;
  fill_token_tree(tree, 6, choices, draft);
  EXPECT_THAT(draft.tokens, ElementsAre(5, 6, 8));
  EXPECT_THAT(draft.parents, ElementsAre(-1, 0, 1));
  fill_token_tree({}, 4, choices, draft);
  EXPECT_THAT(draft.tokens, ElementsAre(5, 6, 8));
}

}  // namespace
}  // namespace quire
