#include "core/block_pool.h"

#include <cassert>

#include <fmt/format.h>

namespace quire {

BlockPool::BlockPool(std::int32_t num_blocks) : blocks_(static_cast<std::size_t>(num_blocks)) {
  assert(num_blocks > 0);
  for (BlockId id = 0; id < num_blocks; ++id) append_free(id);
}

std::optional<BlockId> BlockPool::allocate() {
  if (num_free_ == 0) return std::nullopt;
  const BlockId id = first_free_;
  take(id);
  return id;
}

void BlockPool::take(BlockId block_id) {
  assert(block(block_id).reference_count == 0);
  remove_free(block_id);
  block(block_id).reference_count = 1;
  ++num_references_;
}

void BlockPool::add_reference(BlockId block_id) {
  assert(block(block_id).reference_count > 0);
  if (++block(block_id).reference_count == 2) ++num_shared_;
  ++num_references_;
}

void BlockPool::release(BlockId block_id, FreeListEnd end) {
  assert(block(block_id).reference_count > 0);
  --num_references_;
  const std::int32_t left = --block(block_id).reference_count;
  if (left == 1) --num_shared_;
  if (left > 0) return;
  end == FreeListEnd::kBack ? append_free(block_id) : prepend_free(block_id);
}

void BlockPool::move_to_front(BlockId block_id) {
  assert(block(block_id).reference_count == 0);
  remove_free(block_id);
  prepend_free(block_id);
}

std::int32_t BlockPool::reference_count(BlockId block_id) const {
  return blocks_[static_cast<std::size_t>(block_id)].reference_count;
}

BlockPool::Block& BlockPool::block(BlockId block_id) {
  return blocks_[static_cast<std::size_t>(block_id)];
}

void BlockPool::append_free(BlockId block_id) {
  block(block_id).previous_free = last_free_;
  block(block_id).next_free = kNone;
  (last_free_ == kNone ? first_free_ : block(last_free_).next_free) = block_id;
  last_free_ = block_id;
  ++num_free_;
}

void BlockPool::prepend_free(BlockId block_id) {
  block(block_id).previous_free = kNone;
  block(block_id).next_free = first_free_;
  (first_free_ == kNone ? last_free_ : block(first_free_).previous_free) = block_id;
  first_free_ = block_id;
  ++num_free_;
}

void BlockPool::remove_free(BlockId block_id) {
  const BlockId previous = block(block_id).previous_free;
  const BlockId next = block(block_id).next_free;
  (previous == kNone ? first_free_ : block(previous).next_free) = next;
  (next == kNone ? last_free_ : block(next).previous_free) = previous;
  block(block_id).previous_free = kNone;
  block(block_id).next_free = kNone;
  --num_free_;
}

std::vector<BlockId> BlockPool::free_block_ids() const {
  std::vector<BlockId> ids;
  ids.reserve(static_cast<std::size_t>(num_free_));
  for (BlockId id = first_free_; id != kNone;
       id = blocks_[static_cast<std::size_t>(id)].next_free) {
    ids.push_back(id);
  }
  return ids;
}

Result<BlockPool> BlockPool::restore(std::span<const std::int32_t> reference_counts,
                                     std::span<const BlockId> free_block_ids) {
  BlockPool pool(static_cast<std::int32_t>(reference_counts.size()));
  for (BlockId id = 0; id < pool.num_blocks(); ++id) {
    const std::int32_t count = reference_counts[static_cast<std::size_t>(id)];
    if (count > 0) pool.take(id);
    for (std::int32_t i = 1; i < count; ++i) pool.add_reference(id);
  }
  std::vector<bool> listed(reference_counts.size(), false);
  for (const BlockId id : free_block_ids) {
    if (id < 0 || id >= pool.num_blocks() || listed[static_cast<std::size_t>(id)] ||
        pool.reference_count(id) != 0) {
      return Status::invalid_argument(fmt::format("block {} is not free, or listed twice", id));
    }
    listed[static_cast<std::size_t>(id)] = true;
    pool.remove_free(id);  // to the end of the list, so that at last it has the order given
    pool.append_free(id);
  }
  if (std::ssize(free_block_ids) != pool.num_free_blocks()) {
    return Status::invalid_argument(fmt::format("{} blocks are free, {} are listed",
                                                pool.num_free_blocks(), free_block_ids.size()));
  }
  return pool;
}

Status BlockPool::check_invariants() const {
  std::int32_t num_listed = 0;
  BlockId previous = kNone;
  for (BlockId id = first_free_; id != kNone;) {
    const Block& free_block = blocks_[static_cast<std::size_t>(id)];
    if (free_block.reference_count != 0) {
      return Status::internal(fmt::format("block {} is in the free list with {} references", id,
                                          free_block.reference_count));
    }
    if (free_block.previous_free != previous) {
      return Status::internal(fmt::format("block {}: the free list's links disagree", id));
    }
    if (++num_listed > num_blocks()) return Status::internal("the free list has a cycle");
    previous = id;
    id = free_block.next_free;
  }
  if (last_free_ != previous) return Status::internal("the free list ends at the wrong block");
  std::int32_t num_unreferenced = 0;
  std::int32_t num_shared = 0;
  std::int64_t num_references = 0;
  for (const Block& each : blocks_) {
    num_unreferenced += each.reference_count == 0 ? 1 : 0;
    num_shared += each.reference_count > 1 ? 1 : 0;
    num_references += each.reference_count;
  }
  if (num_listed != num_free_ || num_unreferenced != num_free_) {
    return Status::internal(
        fmt::format("{} blocks are counted as free, {} are in the free list, {} have no reference",
                    num_free_, num_listed, num_unreferenced));
  }
  if (num_references != num_references_ || num_shared != num_shared_) {
    return Status::internal(
        fmt::format("{} references and {} shared blocks are counted; the blocks have {} and {}",
                    num_references_, num_shared_, num_references, num_shared));
  }
  return {};
}

}  // namespace quire
