#include "kernels/attention_plan.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_scratch.h"

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

// Each query, KV head and key below the query's position is in one work item.
void expect_covered_once(const Batch& batch, const AttentionHeads& heads, int threads) {
  AttentionPlan plan;
  plan.build(batch.view(), heads, threads);
  const auto kv_heads = static_cast<std::size_t>(heads.num_kv_heads);
  std::vector<std::int64_t> keys(static_cast<std::size_t>(batch.query_start_loc.back()) * kv_heads);
  std::int64_t partials = 0;
  for (const AttentionWork& work : plan.work()) {
    const auto sequence = static_cast<std::size_t>(work.sequence);
    EXPECT_LT(work.query_begin, work.query_end);
    EXPECT_LE(work.query_end - work.query_begin, queries_per_work(heads.heads_per_kv_head));
    EXPECT_GE(work.query_begin, batch.query_start_loc[sequence]);
    EXPECT_LE(work.query_end, batch.query_start_loc[sequence + 1]);
    EXPECT_EQ(work.key_begin % kRangeKeys, 0);
    EXPECT_LT(work.key_begin, work.key_end);
    EXPECT_LE(work.key_end, batch.seq_lens[sequence]);
    for (std::int32_t query = work.query_begin; query < work.query_end; ++query) {
      keys[static_cast<std::size_t>(query) * kv_heads + static_cast<std::size_t>(work.kv_head)] +=
          work.key_end - work.key_begin;
    }
    if (work.partials >= 0) {
      EXPECT_EQ(work.query_end - work.query_begin, 1);
      EXPECT_LE(work.partials + (work.key_end + kRangeKeys - 1) / kRangeKeys, plan.num_partials());
    } else {
      EXPECT_EQ(work.key_begin, 0);
    }
  }
  for (const AttentionWork& whole : plan.splits()) {
    EXPECT_EQ(whole.key_begin, 0);
    EXPECT_EQ(whole.partials, partials);
    partials += (whole.key_end + kRangeKeys - 1) / kRangeKeys;
  }
  EXPECT_EQ(partials, plan.num_partials());
  EXPECT_LT(plan.splits().size(),
            static_cast<std::size_t>(AttentionPlan::kWorkPerThread * threads));
  for (std::size_t sequence = 0; sequence < batch.seq_lens.size(); ++sequence) {
    const std::int32_t begin = batch.query_start_loc[sequence];
    const std::int32_t end = batch.query_start_loc[sequence + 1];
    for (std::int32_t query = begin; query < end; ++query) {
      for (std::size_t head = 0; head < kv_heads; ++head) {
        const std::int64_t seen = keys[static_cast<std::size_t>(query) * kv_heads + head];
        const std::int32_t needed = batch.seq_lens[sequence] - end + query + 1;
        EXPECT_GE(seen, needed);
        EXPECT_LT(seen, needed + queries_per_work(heads.heads_per_kv_head));
      }
    }
  }
}

TEST(AttentionPlan, CoversEachQueryAndKeyOnceForEachKvHead) {
  for (const int threads : {1, 2, 7}) {
    for (const std::int32_t group : {1, 8, 200}) {
      expect_covered_once({{0, 1, 70, 70, 102}, {500, 69, 9, 40}}, {3, group}, threads);
      expect_covered_once({{0, 1, 2, 3}, {8192, 300, 70000}}, {1, group}, threads);
      expect_covered_once({{0, 1}, {1}}, {4, group}, threads);
    }
  }
}

TEST(AttentionPlan, LongestWorkComesFirst) {
  const Batch batch{{0, 1, 97, 98}, {10, 96, 4000}};
  AttentionPlan plan;
  plan.build(batch.view(), {2, 3}, 1);
  ASSERT_EQ(plan.work().size(), 10U);
  EXPECT_EQ(plan.work()[0].sequence, 2);  // 4000 keys
  EXPECT_EQ(plan.work()[2].query_begin, 65);
  EXPECT_EQ(plan.work()[9].sequence, 0);
}

TEST(AttentionPlan, SplitsAQueryThatWouldHoldTheOthersUp) {
  AttentionPlan plan;
  const Batch alone{{0, 1}, {8192}};
  plan.build(alone.view(), {1, 8}, 2);
  EXPECT_EQ(plan.work().size(), 8U);
  EXPECT_EQ(plan.splits().size(), 1U);
  plan.build(alone.view(), {1, 8}, 1);
  EXPECT_EQ(plan.work().size(), 1U);
  EXPECT_EQ(plan.num_partials(), 0);
  // Enough to share without.
  const Batch many{{0, 1, 2, 3, 4}, {8192, 8192, 8192, 8192}};
  plan.build(many.view(), {4, 8}, 2);
  EXPECT_EQ(plan.work().size(), 16U);
  EXPECT_EQ(plan.num_partials(), 0);
  const Batch uneven{{0, 1, 2}, {8192, 40}};
  plan.build(uneven.view(), {1, 8}, 2);
  EXPECT_EQ(plan.splits().size(), 1U);
}

TEST(AttentionPlan, BuildsWithoutAllocatingOnceReserved) {
  const Batch batch{{0, 1, 2, 66}, {5, 7000, 64}};
  AttentionPlan plan;
  plan.reserve(66, {4, 2}, 3);
  const std::size_t capacity = plan.work().capacity();
  const AttentionWork* const data = plan.work().data();
  for (int step = 0; step < 3; ++step) plan.build(batch.view(), {4, 2}, 3);
  EXPECT_EQ(plan.work().capacity(), capacity);
  EXPECT_EQ(plan.work().data(), data);
  EXPECT_FALSE(plan.splits().empty());
}

}  // namespace
}  // namespace quire
