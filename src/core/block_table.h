// Where what layers keep of one request lies. Each block of its tokens has an entry for every page
// that a block has, the pages of the first KV group first: token i is in slot i % block_size of
// the pages of block i / block_size. A group that reads only a window has kNullBlock where the
// window has passed. An executor keeps a copy and is told what is new, and what was removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

class BlockTable {
 public:
  explicit BlockTable(std::int32_t pages_per_block = 1) : pages_per_block_(pages_per_block) {}

  // An empty table for blocks of so many pages.
  void reset(std::int32_t pages_per_block) {
    pages_per_block_ = pages_per_block;
    block_ids_.clear();  // capacity stays
  }
  void reserve(std::int32_t num_blocks) { block_ids_.reserve(begin_of(num_blocks)); }
  // The next entry; a block is complete with its last page.
  void append(BlockId block_id) { block_ids_.push_back(block_id); }
  // Blocks that have nothing yet.
  void resize(std::int32_t num_blocks) { block_ids_.resize(begin_of(num_blocks), kNullBlock); }
  void truncate(std::int32_t num_blocks) { block_ids_.resize(begin_of(num_blocks)); }
  void set(std::int32_t block, std::int32_t page, BlockId block_id) {
    block_ids_[begin_of(block) + static_cast<std::size_t>(page)] = block_id;
  }

  std::int32_t size() const {  // blocks
    return static_cast<std::int32_t>(block_ids_.size()) / pages_per_block_;
  }
  std::int32_t pages_per_block() const { return pages_per_block_; }
  BlockId at(std::int32_t block, std::int32_t page = 0) const {
    return block_ids_[begin_of(block) + static_cast<std::size_t>(page)];
  }
  std::span<const BlockId> block(std::int32_t block) const {
    return std::span(block_ids_).subspan(begin_of(block), begin_of(1));
  }
  const std::vector<BlockId>& block_ids() const { return block_ids_; }  // all entries

 private:
  std::size_t begin_of(std::int32_t block) const {
    return static_cast<std::size_t>(block) * static_cast<std::size_t>(pages_per_block_);
  }

  std::int32_t pages_per_block_;
  std::vector<BlockId> block_ids_;
};

}  // namespace quire
