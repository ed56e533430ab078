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

// Members of a group have the prefix's keys in one shared work item for each KV head.
std::vector<std::int32_t> shared_keys(const AttentionPlan& plan, const AttentionHeads& heads,
                                      std::int32_t num_seqs) {
  const auto kv_heads = static_cast<std::size_t>(heads.num_kv_heads);
  std::vector<std::int32_t> keys(static_cast<std::size_t>(num_seqs) * kv_heads);
  for (const SharedWork& work : plan.shared()) {
    EXPECT_LT(work.member_begin, work.member_end);
    EXPECT_LE(work.member_end - work.member_begin, queries_per_work(heads.heads_per_kv_head));
    for (std::int32_t m = work.member_begin; m < work.member_end; ++m) {
      const std::int32_t sequence = plan.members()[static_cast<std::size_t>(m)];
      EXPECT_EQ(plan.member_queries()[static_cast<std::size_t>(m)],
                plan.batch().query_start_loc[sequence]);
      auto& seen = keys[static_cast<std::size_t>(sequence) * kv_heads +
                        static_cast<std::size_t>(work.kv_head)];
      EXPECT_EQ(seen, 0);
      seen = work.key_end;
    }
  }
  return keys;
}

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

// Sixteen sequences that share 4,096 tokens, and one that does not: the prefix is one piece of work
// for some members and a KV head, and each sequence's own begins behind it.
TEST(AttentionPlan, ReadsASharedPrefixOnce) {
  constexpr std::int32_t kBlocks = 260;
  std::vector<std::vector<BlockId>> tables(17, std::vector<BlockId>(kBlocks));
  Batch batch;
  batch.query_start_loc = {0};
  for (std::size_t s = 0; s < tables.size(); ++s) {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const bool shared = s != 5 && b < 256;
      tables[s][b] = static_cast<BlockId>(shared ? b : 1000 * (s + 1) + b);
    }
    batch.query_start_loc.push_back(static_cast<std::int32_t>(s) + 1);
    batch.seq_lens.push_back(4097 + 3 * static_cast<std::int32_t>(s));
  }
  batch.tables.clear();
  for (const auto& table : tables) batch.tables.push_back(table.data());
  for (const AttentionHeads heads : {AttentionHeads{3, 3}, AttentionHeads{4, 8}}) {
    for (const int threads : {1, 2, 5}) {
      AttentionBatch view = batch.view();
      view.block_size = 16;
      AttentionPlan plan;
      plan.build(view, heads, threads);
      EXPECT_EQ(plan.members().size(), 16U);
      EXPECT_EQ(plan.keys_saved(), 15 * 4096);
      EXPECT_EQ(plan.num_states(), 16 * heads.num_kv_heads);
      const auto keys = shared_keys(plan, heads, 17);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::size_t sequence = i / static_cast<std::size_t>(heads.num_kv_heads);
        EXPECT_EQ(keys[i], sequence == 5 ? 0 : 4096);
      }
      std::vector<bool> states(static_cast<std::size_t>(plan.num_states()));
      for (const AttentionWork& work : plan.work()) {
        EXPECT_EQ(work.shared_keys, work.sequence == 5 ? 0 : 4096);
        if (work.sequence == 5) continue;
        EXPECT_EQ(work.key_begin, 4096);
        EXPECT_EQ(work.key_end, batch.seq_lens[static_cast<std::size_t>(work.sequence)]);
        const auto member = static_cast<std::size_t>(work.state / heads.num_kv_heads);
        EXPECT_EQ(plan.members()[member], work.sequence);
        EXPECT_EQ(work.state % heads.num_kv_heads, work.kv_head);
        states[static_cast<std::size_t>(work.state)] = true;
      }
      EXPECT_EQ(states, std::vector<bool>(states.size(), true));
      plan.build(batch.view(), heads, threads);  // without the blocks' size
      EXPECT_TRUE(plan.shared().empty());
      EXPECT_EQ(plan.work().front().shared_keys, 0);
    }
  }
}

}  // namespace
}  // namespace quire
