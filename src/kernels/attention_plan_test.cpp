#include "kernels/attention_plan.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

struct Batch {
  std::vector<std::int32_t> query_start_loc;
  std::vector<std::int32_t> seq_lens;
  std::vector<const BlockId*> tables = std::vector<const BlockId*>(seq_lens.size(), nullptr);

  AttentionBatch view() const {
    return {static_cast<std::int32_t>(seq_lens.size()), query_start_loc.data(), seq_lens.data(),
            tables.data()};
  }
};

TEST(AttentionPlan, CoversEachQueryOnceForEachKvHead) {
  const Batch batch{{0, 1, 70, 70, 102}, {500, 69, 9, 40}};
  AttentionPlan plan;
  plan.build(batch.view(), 3);
  std::vector<int> seen(102 * 3, 0);
  for (const AttentionWork& work : plan.work()) {
    EXPECT_LT(work.query_begin, work.query_end);
    EXPECT_LE(work.query_end - work.query_begin, kMaxQueriesPerWork);
    EXPECT_GE(work.query_begin, batch.query_start_loc[static_cast<std::size_t>(work.sequence)]);
    EXPECT_LE(work.query_end, batch.query_start_loc[static_cast<std::size_t>(work.sequence) + 1]);
    for (std::int32_t query = work.query_begin; query < work.query_end; ++query) {
      ++seen[static_cast<std::size_t>(query * 3 + work.kv_head)];
    }
  }
  for (const int times : seen) EXPECT_EQ(times, 1);
}

TEST(AttentionPlan, LongestWorkComesFirst) {
  const Batch batch{{0, 1, 97, 98}, {10, 96, 4000}};
  AttentionPlan plan;
  plan.build(batch.view(), 2);
  ASSERT_EQ(plan.work().size(), 10U);
  EXPECT_EQ(plan.work()[0].sequence, 2);  // 4000 keys
  EXPECT_EQ(plan.work()[2].query_begin, 65);
  EXPECT_EQ(plan.work()[8].sequence, 0);
}

TEST(AttentionPlan, BuildsWithoutAllocatingOnceReserved) {
  const Batch batch{{0, 1, 2, 66}, {5, 7, 64}};
  AttentionPlan plan;
  plan.reserve(66, 4);
  const std::size_t capacity = plan.work().capacity();
  const AttentionWork* const data = plan.work().data();
  for (int step = 0; step < 3; ++step) plan.build(batch.view(), 4);
  EXPECT_EQ(plan.work().capacity(), capacity);
  EXPECT_EQ(plan.work().data(), data);
}

}  // namespace
}  // namespace quire
