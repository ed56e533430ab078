// Which request holds which KV blocks. Requests are ids and token counts here; their tokens and
// states are the scheduler's.
//
// Ownership: every entry of every table is one reference of its block. A fork shares all blocks of
// its parent, the last, partly filled one too; whoever first writes into a shared block gets a copy
// of its own, the others keep the old one:
//
//   parent  b0 b1 b2        fork: b0 b1 b2 have 2 references
//   child   b0 b1 b2        child writes into b2: copy b2 -> b3
//           b0 b1 b3        b2 has 1 reference again, so the parent writes into it without a copy
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "core/block_pool.h"
#include "core/block_table.h"
#include "core/step.h"

namespace quire {

// What an allocation changed in a request's table: what an executor must be told.
struct KvAllocation {
  std::vector<BlockId> new_block_ids;  // appended
  std::vector<BlockReplacement> replaced_blocks;
  std::vector<BlockCopy> block_copies;  // one for each replaced block, in order
};

class KvCacheManager {
 public:
  KvCacheManager(std::int32_t block_size, std::int32_t num_blocks);  // both > 0

  // Makes the tokens [num_computed_tokens, num_computed_tokens + num_new_tokens) of a request
  // writable: appends blocks (to a new table, the first time) and copies shared ones. All or
  // nothing: nullopt, and nothing changed, if there are too few free blocks. num_new_tokens > 0.
  std::optional<KvAllocation> allocate(RequestId request_id, std::int32_t num_computed_tokens,
                                       std::int32_t num_new_tokens);
  // Free blocks that this allocation would take.
  std::int32_t blocks_needed(RequestId request_id, std::int32_t num_computed_tokens,
                             std::int32_t num_new_tokens) const;
  // Whether a request of this many tokens fits into the pool when it is alone.
  bool fits_ever(std::int64_t num_tokens) const;

  // Gives the child, which has no table, all blocks of the parent, which has one.
  void fork(RequestId parent_id, RequestId child_id);

  // Releases all blocks of the request, the last ones first, so that the start of a sequence, which
  // others are likeliest to share, stays longest. No effect if it has none.
  void free(RequestId request_id);

  const BlockTable* find(RequestId request_id) const;  // nullptr if it has none
  const BlockPool& pool() const { return pool_; }
  std::int32_t block_size() const { return block_size_; }
  std::size_t num_tables() const { return tables_.size(); }
  // References to blocks that no table holds; anything but 0 is a bug.
  std::int64_t blocks_leaked() const { return pool_.num_references() - num_held_; }

  // kInternal unless every block has exactly as many references as tables that hold it, no table
  // holds a block twice, and the pool's own laws hold. O(num_blocks + sum of the tables' sizes).
  Status check_invariants() const;

 private:
  std::int32_t block_size_;
  BlockPool pool_;
  std::unordered_map<RequestId, BlockTable> tables_;
  std::int64_t num_held_ = 0;  // sum of the tables' sizes
};

}  // namespace quire
