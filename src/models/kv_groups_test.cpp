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
    attention.num_kv_heads = 1;
    attention.head_dim = 16;
    attention.window = window;
    spec.layers.push_back({.mixer = attention, .feed_forward = GatedMlpSpec{}});
  }
  return spec;
}

TEST(KvPaging, LayersThatKeepTheSameAreOneGroupOfOnePage) {
  const KvPaging paging = kv_paging(with_windows({0, 0, 0}), 100);
  ASSERT_EQ(paging.groups.size(), 1U);
  EXPECT_EQ(paging.slots_per_page, 3);
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
  EXPECT_EQ(paging.slots_per_page, 2);
  EXPECT_EQ(paging.groups[1].pages, 2);
  EXPECT_EQ(paging.pages_per_block(), 3);
  std::vector<std::pair<int, int>> places;
  for (const KvPaging::Place& place : paging.places) places.emplace_back(place.page, place.slot);
  // The first layers of both groups are in slot 0, the last ones in slot 1.
  EXPECT_THAT(places, ElementsAre(std::pair(1, 0), std::pair(2, 0), std::pair(0, 0),
                                  std::pair(1, 1), std::pair(2, 1), std::pair(0, 1)));
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

// As in Gemma 4: wide layers keep all tokens, narrow ones a window, and two of these have room
// where a wide one has.
TEST(KvPaging, NarrowLayersShareASlot) {
  DecoderSpec spec = with_windows({8, 8, 8, 0, 8, 8, 0});
  for (const std::size_t wide : {3, 6}) spec.layers[wide].attention().head_dim = 32;
  const KvPaging paging = kv_paging(spec, 100);
  ASSERT_EQ(paging.groups.size(), 2U);
  EXPECT_THAT(paging.groups[0].layers, ElementsAre(3, 6));
  EXPECT_THAT(paging.groups[1].layers, ElementsAre(0, 1, 2, 4, 5));
  EXPECT_EQ(paging.slots_per_page, 1);  // of 2 and 3 slots
  EXPECT_EQ(paging.groups[0].pages, 2);
  EXPECT_EQ(paging.groups[1].pages, 3);
  EXPECT_EQ(paging.places[0].parts, 2);
  EXPECT_EQ(paging.places[3].parts, 1);
  std::vector<std::pair<int, int>> places;
  for (const KvPaging::Place& place : paging.places) places.emplace_back(place.page, place.part);
  EXPECT_THAT(places,
              ElementsAre(std::pair(2, 0), std::pair(2, 1), std::pair(3, 0), std::pair(0, 0),
                          std::pair(3, 1), std::pair(4, 0), std::pair(1, 0)));
}

// Three narrow layers have the room of two wide ones: slots of two wide ones waste nothing.
TEST(KvPaging, SlotsAreAsWideAsWastesTheLeast) {
  DecoderSpec spec = with_windows({8, 8, 8, 0, 0});
  for (LayerSpec& layer : spec.layers) layer.attention().head_dim = 32;
  for (const std::size_t wide : {3, 4}) spec.layers[wide].attention().head_dim = 48;
  const KvPaging paging = kv_paging(spec, 100);
  EXPECT_EQ(paging.places[0].parts, 3);
  EXPECT_EQ(paging.places[3].parts, 2);
  EXPECT_EQ(paging.pages_per_block(), 2);
}

TEST(KvPaging, WidthsOfOneGroupHaveSlotsOfTheirOwn) {
  DecoderSpec spec = with_windows({0, 0, 0});
  spec.layers[1].attention().num_kv_heads = 2;
  const KvPaging paging = kv_paging(spec, 100);
  ASSERT_EQ(paging.groups.size(), 1U);
  EXPECT_EQ(paging.slots_per_page, 2);
  EXPECT_EQ(paging.pages_per_block(), 1);
  EXPECT_EQ(paging.places[0].slot, 0);
  EXPECT_EQ(paging.places[2].slot, 0);
  EXPECT_EQ(paging.places[2].part, 1);
  EXPECT_EQ(paging.places[1].slot, 1);
}

TEST(KvPaging, ALayerThatReadsAnothersTakesNoRoom) {
  DecoderSpec spec = with_windows({8, 0, 8, 0});
  spec.layers[2].attention().kv_layer = 0;
  spec.layers[3].attention().kv_layer = 1;
  const KvPaging paging = kv_paging(spec, 100);
  EXPECT_EQ(paging.pages_per_block(), 2);
  EXPECT_THAT(paging.groups[0].layers, ElementsAre(1));
  EXPECT_EQ(paging.places[2].page, paging.places[0].page);
  EXPECT_EQ(paging.places[3].page, paging.places[1].page);
  EXPECT_EQ(spec.kv_elements_per_token(), 2 * 2 * 16);
}

// A state is as wide as its bytes are in a block, whatever its tokens: here keys and values of two
// tokens of a block of eight.
TEST(KvPaging, StatesAreAGroupOfTheirOwnBehindTheOthers) {
  DecoderSpec spec = with_windows({0, 0, 0});
  spec.hidden_size = 32;
  ShortConvSpec conv;
  conv.taps = 3;
  for (const std::size_t layer : {0U, 1U}) spec.layers[layer].mixer = conv;
  const KvPaging paging = kv_paging(spec, 100, {.block_size = 8, .dtype = DType::kF32});
  ASSERT_EQ(paging.groups.size(), 2U);
  EXPECT_EQ(paging.groups[0].state_bytes, 0U);
  EXPECT_THAT(paging.groups[0].layers, ElementsAre(2));
  EXPECT_EQ(paging.groups[1].state_bytes, 2U * 2 * 32 * sizeof(float));
  EXPECT_THAT(paging.groups[1].layers, ElementsAre(0, 1));
  EXPECT_EQ(paging.slots_per_page, 1);
  EXPECT_EQ(paging.pages_per_block(), 2) << "both states in one slot of keys and values";
  EXPECT_EQ(paging.state_pages(), 1);
  EXPECT_EQ(paging.places[0].parts, 4);
  EXPECT_EQ(paging.places[1].part, 1);
  EXPECT_EQ(paging.places[1].page, 1);
  // In blocks of one token a state is the widest.
  const KvPaging narrow = kv_paging(spec, 100, {.block_size = 1, .dtype = DType::kF32});
  EXPECT_EQ(narrow.places[0].parts, 1);
  EXPECT_EQ(narrow.places[2].parts, 2);
  EXPECT_EQ(narrow.state_pages(), 2);
}

}  // namespace kv_groups_test
}  // namespace quire
