// Which request holds which KV blocks, and which blocks hold what may be used again. Requests are
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
// Prefix cache: full blocks whose keys and values are computed are found by their tokens
// (PrefixIndex), while they are in use and after, until the pool needs them for something else,
// the least recently used first.
//
// After reserve() nothing is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/recycled_map.h"
#include "base/status.h"
#include "core/block_pool.h"
#include "core/block_table.h"
#include "core/prefix_index.h"
#include "core/step.h"

namespace quire {

class KvCacheManager {
 public:
  // Both > 0. Without prefix caching, no block is found by its content.
  KvCacheManager(std::int32_t block_size, std::int32_t num_blocks, bool enable_prefix_caching);

  // Room for so many requests, each of so many blocks.
  void reserve(std::int32_t max_tables, std::int32_t max_blocks);

  // Bytes of bookkeeping for one block.
  static std::uint64_t bytes_per_block(std::int32_t block_size, bool enable_prefix_caching);

  // The cached blocks that a sequence begins with.
  struct PrefixMatch {
    std::int32_t num_blocks = 0;
    std::int32_t num_free_blocks = 0;  // of them: in no table now, so that using them takes them
  };
  // Blocks that hold the first of `tokens`, not more than max_tokens of them. O(max_tokens).
  PrefixMatch match_prefix(std::span<const TokenId> tokens, std::int32_t max_tokens) const;
  // Gives a request, which has no table, one of these blocks. `match` must be of the same tokens
  // and nothing may have changed since.
  void share_prefix(RequestId request_id, std::span<const TokenId> tokens,
                    const PrefixMatch& match);
  // Gives the child, which has no table, the blocks of the parent's first `num_tokens` tokens.
  void fork(RequestId parent_id, RequestId child_id, std::int32_t num_tokens);

  // Makes the tokens [num_computed_tokens, num_computed_tokens + num_new_tokens) of a request
  // writable: appends blocks (to a new table, the first time) and copies shared ones, and adds all
  // of that to `plan`; returns how many blocks were appended. All or nothing: nullopt, and nothing
  // changed, if there are too few free blocks. num_new_tokens > 0.
  std::optional<std::int32_t> allocate(RequestId request_id, std::int32_t num_computed_tokens,
                                       std::int32_t num_new_tokens, SchedulerOutput& plan);
  // Free blocks that this allocation would take.
  std::int32_t blocks_needed(RequestId request_id, std::int32_t num_computed_tokens,
                             std::int32_t num_new_tokens) const;
  // Whether a request of this many tokens fits into the pool when it is alone.
  bool fits_ever(std::int64_t num_tokens) const;

  // The first num_computed_tokens of a request's tokens are computed: its full blocks may be found
  // from now on.
  void commit(RequestId request_id, std::span<const TokenId> tokens,
              std::int32_t num_computed_tokens);

  // Takes the request's tokens from the `num_tokens`-th on back, which others may hold meanwhile:
  // blocks with none before it are released. What is left of a block may be written to again, so
  // its content is not found any more unless others use it. Returns how many blocks are left, where
  // that is another number than before. The request has a table of at least that many tokens.
  std::optional<std::int32_t> truncate(RequestId request_id, std::int32_t num_tokens);

  // Releases all blocks of the request, the last ones first, so that the start of a sequence, which
  // others are likeliest to share, stays longest. No effect if it has none.
  void free(RequestId request_id);

  const BlockTable* find(RequestId request_id) const;  // nullptr if it has none
  const BlockPool& pool() const { return pool_; }
  std::int32_t block_size() const { return block_size_; }
  std::size_t num_tables() const { return tables_.size(); }
  // Whether a block's content may be found by later requests. O(1).
  bool findable(BlockId block_id) const {
    return enable_prefix_caching_ && index_.contains(block_id);
  }
  // Free blocks that still hold what may be used again.
  std::int32_t num_cached_blocks() const { return num_cached_; }
  // References to blocks that no table holds; anything but 0 is a bug.
  std::int64_t blocks_leaked() const { return pool_.num_references() - num_held_; }

  // All of its state; references of blocks are those of the tables.
  struct Snapshot {
    struct Table {
      RequestId request_id = 0;
      std::vector<BlockId> block_ids;
      std::vector<PrefixIndex::NodeId> nodes;  // of the first of them
    };
    std::vector<BlockId> free_block_ids;  // the first to be taken first
    std::vector<Table> tables;            // in order of the requests' ids
    PrefixIndex::Snapshot index;
  };
  Snapshot snapshot() const;
  // Fills a manager that is new. kInvalidArgument naming what cannot be; then it is of no use.
  Status restore(const Snapshot& snapshot);

  // kInternal unless every block has exactly as many references as tables that hold it, no table
  // holds a block twice, and the pool's and the index's own laws hold. O(num_blocks + sum of the
  // tables' sizes).
  Status check_invariants() const;

 private:
  struct Table {
    BlockTable blocks;
    // Of its first blocks, which are full and committed: their nodes in the index.
    std::vector<PrefixIndex::NodeId> nodes;
  };

  std::span<const TokenId> tokens_of(std::span<const TokenId> tokens, std::int32_t index) const;
  BlockId take_block();  // a free one, its content given up; there must be one
  void release(BlockId block_id);
  Status restore_table(const Snapshot::Table& table);
  Table& new_table(RequestId request_id);

  std::int32_t block_size_;
  bool enable_prefix_caching_;
  BlockPool pool_;
  PrefixIndex index_;
  RecycledMap<Table> tables_;
  std::int64_t num_held_ = 0;  // sum of the tables' sizes
  std::int32_t num_cached_ = 0;
};

}  // namespace quire
