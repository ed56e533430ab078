// The KV blocks as names: which are free and how often each is used. The memory behind the names is
// KvStorage's. Free blocks form a list through an array, so that taking one, giving one back and
// (with a prefix cache) taking one out of the middle are O(1), and nothing is allocated after
// construction.
//
//   first_free -> b7 <-> b2 <-> b9 <- last_free     the least recently freed block is taken first,
//                                                   so that a freed block keeps its content longest
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace quire {

class BlockPool {
 public:
  explicit BlockPool(std::int32_t num_blocks);  // > 0; all free, taken in order of id

  // The least recently freed block, now with one reference; nullopt if none is free.
  std::optional<BlockId> allocate();
  void add_reference(BlockId block_id);  // of a used block
  void release(BlockId block_id);        // one reference of a used block; the last one frees it

  std::int32_t reference_count(BlockId block_id) const;  // 0: free
  bool shared(BlockId block_id) const { return reference_count(block_id) > 1; }
  std::int32_t num_blocks() const { return static_cast<std::int32_t>(blocks_.size()); }
  std::int32_t num_free_blocks() const { return num_free_; }
  std::int32_t num_used_blocks() const { return num_blocks() - num_free_; }
  std::int64_t num_references() const { return num_references_; }  // sum over all blocks

  // kInternal naming the block and the law that it breaks. O(num_blocks).
  Status check_invariants() const;

 private:
  static constexpr BlockId kNone = -1;
  struct Block {
    std::int32_t reference_count = 0;
    BlockId previous_free = kNone;  // links are kNone while the block is used
    BlockId next_free = kNone;
  };
  Block& block(BlockId block_id);
  void append_free(BlockId block_id);
  void remove_free(BlockId block_id);

  std::vector<Block> blocks_;
  BlockId first_free_ = kNone;
  BlockId last_free_ = kNone;
  std::int32_t num_free_ = 0;
  std::int64_t num_references_ = 0;
};

}  // namespace quire
