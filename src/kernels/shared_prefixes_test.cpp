#include "kernels/shared_prefixes.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_plan.h"

namespace quire {
namespace {

// Sequences with one query each, by their block tables; `tail` keys in the last block.
struct Sequences {
  std::int32_t block_size = 64;
  std::vector<std::vector<BlockId>> tables;
  std::int32_t tail = 1;

  SharedPrefixes find(const std::vector<std::int32_t>& queries = {}) const {
    std::vector<const BlockId*> pointers;
    std::vector<std::int32_t> query_start_loc = {0};
    std::vector<std::int32_t> seq_lens;
    for (std::size_t s = 0; s < tables.size(); ++s) {
      pointers.push_back(tables[s].data());
      query_start_loc.push_back(query_start_loc.back() + (queries.empty() ? 1 : queries[s]));
      seq_lens.push_back((static_cast<std::int32_t>(tables[s].size()) - 1) * block_size + tail);
    }
    SharedPrefixes prefixes;
    prefixes.find({static_cast<std::int32_t>(tables.size()), query_start_loc.data(),
                   seq_lens.data(), pointers.data(), block_size});
    return prefixes;
  }
};

TEST(SharedPrefixes, FindsWholeRangesOfEqualBlocks) {
  // Four blocks are a range: the first two share nine blocks, so two ranges.
  const Sequences sequences{
      64, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 20}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 30}, {1, 2, 3, 9, 9, 9}}};
  const SharedPrefixes found = sequences.find();
  ASSERT_EQ(found.groups().size(), 1U);
  EXPECT_EQ(found.groups()[0].keys, 512);
  EXPECT_EQ(found.members(), (std::vector<std::int32_t>{0, 1}));
}

TEST(SharedPrefixes, LeavesARangeThatAQueryDoesNotSeeToTheEnd) {
  // The ninth block's first key is the query's own: it sees all of two ranges, not in two blocks.
  EXPECT_EQ(Sequences({64, {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 10}}})
                .find()
                .groups()[0]
                .keys,
            512);
  EXPECT_EQ(Sequences({64, {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}}, 64})
                .find()
                .groups()[0]
                .keys,
            256);
  EXPECT_TRUE(Sequences({64, {{1, 2, 3, 4}, {1, 2, 3, 4}}, 64}).find().groups().empty());
}

TEST(SharedPrefixes, TakesTheGroupThatSavesMost) {
  // All five share one range, three of them five: 4 * 1 against 2 * 5 ranges saved. The two others
  // share the first range between them.
  std::vector<std::vector<BlockId>> tables;
  for (BlockId s = 0; s < 5; ++s) {
    std::vector<BlockId> table = {1};
    const BlockId own = s % 2 == 0 ? 100 : 1000 * s;
    for (BlockId b = 0; b < 4; ++b) table.push_back(own + b);
    table.push_back(5000 + s);
    tables.push_back(table);
  }
  const SharedPrefixes found = Sequences{256, tables}.find();
  ASSERT_EQ(found.groups().size(), 2U);
  EXPECT_EQ(found.groups()[0].keys, 5 * 256);
  EXPECT_EQ(found.groups()[0].end - found.groups()[0].begin, 3);
  EXPECT_EQ(found.groups()[1].keys, 256);
  EXPECT_EQ(found.members(), (std::vector<std::int32_t>{0, 2, 4, 1, 3}));
}

TEST(SharedPrefixes, TakesBlocksOfAnySize) {
  // 24 does not divide 256: eleven equal blocks are one range and some keys.
  std::vector<BlockId> a(20);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<BlockId>(i);
  std::vector<BlockId> b = a;
  b[11] = 99;
  EXPECT_EQ(Sequences({24, {a, b}}).find().groups()[0].keys, 256);
  b[10] = 98;
  EXPECT_TRUE(Sequences({24, {a, b}}).find().groups().empty());
  EXPECT_EQ(Sequences({512, {{7, 1}, {7, 2}}}).find().groups()[0].keys, 512);
}

TEST(SharedPrefixes, LeavesOutWhatHasSeveralQueries) {
  const Sequences sequences{256, {{1, 2}, {1, 3}, {1, 4}}};
  EXPECT_EQ(sequences.find({1, 2, 1}).members(), (std::vector<std::int32_t>{0, 2}));
  EXPECT_TRUE(sequences.find({2, 2, 1}).members().empty());
}

}  // namespace
}  // namespace quire
