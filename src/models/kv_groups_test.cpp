#include "models/kv_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace kv_groups_test {

using testing::ElementsAre;

DecoderSpec with_windows(const std::vector<std::int32_t>& windows) {
  DecoderSpec spec;
  for (const std::int32_t window : windows) {
    AttentionSpec attention;
    attention.window = window;
    spec.layers.push_back({.mixer = attention, .feed_forward = GatedMlpSpec{}});
  }
  return spec;
}

TEST(KvPaging, LayersThatKeepTheSameAreOneGroupOfOnePage) {
  const KvPaging paging = kv_paging(with_windows({0, 0, 0}), 100);
  ASSERT_EQ(paging.groups.size(), 1U);
  EXPECT_EQ(paging.layers_per_page, 3);
  EXPECT_EQ(paging.pages_per_block(), 1);
  EXPECT_EQ(paging.places[2].page, 0);
  EXPECT_EQ(paging.places[2].slot, 2);
}

// Two layers that keep all and four with a window, in the order of Gemma 3: pages of two layers.
TEST(KvPaging, PagesHaveAsManyLayersAsDivideEveryGroup) {
  const KvPaging paging = kv_paging(with_windows({8, 8, 0, 8, 8, 0}), 100);
  ASSERT_EQ(paging.groups.size(), 2U);
  EXPECT_EQ(paging.groups[0].window, 0);
  EXPECT_THAT(paging.groups[0].layers, ElementsAre(2, 5));
  EXPECT_EQ(paging.groups[1].window, 8);
  EXPECT_THAT(paging.groups[1].layers, ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(paging.layers_per_page, 2);
  EXPECT_EQ(paging.pages_per_block(paging.groups[1]), 2);
  EXPECT_EQ(paging.pages_per_block(), 3);
  std::vector<std::pair<int, int>> places;
  for (const KvPaging::Place& place : paging.places) places.emplace_back(place.page, place.slot);
  EXPECT_THAT(places, ElementsAre(std::pair(1, 0), std::pair(1, 1), std::pair(0, 0),
                                  std::pair(2, 0), std::pair(2, 1), std::pair(0, 1)));
}

TEST(KvPaging, AWindowThatNoSequenceLeavesIsNone) {
  EXPECT_EQ(kv_paging(with_windows({8, 0}), 8).groups.size(), 1U);
  EXPECT_EQ(kv_paging(with_windows({8, 0}), 9).groups.size(), 2U);
  EXPECT_EQ(kv_paging(with_windows({8, 8}), 9).groups[0].window, 8);
}

// A token reads no more than a chunk behind it.
TEST(KvPaging, ChunksKeepWhatAWindowOfTheirLengthDoes) {
  DecoderSpec spec = with_windows({0, 0, 0});
  for (const std::size_t layer : {0U, 1U}) spec.layers[layer].attention().chunk = 16;
  const KvPaging paging = kv_paging(spec, 100);
  ASSERT_EQ(paging.groups.size(), 2U);
  EXPECT_THAT(paging.groups[0].layers, ElementsAre(2));
  EXPECT_EQ(paging.groups[1].window, 16);
  EXPECT_THAT(paging.groups[1].layers, ElementsAre(0, 1));
  EXPECT_EQ(kv_paging(spec, 16).groups.size(), 1U);
}

}  // namespace kv_groups_test
}  // namespace quire
