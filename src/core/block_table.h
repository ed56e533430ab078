// Where the keys and values of one request lie, in one KV group: token i is in slot i % block_size
// of block block_ids[i / block_size]. An executor keeps a copy and is told what is new, and what
// was taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

class BlockTable {
 public:
  void reserve(std::size_t count) { block_ids_.reserve(count); }
  void clear() { block_ids_.clear(); }  // capacity stays
  void append(BlockId block_id) { block_ids_.push_back(block_id); }
  void truncate(std::int32_t size) { block_ids_.resize(static_cast<std::size_t>(size)); }
  // The block at `index` was shared and has been copied; the content stays the same.
  void replace_with_copy(std::int32_t index, BlockId block_id) {
    block_ids_[static_cast<std::size_t>(index)] = block_id;
  }

  std::int32_t size() const { return static_cast<std::int32_t>(block_ids_.size()); }
  BlockId operator[](std::int32_t index) const {
    return block_ids_[static_cast<std::size_t>(index)];
  }
  const std::vector<BlockId>& block_ids() const { return block_ids_; }

 private:
  std::vector<BlockId> block_ids_;
};

}  // namespace quire
