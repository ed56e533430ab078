#include "core/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(BlockTable, GrowsAndTakesCopies) {
  BlockTable table;
  EXPECT_EQ(table.size(), 0);
  table.append(4);
  table.append(9);
  table.set(1, 0, 2);
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.at(0), 4);
  EXPECT_THAT(table.block_ids(), testing::ElementsAre(4, 2));
}

}  // namespace
}  // namespace quire
