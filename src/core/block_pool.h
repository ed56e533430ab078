// The KV blocks as names: which are free and how often each is used. The memory behind the names is
// KvStorage's. Where a block of a KV group has several pages, these are its pages. Free blocks
// form a list through an array, so that taking one, giving one back and taking one out of the
// middle (whose content a prefix cache has found) are O(1), and nothing is allocated after
// construction.
//
//   first_free -> b7 <-> b2 <-> b9 <- last_free     the first is taken first: those without content
//                                                   of use, then the least recently freed
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace quire {

// Where a freed block waits: at the back it keeps its content longest.
enum class FreeListEnd : std::uint8_t { kFront, kBack };

class BlockPool {
 public:
  explicit BlockPool(std::int32_t num_blocks);  // > 0; all free, taken in order of id

  // The first free block, now with one reference; nullopt if none is free.
  std::optional<BlockId> allocate();
  void take(BlockId block_id);           // this free block, now with one reference
  void add_reference(BlockId block_id);  // of a used block
  // One reference of a used block; the last one frees it.
  void release(BlockId block_id, FreeListEnd end);

  // This free block has nothing of use any more: it is the next to be taken.
  void move_to_front(BlockId block_id);

  std::int32_t reference_count(BlockId block_id) const;  // 0: free
  bool shared(BlockId block_id) const { return reference_count(block_id) > 1; }
  std::int32_t num_blocks() const { return static_cast<std::int32_t>(blocks_.size()); }
  std::int32_t num_free_blocks() const { return num_free_; }
  std::int32_t num_used_blocks() const { return num_blocks() - num_free_; }
  std::int32_t num_shared_blocks() const { return num_shared_; }
  std::int64_t num_references() const { return num_references_; }  // sum over all blocks

  // The free blocks, the first to be taken first.
  std::vector<BlockId> free_block_ids() const;
  // A pool whose blocks have so many references, those without one free in the order given.
  // kInvalidArgument where the free ones are not exactly those.
  static Result<BlockPool> restore(std::span<const std::int32_t> reference_counts,
                                   std::span<const BlockId> free_block_ids);

  // kInternal naming the block and the law that it breaks. O(num_blocks).
  Status check_invariants() const;

  static constexpr std::uint64_t kBytesPerBlock = 3 * sizeof(std::int32_t);

 private:
  static constexpr BlockId kNone = -1;
  struct Block {
    std::int32_t reference_count = 0;
    BlockId previous_free = kNone;  // links are kNone while the block is used
    BlockId next_free = kNone;
  };
  static_assert(sizeof(Block) == kBytesPerBlock);
  Block& block(BlockId block_id);
  void append_free(BlockId block_id);
  void prepend_free(BlockId block_id);
  void remove_free(BlockId block_id);

  std::vector<Block> blocks_;
  BlockId first_free_ = kNone;
  BlockId last_free_ = kNone;
  std::int32_t num_free_ = 0;
  std::int32_t num_shared_ = 0;
  std::int64_t num_references_ = 0;
};

}  // namespace quire
