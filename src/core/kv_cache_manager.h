// Which request holds which KV blocks, and which of them may be found and used again. Requests are
// ids and token counts here; their states are the scheduler's.
//
// Ownership: every entry of every table is one reference of its block. A fork shares the blocks of
// its parent, the last, partly filled one too; whoever first writes into a shared block gets a copy
// of its own, the others keep the old one:
//
//   parent  b0 b1 b2        fork: b0 b1 b2 have 2 references
//   child   b0 b1 b2        child writes into b2: copy b2 -> b3
//           b0 b1 b3        b2 has 1 reference again, so the parent writes into it without a copy
//
// KV groups: a block of a request's tokens has pages in every group (core/kv_group.h), all from one
// pool. In a group that reads only a window, the pages of blocks behind it are released while the
// request runs; the entries of its table are kNullBlock from then on:
//
//   everything   b0 b1 b4 b6
//   a window      -  - b5 b7
//
// So do pages that are a state: a token reads it in the block of the token before it and writes it
// to its own, in place where that is the same one. What a block is left with when the next one
// begins is a snapshot.
//
// Prefix cache: full blocks whose keys and values are computed are found by their tokens
// (PrefixIndex), while they are in use and after, until the pool needs them for something else,
// the least recently used first. A prefix is found as far as every group has what it needs: all
// blocks, or those of the window before the prefix's end. So is the block in which a sequence ended
// (keep_end()). A prefix may end within a block: whoever goes on there gets a copy of it, or the
// block itself, where nobody uses it and nothing of it is lost by going on.
//
// Drafts: where guesses at a request's next tokens form a tree, its table is that of the first path
// (base/draft_tree.h), and each other path has blocks of its own from where it leaves its parent,
// its branch. When the tokens are known, the right path's blocks take their places in the table,
// and all others are released:
//
//   table                b0 b1 b2 b3     the first path: b2, b3
//   branch 1, of it            b4 b5     leaves it in b2, so b4 begins as b2 does
//   branch 2, of 1                b6     leaves branch 1 in b5: its path is b0 b1 b4 b6
//   branch 2 was right:  b0 b1 b4 b6
//
// The lower tier (core/kv_tier.h): what is to become of full blocks that leave the prefix cache,
// and from where they may come back, by their names. A fetch has a table of its own, of the cached
// blocks that it goes on from and of pages that nobody else reads or writes until it has ended:
// then they are cached blocks as others are. Blocks that are cheaper to compute again are withheld
// from the tier.
//
// After reserve() nothing is allocated; but where there is a lower tier, by its changes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/draft_tree.h"
#include "base/ids.h"
#include "base/recycled_map.h"
#include "base/status.h"
#include "core/block_pool.h"
#include "core/block_table.h"
#include "core/kv_group.h"
#include "core/kv_tier.h"
#include "core/pinned_prefixes.h"
#include "core/prefix_index.h"
#include "core/prefix_miss.h"
#include "core/step.h"

namespace quire {

class Request;

class KvCacheManager {
 public:
  // All > 0: tokens of a block, pages of the pool. Without prefix caching, no block is found by its
  // content. `tier`: full blocks may go to a lower tier; for one group, of one page, that keeps
  // all.
  KvCacheManager(std::int32_t block_size, std::int32_t num_pages, bool enable_prefix_caching,
                 std::vector<KvGroup> groups = {KvGroup{}}, bool tier = false);

  // Room for so many requests, each of so many blocks.
  void reserve(std::int32_t max_tables, std::int32_t max_blocks);

  // Bytes of bookkeeping for one page.
  static std::uint64_t bytes_per_page(std::int32_t block_size, std::span<const KvGroup> groups,
                                      bool enable_prefix_caching, bool tier = false);

  // The cached blocks that a sequence begins with.
  struct PrefixMatch {
    std::int32_t num_blocks = 0;      // of its tokens; full ones
    std::int32_t num_tokens = 0;      // in these, and in the block after them
    std::int32_t num_used_pages = 0;  // that it would share with others who use them now
    std::int32_t num_free_pages = 0;  // in no table now, so that using them allocates them
    // Free pages of the block after them that are in use while they are copied.
    std::int32_t num_copied_pages = 0;
    PrefixIndex::Node node;                 // of the last full block
    std::optional<PrefixIndex::Node> last;  // of the block after it
  };
  // Blocks of a scope that contain the first of `tokens`, not more than max_tokens of them.
  // O(max_tokens).
  PrefixMatch match_prefix(std::span<const TokenId> tokens, std::int32_t max_tokens,
                           const CacheScope& scope = {}) const;
  // Why the first `max_tokens` tokens were not found further than `match`, which is what
  // match_prefix() found of them. Evictions are known since construction, as far as there is room.
  PrefixMiss explain_miss(std::span<const TokenId> tokens, std::int32_t max_tokens,
                          const CacheScope& scope, const PrefixMatch& match) const;
  // When what is lost from now on is said to be.
  void set_time(Instant now) { now_ = now; }
  // Gives a request, which has no table, these blocks, one token at least. Nothing may have changed
  // since they were found.
  void share_prefix(RequestId request_id, const PrefixMatch& match);
  // Whether the parent still has what a child needs that goes on after its first `num_tokens`
  // tokens, the last of them computed again. Never where a group keeps states: the parent's has
  // that token in it.
  bool can_fork(RequestId parent_id, std::int32_t num_tokens) const;
  // Gives the child, which has no table, the blocks of the parent's first `num_tokens` tokens;
  // can_fork() of them.
  void fork(RequestId parent_id, RequestId child_id, std::int32_t num_tokens);
  // Gives the child, which has no table, all that the parent has: it goes on where the parent does.
  void fork(RequestId parent_id, RequestId child_id);

  // Makes the tokens [num_computed_tokens, num_computed_tokens + num_new_tokens) of a request
  // writable: appends blocks (to a new table, the first time) and copies shared ones, and adds all
  // of that to `plan`; returns how many entries its table has more. All or nothing: nullopt, and
  // nothing changed, if there are too few free pages. num_new_tokens > 0.
  std::optional<std::int32_t> allocate(RequestId request_id, std::int32_t num_computed_tokens,
                                       std::int32_t num_new_tokens, SchedulerOutput& plan);
  // Free pages that this allocation would use.
  std::int32_t pages_needed(RequestId request_id, std::int32_t num_computed_tokens,
                            std::int32_t num_new_tokens) const;
  // The same of requests that all compute these tokens, one after the other: of what they share the
  // last one needs no copy.
  std::int32_t pages_needed(std::span<const RequestId> request_ids,
                            std::int32_t num_computed_tokens, std::int32_t num_new_tokens) const;
  // Pages that a request holds at most besides those that it shares with another of the same first
  // `num_shared_tokens` tokens; the rest as in max_pages().
  std::int64_t max_branch_pages(std::int64_t num_shared_tokens, std::int64_t num_tokens,
                                std::int64_t num_new_tokens) const;
  // Pages that a request of this many tokens holds at most, where up to `num_new_tokens` of them
  // are computed at once.
  std::int64_t max_pages(std::int64_t num_tokens, std::int64_t num_new_tokens) const {
    return quire::max_pages(groups_, num_tokens, num_new_tokens, block_size_);
  }

  // The first num_computed_tokens of a request's tokens are computed: its full blocks may be found
  // in its scope from now on.
  void commit(RequestId request_id, std::span<const TokenId> tokens,
              std::int32_t num_computed_tokens, const CacheScope& scope = {});

  // The same of the last block of a request that is about to be freed, where that is not full.
  // Where a group keeps states, no step may be in flight that computes more of the request.
  void keep_end(RequestId request_id, std::span<const TokenId> tokens,
                std::int32_t num_computed_tokens, const CacheScope& scope = {});

  // The first `num_computed_tokens` of a request's tokens are computed and stay so: releases what
  // none of those after them reads. Behind a window it is found as long as nobody needs its pages.
  void release_passed(RequestId request_id, std::int32_t num_computed_tokens);

  // Takes the request's tokens from the `num_tokens`-th on back, which others may hold meanwhile:
  // blocks with none before it are released. What is left of a block may be written to again, so
  // its content is not found any more unless others use it. Returns how many entries are left of
  // its table, where that is another number than before. The request has a table of at least that
  // many tokens, and nothing that they read is released.
  std::optional<std::int32_t> truncate(RequestId request_id, std::int32_t num_tokens);

  // Gives the drafts of a request (`paths`, in order; the first of the drafts follows the token at
  // `num_computed_tokens`) that are not on the first path, for which there are blocks already,
  // their branches, and adds their entries and copies to `plan`; returns how many entries they
  // have. All or nothing, as allocate(). The request has no branches.
  std::optional<std::int32_t> branch(RequestId request_id, std::int32_t num_computed_tokens,
                                     std::span<const DraftPath> paths, SchedulerOutput& plan);
  // Free pages that this would use.
  std::int32_t branch_pages(std::int32_t num_computed_tokens,
                            std::span<const DraftPath> paths) const;
  // The request's table becomes that of this path (0: it stays as it is), as far as it goes, and
  // all other branches are released. `adopted` gets the entries that are other ones.
  void adopt(RequestId request_id, std::int32_t path, std::vector<BlockReplacement>& adopted);

  // The lower tier (kv_cache_tier.cpp).
  // Blocks after `match` that it has, and the first one's name. O(max_tokens).
  struct TierMatch {
    std::int32_t num_blocks = 0;
    BlockName first{};
  };
  TierMatch match_tier(std::span<const TokenId> tokens, std::int32_t max_tokens,
                       const CacheScope& scope, const PrefixMatch& match) const;
  // Adds to `plan` a fetch for a request of so many blocks after `match`, for which there are free
  // pages. Nothing may have changed since they were found.
  void begin_fetch(FetchId fetch_id, const Request& request, const PrefixMatch& match,
                   std::int32_t num_blocks, SchedulerOutput& plan);
  // It has ended: so many blocks, those that were cached among them, hold their tokens, and are
  // cached from now on.
  void end_fetch(FetchId fetch_id, std::span<const TokenId> tokens, const CacheScope& scope,
                 std::int32_t num_blocks);
  // The table of a fetch: no request has such an id.
  static constexpr RequestId fetch_table(FetchId fetch_id) {
    return (RequestId{1} << 63) | fetch_id;
  }
  // The table of a pinned prefix (core/pinned_prefixes.h): no request or fetch has such an id.
  static constexpr RequestId pin_table(PinId pin_id) { return (RequestId{3} << 62) | pin_id; }
  // Pages that a prefix of so many blocks holds for whoever goes on after exactly these.
  std::int64_t prefix_pages(std::int32_t num_blocks) const;
  // Nodes of the request's tokens that have lost their blocks, which were another's of the same
  // tokens, get its own.
  void put_back(RequestId request_id);
  // Whether the request has all blocks of a prefix, which has a table of full ones alone.
  bool begins_with(RequestId request_id, RequestId prefix_table) const;
  // Blocks that only one of these holds do not go there when they leave the cache, unless somebody
  // has used them again before.
  void withhold(std::span<const RequestId> request_ids);
  // Moves to `plan` what left the prefix cache since the last call.
  void take_stores(SchedulerOutput& plan);
  // Of the blocks in the cache, those that a lower tier would store, each after those before it in
  // its sequences.
  std::vector<BlockStore> kept_blocks() const;
  KvTier& tier() { return tier_; }
  const KvTier& tier() const { return tier_; }

  // What free pages contain is not found any more: they are as new ones. Blocks in tables stay
  // findable. O(num_pages).
  void forget_cached();

  // Of the tables of a request's rows, which have a page in common at the same place, if at all.
  struct OwnPages {
    std::int32_t num_pages = 0;          // that no other table holds
    std::int32_t num_shared_blocks = 0;  // at the beginning: of which others hold all pages, too
  };
  OwnPages own_pages(std::span<const RequestId> request_ids) const;

  // Releases all blocks of the request, the last ones first, so that the start of a sequence, which
  // others are likeliest to share, stays longest. No effect if it has none.
  void free(RequestId request_id);

  const BlockTable* find(RequestId request_id) const;  // nullptr if it has none
  const BlockPool& pool() const { return pool_; }
  std::int32_t block_size() const { return block_size_; }
  std::span<const KvGroup> groups() const { return groups_; }
  bool keeps_states() const { return quire::keeps_states(groups_); }
  std::int32_t pages_per_block() const { return pages_per_block_; }
  std::size_t num_tables() const { return tables_.size(); }
  // Whether a page's content may be found by later requests. O(1).
  bool findable(BlockId block_id) const {
    return enable_prefix_caching_ && index_.contains(block_id);
  }
  // Free pages that still contain what may be used again.
  std::int32_t num_cached_blocks() const;
  // References to pages that no table holds; anything but 0 is a bug.
  std::int64_t blocks_leaked() const { return pool_.num_references() - num_held_; }

  // The pages of a group: those in tables, each counted once, and those that are free and cached.
  // Over all groups they are num_used_blocks() of the pool and num_cached_blocks().
  struct GroupUse {
    std::int32_t num_used = 0;
    std::int32_t num_cached = 0;
    bool operator==(const GroupUse&) const = default;
  };
  std::span<const GroupUse> group_uses() const { return uses_; }

  // All of its state but what it has lost; references of blocks are those of the tables.
  struct Snapshot {
    struct Table {
      RequestId request_id = 0;
      std::vector<BlockId> block_ids;  // all entries
      std::int32_t num_passed_tokens = 0;
      std::vector<PrefixIndex::NodeId> nodes;  // of its first blocks
    };
    std::vector<BlockId> free_block_ids;  // the first to be taken first
    std::vector<Table> tables;            // in order of the requests' ids
    PrefixIndex::Snapshot index;
    KvTier::Snapshot tier;
    std::vector<BlockId> withheld_block_ids;  // in order
  };
  Snapshot snapshot() const;
  // Fills a manager that is new. kInvalidArgument naming what cannot be; then it is of no use.
  Status restore(const Snapshot& snapshot);

  // Pages that branches hold.
  std::int64_t num_branch_pages() const;

  // kInternal unless every page has exactly as many references as tables that hold it, those of
  // branches have one, no table holds a page twice, a cached block's pages are used alike, groups'
  // pages are counted right, and the pool's and the index's laws hold. O(pages + tables' sizes).
  Status check_invariants() const;
  // kInternal unless the request holds what its tokens after the first `num_computed_tokens` read,
  // and nothing behind that.
  Status check_windows(RequestId request_id, std::int32_t num_computed_tokens) const;

 private:
  struct Table {
    BlockTable blocks;
    // Of its first blocks, which are full and committed: their nodes in the index. The last of them
    // may be gone: a block that was computed twice is found where it was first.
    std::vector<PrefixIndex::Node> nodes;
    std::int32_t num_passed_tokens = 0;  // of release_passed()
    // Of paths of drafts, from the second on: from which block on, and which pages.
    struct Branch {
      std::int32_t parent = 0;  // path
      std::int32_t first_block = 0;
      std::size_t first_page = 0;  // in branch_pages
      std::int32_t num_blocks = 0;
    };
    std::vector<Branch> branches;
    std::vector<BlockId> branch_pages;
  };
  // The blocks of a path's own drafts.
  struct BranchBlocks {
    std::int32_t first = 0;
    std::int32_t end = 0;
  };
  BranchBlocks branch_blocks(std::int32_t num_computed_tokens, const DraftPath& path) const;
  void drop_branches(Table& table);

  std::span<const TokenId> tokens_of(std::span<const TokenId> tokens, std::int32_t index) const;
  // Page `page` of a block of the pages of all groups belongs to this group.
  std::size_t group_of(std::int32_t page) const {
    return group_of_page_[static_cast<std::size_t>(page)];
  }
  std::int32_t first_page(std::size_t group) const { return first_page_[group]; }
  std::int32_t end_page(std::size_t group) const {
    return first_page_[group] + groups_[group].pages_per_block;
  }
  std::int32_t first_block(std::size_t group, std::int32_t position) const {
    return groups_[group].first_block(position, block_size_);
  }
  // A free one for this request, its content given up; there must be one.
  BlockId take_page(std::int32_t page, RequestId request_id);
  std::optional<LostBlocks::Loss> find_loss(std::span<const TokenId> rest, std::int32_t num_matched,
                                            const PrefixMatch& match,
                                            const CacheScope& scope) const;
  void share(BlockId block_id, std::int32_t page);
  void share_block(Table& table, std::int32_t block, PrefixIndex::Node node);
  void release(BlockId block_id, std::int32_t page);
  bool wanted_below(BlockId block_id) const;  // findable()
  void offload(BlockId block_id);
  bool withheld(BlockId block_id) const {
    return !withheld_.empty() && withheld_[static_cast<std::size_t>(block_id)];
  }
  void end_withholding(BlockId block_id) {
    if (!withheld_.empty()) withheld_[static_cast<std::size_t>(block_id)] = false;
  }
  void release_block(const Table& table, std::int32_t block);
  // Whether whoever writes behind the first `num_kept` tokens of a block takes something away from
  // others, or from the prefix cache.
  bool must_copy(BlockId block_id, std::int32_t num_kept) const {
    return pool_.shared(block_id) ||
           (findable(block_id) && index_.num_tokens_of(block_id) > num_kept);
  }
  // Blocks at and after this index of a table are written to.
  std::int32_t first_written(std::int32_t num_computed_tokens) const {
    return num_computed_tokens / block_size_;
  }
  std::int32_t num_left_to_last(std::span<const RequestId> request_ids,
                                std::int32_t num_computed_tokens) const;
  void make_writable(RequestId request_id, BlockTable& table, std::int32_t block,
                     std::int32_t num_kept, SchedulerOutput& plan);
  void drop_lost_nodes(Table& table);
  void put_blocks(PrefixIndex::Node node, std::span<const BlockId> pages);
  Status restore_table(const Snapshot::Table& table);
  void count_uses();
  Status check_pages() const;
  Table& new_table(RequestId request_id);

  std::int32_t block_size_;
  bool enable_prefix_caching_;
  std::vector<KvGroup> groups_;
  std::int32_t pages_per_block_;
  std::vector<std::int32_t> first_page_;    // [num_groups]: in a block of all groups
  std::vector<std::size_t> group_of_page_;  // [pages_per_block_]
  BlockPool pool_;
  PrefixIndex index_;
  LostBlocks lost_;
  KvTier tier_;
  std::vector<BlockStore> stores_;  // for the plan that is made
  std::vector<bool> withheld_;  // of each page, where there is a tier: free, and not to be stored
  Instant now_{};
  RecycledMap<Table> tables_;
  std::vector<GroupUse> uses_;                   // of each group
  std::int64_t num_held_ = 0;                    // entries of all tables that are not null
  mutable std::vector<std::int32_t> run_begin_;  // of match_prefix(), for each group
};

}  // namespace quire
