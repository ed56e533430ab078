#include "core/kv_cache_manager.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/random.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The allocation's part of a plan; nullopt if it was refused.
std::optional<SchedulerOutput> allocate(KvCacheManager& kv, RequestId id, std::int32_t num_computed,
                                        std::int32_t num_new) {
  SchedulerOutput plan;
  const auto num_appended = kv.allocate(id, num_computed, num_new, plan);
  if (!num_appended) return std::nullopt;
  EXPECT_EQ(*num_appended, std::ssize(plan.new_block_ids));
  return plan;
}

// Allocates and commits all of a sequence.
void compute(KvCacheManager& kv, RequestId id, const std::vector<TokenId>& tokens) {
  const auto size = static_cast<std::int32_t>(tokens.size());
  ASSERT_TRUE(allocate(kv, id, 0, size));
  kv.commit(id, tokens, size);
}

TEST(KvCacheManager, AppendsOnlyWhatTheTokensNeed) {
  KvCacheManager kv(4, 8, false);
  EXPECT_THAT(allocate(kv, 1, 0, 5)->new_block_ids, ElementsAre(0, 1));
  EXPECT_THAT(allocate(kv, 1, 5, 3)->new_block_ids, IsEmpty());  // fills block 1
  EXPECT_THAT(allocate(kv, 1, 8, 1)->new_block_ids, ElementsAre(2));
  EXPECT_THAT(kv.find(1)->block_ids(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, AllOrNothing) {
  KvCacheManager kv(4, 3, false);
  ASSERT_TRUE(allocate(kv, 1, 0, 8));
  EXPECT_EQ(kv.pages_needed(2, 0, 5), 2);
  EXPECT_FALSE(allocate(kv, 2, 0, 5));
  EXPECT_EQ(kv.find(2), nullptr);
  EXPECT_EQ(kv.pool().num_free_blocks(), 1);
  EXPECT_FALSE(allocate(kv, 1, 8, 5));
  EXPECT_EQ(kv.find(1)->size(), 2);
  EXPECT_TRUE(allocate(kv, 2, 0, 4));
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, AForkSharesTheBlocksOfItsTokens) {
  KvCacheManager kv(4, 8, true);
  allocate(kv, 1, 0, 10);
  kv.fork(1, 2, 6);
  EXPECT_THAT(kv.find(2)->block_ids(), ElementsAre(0, 1));
  EXPECT_EQ(kv.pool().num_used_blocks(), 3);
  EXPECT_EQ(kv.pool().num_shared_blocks(), 2);
  EXPECT_TRUE(kv.check_invariants().ok());
  kv.free(1);
  kv.free(1);  // has none any more
  EXPECT_EQ(kv.find(1), nullptr);
  EXPECT_EQ(kv.pool().num_used_blocks(), 2);
  kv.free(2);
  EXPECT_EQ(kv.pool().num_used_blocks(), 0);
  EXPECT_EQ(kv.blocks_leaked(), 0);
}

// Parent, child and a child of the child, of which each has blocks after those that they share.
TEST(KvCacheManager, OwnPagesAreThoseThatBecomeFree) {
  KvCacheManager kv(4, 16, true);
  allocate(kv, 1, 0, 10);
  EXPECT_EQ(kv.own_pages(std::vector<RequestId>{1}).num_pages, 3);
  kv.fork(1, 2, 8);
  allocate(kv, 2, 8, 8);
  kv.fork(2, 3, 12);
  allocate(kv, 3, 12, 4);
  const auto own_pages = [&](const std::vector<RequestId>& rows) {
    const auto own = kv.own_pages(rows);
    return std::pair(own.num_pages, own.num_shared_blocks);
  };
  EXPECT_EQ(own_pages({1}), std::pair(1, 2));
  EXPECT_EQ(own_pages({2}), std::pair(1, 3));
  EXPECT_EQ(own_pages({3}), std::pair(1, 3));
  EXPECT_EQ(own_pages({2, 3}), std::pair(3, 2)) << "what these two share becomes free";
  EXPECT_EQ(own_pages({1, 2, 3}), std::pair(6, 0));
  EXPECT_EQ(own_pages({7}), std::pair(0, 0));
}

TEST(KvCacheManager, TheFirstWriterIntoASharedBlockGetsACopy) {
  KvCacheManager kv(4, 8, true);
  allocate(kv, 1, 0, 6);
  kv.fork(1, 2, 6);
  EXPECT_EQ(kv.pages_needed(2, 6, 1), 1);
  const auto child = allocate(kv, 2, 6, 3);  // two tokens into the shared block, one into a new one
  ASSERT_TRUE(child);
  ASSERT_EQ(child->block_copies.size(), 1U);
  EXPECT_EQ(child->block_copies[0].source, 1);
  EXPECT_EQ(child->block_copies[0].destination, 2);
  EXPECT_EQ(child->replaced_blocks[0].request_id, 2U);
  EXPECT_EQ(child->replaced_blocks[0].index, 1);
  EXPECT_EQ(child->replaced_blocks[0].block_id, 2);
  EXPECT_THAT(child->new_block_ids, ElementsAre(3));
  EXPECT_THAT(kv.find(2)->block_ids(), ElementsAre(0, 2, 3));

  const auto parent = allocate(kv, 1, 6, 1);  // the last holder needs no copy
  ASSERT_TRUE(parent);
  EXPECT_THAT(parent->block_copies, IsEmpty());
  EXPECT_THAT(kv.find(1)->block_ids(), ElementsAre(0, 1));
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, FullSharedBlocksAreNeverCopied) {
  KvCacheManager kv(4, 8, true);
  allocate(kv, 1, 0, 8);
  kv.fork(1, 2, 8);
  const auto child = allocate(kv, 2, 8, 1);
  EXPECT_THAT(child->block_copies, IsEmpty());
  EXPECT_THAT(child->new_block_ids, ElementsAre(2));
}

TEST(KvCacheManager, ACopyNeedsAFreeBlock) {
  KvCacheManager kv(4, 2, true);
  allocate(kv, 1, 0, 6);
  kv.fork(1, 2, 6);
  EXPECT_FALSE(allocate(kv, 2, 6, 1));
  EXPECT_THAT(kv.find(2)->block_ids(), ElementsAre(0, 1));
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, FindsFullCommittedBlocksInUseAndAfter) {
  KvCacheManager kv(2, 8, true);
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7};
  ASSERT_TRUE(allocate(kv, 1, 0, 5));
  EXPECT_EQ(kv.match_prefix(tokens, 7).num_blocks, 0);  // allocated, but not computed
  kv.commit(1, tokens, 3);
  EXPECT_EQ(kv.match_prefix(tokens, 7).num_blocks, 1);
  kv.commit(1, tokens, 5);
  EXPECT_EQ(kv.match_prefix(tokens, 7).num_blocks, 2);  // the third is not full
  EXPECT_EQ(kv.match_prefix(tokens, 3).num_blocks, 1);  // no more than was asked for
  EXPECT_EQ(kv.match_prefix(tokens, 7).num_free_pages, 0);
  kv.free(1);
  EXPECT_EQ(kv.num_cached_blocks(), 2);
  const auto match = kv.match_prefix(tokens, 7);
  EXPECT_EQ(match.num_blocks, 2);
  EXPECT_EQ(match.num_free_pages, 2);
  kv.share_prefix(2, match);
  EXPECT_THAT(kv.find(2)->block_ids(), ElementsAre(0, 1));
  EXPECT_EQ(kv.num_cached_blocks(), 0);
  EXPECT_THAT(allocate(kv, 2, 4, 3)->block_copies, IsEmpty());
  EXPECT_EQ(kv.check_invariants().message(), "");
}

TEST(KvCacheManager, TheSameTokensAfterOthersAreAnotherBlock) {
  KvCacheManager kv(2, 8, true);
  compute(kv, 1, {1, 2, 3, 4});
  EXPECT_EQ(kv.match_prefix(std::vector<TokenId>{3, 4, 5}, 3).num_blocks, 0);
  EXPECT_EQ(kv.match_prefix(std::vector<TokenId>{1, 2, 4, 3, 5}, 5).num_blocks, 1);
}

TEST(KvCacheManager, WithoutPrefixCachingNothingIsFound) {
  KvCacheManager kv(2, 8, false);
  compute(kv, 1, {1, 2, 3, 4});
  EXPECT_EQ(kv.match_prefix(std::vector<TokenId>{1, 2, 3, 4, 5}, 5).num_blocks, 0);
  kv.free(1);
  EXPECT_EQ(kv.num_cached_blocks(), 0);
}

// Blocks without content go first, then the least recently used; of one sequence its end.
TEST(KvCacheManager, GivesUpTheEndOfTheLeastRecentlyUsed) {
  KvCacheManager kv(1, 6, true);
  const std::vector<TokenId> old = {1, 2};
  const std::vector<TokenId> recent = {3, 4};
  compute(kv, 1, old);     // blocks 0 and 1
  compute(kv, 2, recent);  // blocks 2 and 3
  ASSERT_TRUE(allocate(kv, 3, 0, 1));
  kv.free(1);
  kv.free(2);
  kv.free(3);  // block 4 has nothing worth keeping
  EXPECT_EQ(kv.num_cached_blocks(), 4);
  EXPECT_THAT(allocate(kv, 4, 0, 2)->new_block_ids, ElementsAre(4, 5));
  EXPECT_THAT(allocate(kv, 4, 2, 1)->new_block_ids, ElementsAre(1));
  EXPECT_EQ(kv.match_prefix(old, 2).num_blocks, 1);
  EXPECT_THAT(allocate(kv, 4, 3, 2)->new_block_ids, ElementsAre(0, 3));
  EXPECT_EQ(kv.match_prefix(old, 2).num_blocks, 0);
  EXPECT_EQ(kv.match_prefix(recent, 2).num_blocks, 1);
  EXPECT_EQ(kv.num_cached_blocks(), 1);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

TEST(KvCacheManager, ForgetsWhatNobodyUses) {
  KvCacheManager kv(4, 8, true);
  const std::vector<TokenId> used = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<TokenId> ended = {1, 2, 3, 4, 9, 9, 9, 9, 8, 8, 8, 8};
  compute(kv, 1, used);
  compute(kv, 2, ended);
  kv.free(2);
  ASSERT_EQ(kv.match_prefix(ended, 12).num_blocks, 3);
  kv.forget_cached();
  EXPECT_TRUE(kv.check_invariants().ok());
  EXPECT_EQ(kv.num_cached_blocks(), 0);
  EXPECT_EQ(kv.match_prefix(ended, 12).num_blocks, 1);  // the block that the first one holds
  EXPECT_EQ(kv.match_prefix(used, 8).num_blocks, 2);
  kv.free(1);
  EXPECT_EQ(kv.match_prefix(used, 8).num_blocks, 2);
  kv.forget_cached();
  EXPECT_EQ(kv.match_prefix(used, 8).num_blocks, 0);
  EXPECT_EQ(kv.pool().num_free_blocks(), 8);
  EXPECT_TRUE(kv.check_invariants().ok());
}

TEST(KvCacheManager, BeingUsedAgainMakesABlockRecent) {
  KvCacheManager kv(1, 2, true);
  compute(kv, 1, {1});
  compute(kv, 2, {2});
  kv.free(1);
  kv.free(2);
  const std::vector<TokenId> first = {1, 9};
  kv.share_prefix(3, kv.match_prefix(first, 1));
  kv.free(3);
  EXPECT_THAT(allocate(kv, 4, 0, 1)->new_block_ids, ElementsAre(1));
  EXPECT_EQ(kv.match_prefix(first, 2).num_blocks, 1);
}

// The first to be committed is found; the other's later blocks hang below it.
TEST(KvCacheManager, TwoRequestsThatComputeTheSameBlockLeaveOneEntry) {
  KvCacheManager kv(1, 8, true);
  const std::vector<TokenId> tokens = {1, 2, 3};
  ASSERT_TRUE(allocate(kv, 1, 0, 2));  // blocks 0 and 1
  ASSERT_TRUE(allocate(kv, 2, 0, 3));  // blocks 2, 3 and 4
  kv.commit(1, tokens, 2);
  kv.commit(2, tokens, 3);
  EXPECT_EQ(kv.check_invariants().message(), "");
  const auto match = kv.match_prefix(tokens, 3);
  EXPECT_EQ(match.num_blocks, 3);
  kv.share_prefix(3, match);
  EXPECT_THAT(kv.find(3)->block_ids(), ElementsAre(0, 1, 4));
  for (const RequestId id : {1, 2, 3}) kv.free(id);
  EXPECT_EQ(kv.num_cached_blocks(), 3);
  EXPECT_EQ(kv.pool().num_free_blocks(), 8);
  EXPECT_EQ(kv.check_invariants().message(), "");
}

// Random requests start from the cache, grow, fork and end; contents follow the copies that the
// manager orders. Whatever belongs to a request's tokens must be in its blocks until its end. Only
// two token ids exist, so that many sequences begin alike.
class RandomUse {
 public:
  explicit RandomUse(std::uint64_t seed)
      : seed_(seed),
        block_size_(pick(1, 8)),
        kv_(block_size_, pick(1, 24), pick(0, 3) > 0),
        memory_(static_cast<std::size_t>(kv_.pool().num_blocks()),
                std::vector<std::uint64_t>(static_cast<std::size_t>(block_size_))) {}

  void operate() {
    const auto id = static_cast<RequestId>(pick(1, 6));
    const auto other = static_cast<RequestId>(pick(1, 6));
    switch (pick(0, 9)) {
      case 0:
        end(id);
        break;
      case 1:
        if (requests_.contains(id) && !requests_.contains(other)) fork(id, other);
        break;
      default:
        requests_.contains(id) ? grow(id) : start(id);
    }
  }

  void check() {
    ASSERT_EQ(kv_.check_invariants().message(), "") << "seed " << seed_;
    for (const auto& [id, request] : requests_) {
      std::uint64_t history = 0;
      for (std::int32_t i = 0; i < request.num_computed; ++i) {
        history = random_bits(history, static_cast<std::uint64_t>(request.tokens[at(i)]));
        ASSERT_EQ(slot(id, i), history) << "seed " << seed_ << ", request " << id;
      }
    }
  }

  std::int64_t num_hits() const { return num_hits_; }
  std::int64_t num_partial_hits() const { return num_partial_hits_; }

 private:
  struct Live {
    std::vector<TokenId> tokens;
    std::int32_t num_computed = 0;
  };

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::int32_t pick(std::int32_t low, std::int32_t high) {
    return low + static_cast<std::int32_t>(random_bits(seed_, counter_++) %
                                           static_cast<std::uint64_t>(high - low + 1));
  }
  std::uint64_t& slot(RequestId id, std::int32_t position) {
    return memory_[at(kv_.find(id)->at(position / block_size_))][at(position % block_size_)];
  }

  void start(RequestId id) {
    Live request;
    for (std::int32_t i = pick(1, 4 * block_size_); i > 0; --i)
      request.tokens.push_back(pick(0, 1));
    const auto size = static_cast<std::int32_t>(request.tokens.size());
    const auto match = kv_.match_prefix(request.tokens, size - 1);
    if (match.num_tokens == 0) return add(id, std::move(request));
    kv_.share_prefix(id, match);
    request.num_computed = match.num_tokens;
    num_hits_ += match.num_blocks;
    num_partial_hits_ += match.last ? 1 : 0;
    requests_.emplace(id, std::move(request));
  }

  void end(RequestId id) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) return;
    if (pick(0, 3) > 0) kv_.keep_end(id, found->second.tokens, found->second.num_computed);
    kv_.free(id);
    requests_.erase(found);
  }

  void add(RequestId id, Live request) {
    SchedulerOutput plan;
    if (!kv_.allocate(id, 0, 1, plan)) return;
    requests_.emplace(id, std::move(request));
    write(id, 1, plan);
  }

  void grow(RequestId id) {
    Live& request = requests_.at(id);
    const std::int32_t num_new = pick(1, 2 * block_size_);
    while (std::ssize(request.tokens) < request.num_computed + num_new) {
      request.tokens.push_back(pick(0, 1));
    }
    const std::int32_t needed = kv_.pages_needed(id, request.num_computed, num_new);
    const std::int32_t num_free = kv_.pool().num_free_blocks();
    SchedulerOutput plan;
    const bool allocated = kv_.allocate(id, request.num_computed, num_new, plan).has_value();
    ASSERT_EQ(allocated, needed <= num_free);
    if (!allocated) return;
    const auto num_left = static_cast<std::int32_t>(std::ranges::count_if(
        plan.block_copies,
        [&](const BlockCopy& copy) { return kv_.pool().reference_count(copy.source) == 0; }));
    ASSERT_EQ(kv_.pool().num_free_blocks(), num_free - needed + num_left);
    write(id, num_new, plan);
  }

  void write(RequestId id, std::int32_t num_new, const SchedulerOutput& plan) {
    for (const BlockCopy& copy : plan.block_copies) {
      memory_[at(copy.destination)] = memory_[at(copy.source)];
    }
    Live& request = requests_.at(id);
    for (std::int32_t i = 0; i < num_new; ++i) {
      const std::int32_t position = request.num_computed++;
      const std::uint64_t before = position == 0 ? 0 : slot(id, position - 1);
      slot(id, position) =
          random_bits(before, static_cast<std::uint64_t>(request.tokens[at(position)]));
    }
    if (pick(0, 3) > 0) kv_.commit(id, request.tokens, request.num_computed);
  }

  void fork(RequestId parent, RequestId child) {
    Live request = requests_.at(parent);
    request.num_computed = pick(1, request.num_computed);
    request.tokens.resize(at(request.num_computed));
    kv_.fork(parent, child, request.num_computed);
    requests_.emplace(child, std::move(request));
  }

  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
  std::int32_t block_size_;
  KvCacheManager kv_;
  std::vector<std::vector<std::uint64_t>> memory_;  // by block
  std::map<RequestId, Live> requests_;
  std::int64_t num_hits_ = 0;
  std::int64_t num_partial_hits_ = 0;
};

TEST(KvCacheManager, NoRequestSeesAnothersWrites) {
  std::int64_t num_hits = 0;
  std::int64_t num_partial_hits = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomUse use(seed);
    for (int i = 0; i < 200; ++i) {
      use.operate();
      use.check();
      if (testing::Test::HasFatalFailure()) return;
    }
    num_hits += use.num_hits();
    num_partial_hits += use.num_partial_hits();
  }
  EXPECT_GT(num_hits, 1000);
  EXPECT_GT(num_partial_hits, 1000);
}

TEST(KvCacheManager, TruncateReturnsBlocksAtOnce) {
  KvCacheManager kv(4, 8, true);
  SchedulerOutput plan;
  ASSERT_TRUE(kv.allocate(1, 0, 11, plan));
  EXPECT_EQ(kv.truncate(1, 10), std::nullopt);  // its block is still used
  EXPECT_EQ(kv.truncate(1, 8), 2);
  EXPECT_EQ(kv.pool().num_free_blocks(), 6);
  EXPECT_EQ(kv.truncate(1, 1), 1);
  EXPECT_EQ(kv.blocks_leaked(), 0);
  EXPECT_TRUE(kv.check_invariants().ok());
  ASSERT_EQ(kv.allocate(1, 1, 7, plan), 1);
  EXPECT_TRUE(kv.check_invariants().ok());
}

// What will be written again is not found; what others hold is.
TEST(KvCacheManager, TruncateKeepsTheIndexConsistent) {
  KvCacheManager kv(4, 8, true);
  SchedulerOutput plan;
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  ASSERT_TRUE(kv.allocate(1, 0, 8, plan));
  kv.commit(1, tokens, 8);
  const BlockId second = kv.find(1)->at(1);
  kv.truncate(1, 6);
  EXPECT_FALSE(kv.findable(second));
  EXPECT_EQ(kv.match_prefix(tokens, 8).num_blocks, 1);
  const std::vector<TokenId> others = {1, 2, 3, 4, 5, 6, 0, 0};
  ASSERT_EQ(kv.allocate(1, 6, 2, plan), 0);
  kv.commit(1, others, 8);
  EXPECT_EQ(kv.match_prefix(others, 8).num_blocks, 2);

  kv.share_prefix(2, kv.match_prefix(others, 8));
  kv.truncate(1, 5);
  EXPECT_TRUE(kv.findable(second));
  EXPECT_EQ(kv.match_prefix(others, 8).num_blocks, 2);
  EXPECT_TRUE(kv.check_invariants().ok());
  KvCacheManager restored(4, 8, true);
  EXPECT_TRUE(restored.restore(kv.snapshot()).ok());
  plan.clear();
  ASSERT_EQ(kv.allocate(1, 5, 3, plan), 0);
  EXPECT_EQ(plan.block_copies.size(), 1U);  // the other one's stays as it is
  kv.commit(1, tokens, 8);
  EXPECT_EQ(kv.match_prefix(others, 8).num_blocks, 2);
  EXPECT_EQ(kv.match_prefix(tokens, 8).num_blocks, 2);
  EXPECT_TRUE(kv.check_invariants().ok());
}

}  // namespace
}  // namespace quire
